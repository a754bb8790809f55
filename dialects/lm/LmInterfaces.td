// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Interfaces by which passes see lm operations without listing their names.
#ifndef SLUICE_LM_INTERFACES
#define SLUICE_LM_INTERFACES

include "mlir/IR/OpBase.td"

def Lm_CostOpInterface : OpInterface<"CostOpInterface"> {
  let cppNamespace = "::sluicec::lm";
  let description = [{
    What one execution over `rows` rows (tokens; logit rows after lm.logit_rows) costs. Formulas: a multiply and an add are
    two FLOPs; bytes are those of weights read once.
  }];
  let methods = [InterfaceMethod<
    "FLOPs for that many rows, each attending to `kvLength` cache entries.", "double", "flops",
    (ins "int64_t":$rows, "int64_t":$kvLength)>,
  InterfaceMethod<
    "Bytes of weights read for that many rows: for experts, those of the expected number of different experts.",
    "double", "weightBytes", (ins "int64_t":$rows)>];
}

def Lm_TokenWiseOpInterface : OpInterface<"TokenWiseOpInterface"> {
  let cppNamespace = "::sluicec::lm";
  let description = [{
    Row r of each result depends on row r of each activation operand alone, so that leading dimensions [batch, seq] may become [tokens].
    Upstream elementwise operations on tensors have that property without this interface.
  }];
}

def Lm_WeightOpInterface : OpInterface<"WeightOpInterface"> {
  let cppNamespace = "::sluicec::lm";
  let description = [{
    Part of a weight's recipe: its result is known when the package is written and is computed then, as a stream; all operands are weights too.
  }];
}

def Lm_MatrixOpInterface : OpInterface<"MatrixOpInterface"> {
  let cppNamespace = "::sluicec::lm";
  let description = [{
    Multiplies by weight matrices, or looks up their rows: the weights that make up a model's size and may be stored narrower.
    All other weights (norms, biases, sinks, corrections) are small.
  }];
  let methods = [InterfaceMethod<"The operands that are matrices.", "::llvm::SmallVector<::mlir::OpOperand *>", "matrices", (ins)>];
}
#endif
