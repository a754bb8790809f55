// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Inference rules of operators with subgraphs. InferShapes has inferred the bodies before;
// `subgraphResults` holds what they yield.
#include "dialects/onnx/ElementTypes.h"
#include "dialects/onnx/ShapeRules.h"

using namespace mlir;
using namespace sluicec::onnx;
using namespace sluicec::onnx::rules;

// What holds for a tensor that is `a` or `b`: sizes that differ become unknown.
static TensorFacts mergeFacts(const TensorFacts &a, const TensorFacts &b) {
  TensorFacts merged;
  merged.elementType = a.elementType ? a.elementType : b.elementType;
  if (a.shape && b.shape && a.shape->size() == b.shape->size()) {
    merged.shape = SymbolicShape();
    for (auto [x, y] : llvm::zip_equal(*a.shape, *b.shape)) {
      merged.shape->push_back(x == y ? x : SymbolicExpr());
    }
  }
  return merged;
}

LogicalResult rules::ifOp(InferContext &c) {
  if (c.subgraphResults.size() != 2) {
    return c.error() << "has " << c.subgraphResults.size()
                     << " subgraphs, expected then_branch and else_branch";
  }
  // Subgraphs are in the order of their attribute names: else_branch, then_branch.
  for (size_t i = 0; i < c.results.size(); ++i) {
    if (c.subgraphResults[0].size() != c.results.size() ||
        c.subgraphResults[1].size() != c.results.size()) {
      return c.error() << "the branches give " << c.subgraphResults[0].size() << " and "
                       << c.subgraphResults[1].size() << " results, expected " << c.results.size();
    }
    const TensorFacts &a = c.subgraphResults[0][i];
    const TensorFacts &b = c.subgraphResults[1][i];
    if (a.elementType && b.elementType && a.elementType != b.elementType) {
      return c.error() << "result " << i << " is " << elementTypeText(a.elementType)
                       << " in one branch and " << elementTypeText(b.elementType)
                       << " in the other";
    }
    c.results[i] = mergeFacts(a, b);
  }
  return success();
}

// Operands: trip count, condition, carried values; the body yields condition, carried values, scan
// rows.
LogicalResult rules::loop(InferContext &c) {
  size_t carried = c.operands.size() < 2 ? 0 : c.operands.size() - 2;
  if (c.subgraphResults.size() != 1 || c.subgraphResults[0].size() != c.results.size() + 1 ||
      c.results.size() < carried) {
    return c.error() << "the body's results do not match the loop's " << c.results.size()
                     << " results and " << carried << " carried values";
  }
  for (size_t i = 0; i < c.results.size(); ++i) {
    TensorFacts yielded = c.subgraphResults[0][i + 1];
    if (i < carried) {
      c.results[i] = mergeFacts(yielded, c.operand(i + 2));
    } else {
      if (yielded.shape) {
        yielded.shape->insert(yielded.shape->begin(), SymbolicExpr());
      }
      c.setResult(i, yielded.elementType, yielded.shape);
    }
  }
  return success();
}

// Operands: states, then scan inputs; the body yields states, then one row of each scan output.
LogicalResult rules::scan(InferContext &c) {
  int64_t scanned = c.binder.attrInt("num_scan_inputs", 0);
  auto total = static_cast<int64_t>(c.operands.size());
  if (scanned < 1 || scanned > total || c.subgraphResults.size() != 1 ||
      c.subgraphResults[0].size() != c.results.size()) {
    return c.error() << "num_scan_inputs (" << scanned << ") or the body's results do not fit";
  }
  auto states = static_cast<size_t>(total - scanned);
  for (size_t i = 0; i < c.results.size(); ++i) {
    TensorFacts yielded = c.subgraphResults[0][i];
    if (i < states) {
      c.results[i] = mergeFacts(yielded, c.operand(i));
    } else {
      c.setResult(i, yielded.elementType,
                  yielded.shape ? std::optional(SymbolicShape(yielded.shape->size() + 1))
                                : std::nullopt);
    }
  }
  return success();
}
