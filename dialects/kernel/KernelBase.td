// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The kernel dialect: what is launched, with which buffers, in which order. Between lm and a target's code generator.
#ifndef SLUICE_KERNEL_BASE
#define SLUICE_KERNEL_BASE

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/EnumAttr.td"

def Kernel_Dialect : Dialect {
  let name = "kernel";
  let cppNamespace = "::sluicec::kernel";
  let summary = "Kernels and the launch list of a step";
  let description = [{
    A module holds kernels (`kernel.func`: a grid and one template operation, or an elementwise body) and one `kernel.program`:
    buffers and a list of launches in order. Equal layers share a kernel. A grid cell is a task on a CPU, a thread block on CUDA.
    Buffers are flat memory of `count(unit) * per_unit + fixed` elements; all rows are contiguous and row-major.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let dependentDialects = ["::sluicec::lm::LmDialect"];
}

// What a buffer's or grid's size depends on. The same names stand in runtime/package/package.fbs.
def Kernel_Unit : I32EnumAttr<"Unit", "what a size depends on", [
  I32EnumAttrCase<"Fixed", 0, "fixed">,
  I32EnumAttrCase<"Tokens", 1, "tokens">,
  I32EnumAttrCase<"Seqs", 2, "seqs">,
  I32EnumAttrCase<"LogitRows", 3, "logit_rows">,
  I32EnumAttrCase<"Table", 4, "table">,   // seqs * max_blocks: one group's block table
  I32EnumAttrCase<"Blocks", 5, "blocks">, // blocks of a cache group's pool
]> {
  let cppNamespace = "::sluicec::kernel";
  let genSpecializedAttr = 0;
}

def Kernel_BufferType : TypeDef<Kernel_Dialect, "Buffer"> {
  let mnemonic = "buffer";
  let summary = "count(unit) * perUnit + fixed elements of contiguous memory";
  let parameters = (ins EnumParameter<Kernel_Unit>:$unit, "int64_t":$perUnit, "int64_t":$fixed, "::mlir::Type":$element);
  let assemblyFormat = "`<` $unit `*` $perUnit `+` $fixed `x` $element `>`";
}

def Kernel_GridDimAttr : AttrDef<Kernel_Dialect, "GridDim"> {
  let mnemonic = "grid_dim";
  let summary = "ceil((count(unit) * perUnit + fixed) / tile) cells; the last dimension of a grid runs fastest";
  let parameters = (ins EnumParameter<Kernel_Unit>:$unit, "int64_t":$perUnit, "int64_t":$fixed, "int64_t":$tile);
  let assemblyFormat = "`<` $unit `*` $perUnit `+` $fixed `tile` $tile `>`";
}

def Kernel_OffsetAttr : AttrDef<Kernel_Dialect, "Offset"> {
  let mnemonic = "offset";
  let summary = "Byte offset in the workspace, linear in the step's capacities: fixed + tokens * t + seqs * s + logitRows * r";
  let parameters = (ins "int64_t":$fixed, "int64_t":$tokens, "int64_t":$seqs, "int64_t":$logitRows);
  let assemblyFormat = "`<` struct(params) `>`";
}

// How a weight lies in the package.
def Kernel_LayoutKind : I32EnumAttr<"LayoutKind", "how a weight lies in the package", [
  I32EnumAttrCase<"Plain", 0, "plain">,  // row-major, as the recipe gives it
  I32EnumAttrCase<"Panel", 1, "panel">,  // [.., N, K] -> [.., ceil(N / width), K, width], missing columns 0
  I32EnumAttrCase<"GatedPanel", 2, "gated_panel">, // [.., 2I, K] -> panels of width / 2 gate columns, then their width / 2 up columns
]> {
  let cppNamespace = "::sluicec::kernel";
  let genSpecializedAttr = 0;
}
def Kernel_LayoutAttr : AttrDef<Kernel_Dialect, "Layout"> {
  let mnemonic = "layout";
  let parameters = (ins EnumParameter<Kernel_LayoutKind>:$kind, "int64_t":$width);
  let assemblyFormat = "`<` $kind `,` $width `>`";
}

// The inputs of a step, design.md 4.
def Kernel_InputKind : I32EnumAttr<"InputKind", "an input buffer of the step", [
  I32EnumAttrCase<"TokenIds", 0, "token_ids">,     // [tokens] i32
  I32EnumAttrCase<"Positions", 1, "positions">,    // [tokens] i32
  I32EnumAttrCase<"SeqStart", 2, "seq_start">,     // [seqs + 1] i32
  I32EnumAttrCase<"KvLength", 3, "kv_length">,     // [seqs] i32, after this step
  I32EnumAttrCase<"BlockTable", 4, "block_table">, // one group's [seqs, max_blocks] i32, -1 = dropped
  I32EnumAttrCase<"LogitRows", 5, "logit_rows">,   // [logit_rows] i32
]> {
  let cppNamespace = "::sluicec::kernel";
  let genSpecializedAttr = 0;
}
def Kernel_InputKindAttr : EnumAttr<Kernel_Dialect, Kernel_InputKind, "input_kind">;
#endif
