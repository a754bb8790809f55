// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The operations of the onnx dialect: a generic node, its weights and constants, and the marker of an absent operand.
#ifndef SLUICE_DIALECTS_ONNX_ONNXOPS_TD
#define SLUICE_DIALECTS_ONNX_ONNXOPS_TD

include "dialects/onnx/OnnxDialect.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/OpBase.td"
include "mlir/Interfaces/SideEffectInterfaces.td"

class Onnx_Op<string mnemonic, list<Trait> traits = []> : Op<OnnxDialect, mnemonic, traits>;

def Onnx_NodeOp : Onnx_Op<"node", [Pure]> {
  let summary = "One ONNX operator";
  let description = [{
    The operator `op_type` of `domain` ("" is ai.onnx) with the semantics of the schema that `since_version` names: the newest version of the
    operator's schema that is not newer than the model's opset import.

    ```mlir
    %y = onnx.node "MatMul"(%a, %b) version 13 : (tensor<?x8xf32>, tensor<8x4xf32>) -> tensor<?x4xf32>
    %v, %i = onnx.node "TopK"(%x, %k) version 11 {axis = -1 : i64} : (tensor<2x8xf32>, tensor<1xi64>) -> (tensor<2x2xf32>, tensor<2x2xi64>)
    %z = onnx.node "com.microsoft.MoE"(%x, %r, %w, %none) version 1 {k = 2 : i64} : (…) -> tensor<2x8xf32>
    ```

    `attrs` holds the ONNX attributes that the file states; defaults come from the table (NodeBinder gives both). INT is an i64 IntegerAttr,
    FLOAT an f32 FloatAttr, STRING a StringAttr, INTS a DenseI64ArrayAttr, FLOATS a DenseF32ArrayAttr, STRINGS an ArrayAttr, TENSOR a
    DenseElementsAttr (a large one is a WeightStore name, as a FlatSymbolRefAttr). An absent optional operand is an `onnx.none`, an unused optional
    result has type `none`. `subgraphs` are the bodies of If, Loop and Scan, in the order of their attribute names; they see the values
    around them.

    In text `version` may be left out: the newest version of the table is taken.
  }];
  let arguments = (ins Variadic<AnyType>:$inputs, StrAttr:$op_type, DefaultValuedStrAttr<StrAttr, "">:$domain, I64Attr:$since_version,
      DictionaryAttr:$attrs);
  let results = (outs Variadic<AnyType>:$outputs);
  let regions = (region VariadicRegion<SizedRegion<1>>:$subgraphs);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// "Add" or "com.microsoft.MoE": the operator as diagnostics and the textual form write it.
    std::string qualifiedName();
    /// True where the node is `op_type` of `domain`, any version.
    bool is(llvm::StringRef domain, llvm::StringRef opType) { return getOpType() == opType && getDomain() == domain; }
  }];
}

def Onnx_ConstantOp : Onnx_Op<"constant", [Pure, ConstantLike, AllTypesMatch<["value", "result"]>]> {
  let summary = "A small tensor with its values";
  let description = [{
    An initializer or Constant small enough that its values matter to the analysis (see kMaxInlineElements). `name` is its key in the WeightStore;
    a constant that a pass made has none.

    ```mlir
    %c = onnx.constant dense<[1, -1]> : tensor<2xi64>
    %s = onnx.constant "model.norm.eps" dense<1.0e-5> : tensor<f32>
    ```
  }];
  let arguments = (ins OptionalAttr<StrAttr>:$name, ElementsAttr:$value);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = "($name^)? attr-dict $value";
  let hasFolder = 1;
  let builders = [OpBuilder<(ins "::mlir::ElementsAttr":$value), [{ build($_builder, $_state, value.getShapedType(), nullptr, value); }]>];
}

def Onnx_WeightOp : Onnx_Op<"weight", [Pure]> {
  let summary = "A tensor whose bytes stay in the file";
  let description = [{
    `name` is the key in the WeightStore; the shape is static. `%w = onnx.weight "lm_head.weight" : tensor<320x64xf32>`
  }];
  let arguments = (ins StrAttr:$name);
  let results = (outs AnyStaticShapeTensor:$result);
  let assemblyFormat = "$name attr-dict `:` type($result)";
}

def Onnx_NoneOp : Onnx_Op<"none", [Pure, ConstantLike]> {
  let summary = "Stands for an optional operand that the file leaves out";
  let results = (outs NoneType:$result);
  let assemblyFormat = "attr-dict";
  let hasFolder = 1;
}

def Onnx_YieldOp : Onnx_Op<"yield", [Pure, Terminator, ParentOneOf<["NodeOp"]>]> {
  let summary = "Results of a subgraph";
  let arguments = (ins Variadic<AnyType>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let builders = [OpBuilder<(ins), [{ build($_builder, $_state, ::mlir::ValueRange()); }]>];
}

#endif
