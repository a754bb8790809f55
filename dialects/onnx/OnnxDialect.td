// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The onnx dialect, its string type and the attribute with a tensor's symbolic dimensions.
#ifndef SLUICE_DIALECTS_ONNX_ONNXDIALECT_TD
#define SLUICE_DIALECTS_ONNX_ONNXDIALECT_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/DialectBase.td"
include "mlir/IR/TensorEncoding.td"

def OnnxDialect : Dialect {
  let name = "onnx";
  let cppNamespace = "::sluicec::onnx";
  let summary = "An ONNX graph as the file states it";
  let description = [{
    The first of the three IR levels. One generic operation `onnx.node`, keyed by (domain, op type, schema version), holds every
    operator; what is known about an operator (attribute defaults, shapes, element types) is one row of the table in OnnxOpTable.
    Defining an operation per ONNX operator would write that table a second time; patterns bind operands and attributes with NodeBinder.

    The graph is `func.func @main`; its arguments and results carry `onnx.name`. Tensors carry the file's symbolic dimensions as
    encoding `#onnx.dims`. The location of an operation is `NameLoc("node name", FileLineColLoc("model.onnx", index, kind))`,
    kind as in `LocationKind`.
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
  let hasConstantMaterializer = 1;
}

def Onnx_StringType : TypeDef<OnnxDialect, "String"> {
  let mnemonic = "string";
  let summary = "Element type of ONNX string tensors";
  let description = "Opaque: no compiled model computes on strings, but a file may carry them.";
}

def Onnx_UnknownType : TypeDef<OnnxDialect, "Unknown"> {
  let mnemonic = "unknown";
  let summary = "Element type that inference has not found yet";
  let description = "Only between the reading of a file and the end of its inference; `tensor<*x!onnx.unknown>`.";
}

def Onnx_DimsAttr : AttrDef<OnnxDialect, "Dims", [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "dims";
  let summary = "Symbolic sizes of a tensor's dynamic dimensions";
  let description = [{
    One string per dimension: a sum of products of the file's dimension names in the canonical form of SymbolicExpr, or "" where the
    dimension is static or unknown. `tensor<?x?x64xf32, #onnx.dims<"batch", "past + seq", "">>`
  }];
  let parameters = (ins ArrayRefParameter<"::mlir::StringAttr">:$names);
  let assemblyFormat = "`<` $names `>`";
}

#endif
