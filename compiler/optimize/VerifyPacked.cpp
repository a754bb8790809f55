// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// verify-packed: what lowering may rely on.
#include "compiler/optimize/ModelSignature.h"
#include "compiler/optimize/RowIndependence.h"
#include "dialects/lm/LmDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

using namespace mlir;

namespace sluicec::optimize {
#define GEN_PASS_DEF_VERIFYPACKED
#include "compiler/optimize/Passes.h.inc"

namespace {

class PackedVerifier {
public:
  explicit PackedVerifier(func::FuncOp func) : func(func) {}

  LogicalResult run() {
    if (failed(verifyArguments()) || failed(verifyOperations())) {
      return failure();
    }
    return verifyResults();
  }

private:
  func::FuncOp func;
  llvm::DenseMap<Value, unsigned>
      lastCache; // a cache argument's last value -> its number among caches
  unsigned numCaches = 0;

  LogicalResult verifyArguments();
  LogicalResult verifyOperations();
  LogicalResult verifyOperation(Operation &op);
  LogicalResult verifyCache(BlockArgument argument);
  LogicalResult verifyResults();
};

} // namespace

LogicalResult PackedVerifier::verifyArguments() {
  llvm::StringMap<unsigned> counts;
  for (BlockArgument argument : func.getArguments()) {
    StringRef role = argumentRole(func, argument.getArgNumber());
    auto tensor = dyn_cast<RankedTensorType>(argument.getType());
    bool isIds = tensor && tensor.getRank() == 1 && tensor.getElementType().isInteger(32) &&
                 tensor.isDynamicDim(0);
    bool fits = role == "batch"   ? isa<lm::BatchType>(argument.getType())
                : role == "cache" ? isa<lm::CacheType>(argument.getType())
                                  : (role == "token_ids" || role == "position_ids") && isIds;
    if (!fits) {
      return func.emitError()
             << "argument #" << argument.getArgNumber() << " is " << argument.getType()
             << " of role '" << role
             << "'; expected token_ids and position_ids tensor<?xi32>, a batch and caches";
    }
    ++counts[role];
    if (role == "cache" && failed(verifyCache(argument))) {
      return failure();
    }
  }
  for (StringRef role : {"token_ids", "position_ids", "batch"}) {
    if (counts[role] != 1) {
      return func.emitError() << "has " << counts[role] << " arguments of role " << role
                              << ", expected one";
    }
  }
  return success();
}

/// Follows the one chain of values of a cache: readers, then one append or the return.
LogicalResult PackedVerifier::verifyCache(BlockArgument argument) {
  llvm::DenseSet<int64_t> appended;
  Value current = argument;
  for (;;) {
    Operation *next = nullptr, *lastReader = nullptr;
    for (Operation *user : current.getUsers()) {
      if (auto attention = dyn_cast<lm::AttentionOp>(user)) {
        if (!appended.contains(attention.getLayer())) {
          return attention.emitError() << "reads layer " << attention.getLayer()
                                       << " of the cache before this step's rows are "
                                       << "appended; expected lm.cache_append of that layer first";
        }
        lastReader = lastReader && user->isBeforeInBlock(lastReader) ? lastReader : user;
        continue;
      }
      if (!isa<lm::CacheAppendOp, func::ReturnOp>(user)) {
        return user->emitError("uses a cache; only lm.cache_append, lm.attention and return do");
      }
      if (next) {
        return user->emitError("uses a cache value that is used up already; expected each to be "
                               "appended to or returned once");
      }
      next = user;
    }
    if (!next) {
      return func.emitError() << "cache argument #" << argument.getArgNumber()
                              << " is not returned after its last append";
    }
    if (lastReader && next->isBeforeInBlock(lastReader)) {
      return lastReader->emitError(
          "reads a cache value after it was appended to; expected the appended value");
    }
    auto append = dyn_cast<lm::CacheAppendOp>(next);
    if (!append) {
      break;
    }
    if (!appended.insert(append.getLayer()).second) {
      return append.emitError() << "appends to layer " << append.getLayer() << " a second time";
    }
    current = append.getResult();
  }
  int64_t layers = cast<lm::CacheType>(argument.getType()).getLayers();
  if (static_cast<int64_t>(appended.size()) != layers) {
    return func.emitError() << "cache argument #" << argument.getArgNumber() << " has " << layers
                            << " layers, " << appended.size() << " are appended to";
  }
  lastCache[current] = numCaches++;
  return success();
}

LogicalResult PackedVerifier::verifyOperation(Operation &op) {
  if (isa<lm::WeightOpInterface>(op)) {
    for (Value v : op.getOperands()) {
      if (!isa_and_nonnull<lm::WeightOpInterface>(v.getDefiningOp())) {
        return op.emitError("is part of a weight's recipe but reads a value that is not known "
                            "before the model runs");
      }
    }
    return success();
  }
  bool onRows = llvm::any_of(op.getOperands(), [](Value v) {
    return isa<RankedTensorType>(v.getType()) && !isRowFree(v);
  });
  if (isa<tensor::TensorDialect>(op.getDialect()) && !isTokenWise(&op, 1)) {
    onRows = !isa<tensor::DimOp, tensor::EmptyOp, tensor::SplatOp>(
        op); // sizes and fills of elementwise code
  }
  if (!onRows) {
    return success();
  }
  if (!isTokenWise(&op, 1) && !takesBatch(&op)) {
    return op.emitError()
           << "(" << op.getName()
           << ") belongs to the padded form or mixes tokens; expected page-kv-cache and "
           << "pack-tokens to leave none";
  }
  for (Value result : op.getResults()) {
    auto type = dyn_cast<RankedTensorType>(result.getType());
    if (type && (type.getRank() < 1 || !type.isDynamicDim(0) ||
                 llvm::any_of(type.getShape().drop_front(), ShapedType::isDynamic))) {
      return op.emitError() << "gives " << type << ", expected [?, fixed sizes..]";
    }
  }
  return success();
}

LogicalResult PackedVerifier::verifyOperations() {
  for (Operation &op : func.getBody().front().without_terminator()) {
    if (failed(verifyOperation(op))) {
      return failure();
    }
  }
  return success();
}

/// True where every row of `value` was chosen by lm.logit_rows: followed back through token-wise
/// operations.
static bool isOfLogitRows(Value value, llvm::DenseMap<Value, bool> &known) {
  Operation *op = value.getDefiningOp();
  if (!op) {
    return false;
  }
  if (auto found = known.find(value); found != known.end()) {
    return found->second;
  }
  bool chosen = isa<lm::LogitRowsOp>(op);
  if (!chosen && isTokenWise(op, 1)) {
    chosen = llvm::all_of(op->getOperands(), [&](Value v) {
      return isRowFree(v) || isa<IndexType>(v.getType()) ||
             isa_and_nonnull<tensor::EmptyOp>(v.getDefiningOp()) || isOfLogitRows(v, known);
    });
  }
  return known[value] = chosen;
}

LogicalResult PackedVerifier::verifyResults() {
  func::ReturnOp ret = returnOf(func);
  unsigned nextCache = 0;
  llvm::DenseMap<Value, bool> known;
  bool hasLogits = false;
  for (auto [i, value] : llvm::enumerate(ret.getOperands())) {
    StringRef role = resultRole(func, static_cast<unsigned>(i));
    if (role == "cache") {
      auto found = lastCache.find(value);
      if (found == lastCache.end() || found->second != nextCache++) {
        return ret.emitError() << "result #" << i << " is not the last value of cache "
                               << nextCache - 1
                               << "; expected caches in the order of the arguments";
      }
      continue;
    }
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (role != "logits" || hasLogits || !type || type.getRank() != 2 ||
        !type.getElementType().isF32()) {
      return ret.emitError() << "result #" << i << " is " << value.getType() << " of role '" << role
                             << "'; expected one logits tensor<?xVxf32>, then caches";
    }
    hasLogits = true;
    if (!isOfLogitRows(value, known)) {
      return ret.emitError("gives logits of all tokens; expected those of lm.logit_rows");
    }
  }
  if (!hasLogits) {
    return ret.emitError("gives no logits");
  }
  return success();
}

namespace {

struct VerifyPacked : impl::VerifyPackedBase<VerifyPacked> {
  using VerifyPackedBase::VerifyPackedBase;

  void runOnOperation() override {
    if (isModel(getOperation()) && failed(PackedVerifier(getOperation()).run())) {
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace sluicec::optimize
