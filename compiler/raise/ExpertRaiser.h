// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What raise-moe's matchers share. Each way of writing experts ends in the same lm operations:
// route, grouped_linear for gate, up and down, gated_activation, combine.
#pragma once

#include "compiler/raise/RaiseRewriter.h"

namespace sluicec::raise {

/// Weights of a layer's experts. E experts, K features, I inner features.
struct ExpertWeights {
  mlir::Value gate, up;                   // [E, I, K]
  mlir::Value down;                       // [E, K, I]
  mlir::Value gateBias, upBias, downBias; // [E, I], [E, I], [E, K] or null
};

/// One expert of a sum over experts, each times the router's weight for it: x [B, S, K] through
/// gate, up and down.
struct ExpertTerm {
  int64_t expert = 0;
  mlir::Value weights, ids;               // [B, S, k] of one lm.route
  mlir::Value x;                          // [B, S, K]
  mlir::Value gate, up, down;             // [I, K], [I, K], [K, I]
  mlir::Value gateBias, upBias, downBias; // [I], [I], [K] or null
  lm::GatedActivationAttr activation;
  mlir::Operation *op = nullptr;
};

class ExpertRaiser {
public:
  explicit ExpertRaiser(mlir::func::FuncOp function) : rewriter(function) {}

  RaiseRewriter rewriter;

  // Each returns true where it raised `node`, false where the node is something else, and fails
  // after reporting an error.
  /// TopK over router scores, with the softmax or sigmoid before it and the normalisation behind
  /// it.
  mlir::FailureOr<bool> raiseRoute(onnx::NodeBinder node);
  /// MatMul of rows with weights that Gather or GatherND chose by expert id.
  mlir::FailureOr<bool> raiseGatheredMatMul(onnx::NodeBinder node);
  /// Add of a bias that was chosen by expert id.
  mlir::FailureOr<bool> raiseGatheredBias(onnx::NodeBinder node);
  /// ReduceSum over the choices of expert results times weights.
  mlir::FailureOr<bool> raiseCombine(onnx::NodeBinder node);
  /// TopK that sorts all choices by expert; remembered.
  mlir::FailureOr<bool> raiseSort(onnx::NodeBinder node);
  /// Gather into the sorted order or back.
  mlir::FailureOr<bool> raiseSortedGather(onnx::NodeBinder node);
  /// Concat of one product per expert on its range of sorted rows.
  mlir::FailureOr<bool> raiseSortedMatMuls(onnx::NodeBinder node);
  /// com.microsoft.MoE.
  mlir::FailureOr<bool> raiseOperator(onnx::NodeBinder node);
  /// MatMul of all rows with all experts' weights, chosen behind it.
  mlir::FailureOr<bool> raiseDenseExperts(onnx::NodeBinder node);
  /// The root of a sum over all experts, each computed for all rows and masked by the router's
  /// choice.
  mlir::FailureOr<bool> raiseExpertSum(onnx::NodeBinder root);

private:
  int64_t numLayers = 0; // routes so far
  llvm::DenseSet<mlir::Operation *> visitedSums;

  /// All choices of a layer sorted by expert.
  struct Sorting {
    mlir::Value ids;         // [B, S, k]
    SymbolicExpr order;      // choice at place %0
    mlir::Value sorted;      // experts in that order
    mlir::Value permutation; // `order` as the graph's tensor
  };
  std::vector<Sorting> sortings;
  bool isRangeEnd(mlir::Value value, int64_t expert, const Sorting &sorting);

  struct Route {
    mlir::Value weights, ids; // [B, S, k] f32, i32
  };
  struct RouteSpec {
    mlir::Value logits; // [B, S, E]
    int64_t topK = 0;
    lm::ScoreFunction score = lm::ScoreFunction::SoftmaxAll;
    bool normalize = false;
    double scale = 1.0;
    mlir::Value correction; // [E] or null
  };
  /// Emits lm.route and its probes.
  Route emitRoute(const RouteSpec &spec, mlir::Location loc);
  /// The whole layer over rows `x` [B, S, K]: -> [B, S, K].
  mlir::Value emitExperts(mlir::Value x, const Route &route, const ExpertWeights &weights,
                          lm::GatedActivationAttr activation, mlir::Location loc);
  mlir::Value groupedLinear(mlir::Value x, mlir::Value ids, mlir::Value weight, mlir::Value bias,
                            mlir::Location loc);
  /// Weights, activation and rows x where `result` is what one expert makes of them.
  std::optional<ExpertTerm> readExpert(mlir::Value result);
  std::optional<ExpertTerm> readMaskedTerm(mlir::Value value);
  std::optional<ExpertTerm> readScatteredTerm(mlir::Value value);
  /// The layer that the terms of one sum make; fails after an error where an expert is missing,
  /// twice or unlike the others.
  mlir::FailureOr<mlir::Value> joinExperts(onnx::NodeBinder root, llvm::ArrayRef<ExpertTerm> terms);
  /// Expert ids [B, S, k] that `index` flattens; null where it is anything else.
  mlir::Value idsOf(mlir::Value index);
};

} // namespace sluicec::raise
