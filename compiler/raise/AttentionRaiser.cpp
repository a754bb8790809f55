// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Caches, masks and the lm operations of an attention; the ways of writing one are in
// AttentionArithmetic.cpp and AttentionOperators.cpp.
#include "compiler/raise/AttentionRaiser.h"

#include "dialects/onnx/InferShapes.h"

using namespace mlir;
using namespace sluicec;
using namespace sluicec::raise;
using sluicec::onnx::NodeBinder;

Value AttentionRaiser::append(Value past, Value rows, Location loc, Value like) {
  SymbolicShape shape = shapeOf(past);
  shape[2] = like ? shapeOf(like)[2] : shape[2] + shapeOf(rows)[1];
  RankedTensorType type = onnx::rankedType(shape, rewriter.builder.getF32Type());
  return lm::PaddedAppendOp::create(rewriter.builder, loc, type, past, rows);
}

FailureOr<bool> AttentionRaiser::raiseAppend(NodeBinder node) {
  if (!node.is("Concat") || node.numOperands() != 2) {
    return false;
  }
  Value past = node.operand(0);
  int64_t axis = node.attrInt("axis");
  auto type = node.operandType(0);
  if (!isa<BlockArgument>(past) || !type || type.getRank() != 4 || (axis != 2 && axis != -2) ||
      !isa<FloatType>(type.getElementType())) {
    return false;
  }
  auto heads = rewriter.views.heads(node.operand(1));
  if (!heads || !heads->wholeHeads() || heads->tokensFirst) {
    return false;
  }
  // The file may leave sizes of the past open; what is appended knows them.
  SymbolicShape shape = shapeOf(past);
  shape[1] = SymbolicExpr::constant(heads->heads);
  shape[3] = SymbolicExpr::constant(heads->size);
  past.setType(onnx::rankedType(shape, type.getElementType()));
  Value rows = rewriter.selectFeatures(heads->base, heads->offset, 1, heads->heads * heads->size);
  Value old = node.op()->getResult(0);
  rewriter.replace(old, append(past, rows, node.op()->getLoc(), old));
  return true;
}

Value AttentionRaiser::cacheOf(const CacheView &view) {
  if (!view.flat) {
    return view.base;
  }
  Value rows = rewriter.selectFeatures(view.base, view.offset, 1, view.heads * view.size);
  Value &appended = emptyPasts[rows];
  if (!appended) {
    // The graph has no cache: an argument for the past and a result for the whole give it one.
    SymbolicShape shape{shapeOf(rows)[0], SymbolicExpr::constant(view.heads),
                        SymbolicExpr::atom("past"), SymbolicExpr::constant(view.size)};
    func::FuncOp function = rewriter.function;
    Location loc = rows.getLoc();
    unsigned index = function.getNumArguments();
    (void)function.insertArgument(index, onnx::rankedType(shape, rewriter.builder.getF32Type()), {},
                                  loc);
    appended = append(function.getArgument(index), rows, loc, Value());
    Operation *terminator = function.getBody().front().getTerminator();
    terminator->insertOperands(terminator->getNumOperands(), appended);
    (void)function.insertResult(function.getNumResults(), appended.getType(), {});
  }
  return appended;
}

std::pair<std::optional<Condition>, Operation *> AttentionRaiser::maskCondition(Value mask) {
  auto [entry, isNew] = maskConditions.try_emplace(mask);
  if (isNew) {
    Operation *culprit = nullptr;
    std::optional<Condition> condition = conditionOfMask(rewriter.expressions, mask, culprit);
    entry->second = {condition, culprit};
  }
  return entry->second;
}

FailureOr<MaskMeaning> AttentionRaiser::readMask(NodeBinder node, const Condition &seen,
                                                 const AttentionParts &parts,
                                                 bool causalByOperator) {
  SymbolicExpr tokens = shapeOf(parts.query)[1], length = shapeOf(parts.keys)[2];
  std::string part;
  MaskGeometry geometry{length - tokens};
  // Where this pass added the cache, the graph's own keys are the new tokens alone.
  if (llvm::any_of(emptyPasts, [&](auto &entry) { return entry.second == parts.keys; })) {
    geometry.past = SymbolicExpr::constant(0);
  }
  auto meaning = interpretMask(rewriter.function, seen, geometry, part);
  if (!meaning) {
    return node.error() << "attention mask lets a key through where " << part
                        << ", expected causal order, a window of keys, or an attention mask input "
                           "of [batch, keys]; "
                           "export the model with one of these";
  }
  meaning->causal |= causalByOperator;
  if (!meaning->causal) {
    return node.error() << "attention sees later tokens (mask: " << seen.str()
                        << "), expected a causal mask; only generating models can be compiled";
  }
  return *meaning;
}

Value AttentionRaiser::emit(const AttentionParts &parts) {
  OpBuilder &builder = rewriter.builder;
  Location loc = rewriter.fuse(parts.ops);
  auto repeated = [&](Value cache, int64_t repeats) -> Value {
    SymbolicShape shape = shapeOf(cache);
    int64_t heads = *shape[1].asConstant();
    if (repeats == 1) {
      return cache;
    }
    shape[1] = SymbolicExpr::constant(heads * repeats);
    return lm::RepeatHeadsOp::create(builder, loc, onnx::rankedType(shape, builder.getF32Type()),
                                     cache, builder.getI64IntegerAttr(heads),
                                     builder.getI64IntegerAttr(repeats));
  };
  Value keys = repeated(parts.keys, parts.keyRepeats),
        values = repeated(parts.values, parts.valueRepeats);
  int64_t kvHeads = *shapeOf(keys)[1].asConstant(), valueSize = *shapeOf(values)[3].asConstant();
  return lm::PaddedAttentionOp::create(
      builder, loc, rewriter.typeLike(parts.query, {parts.heads * valueSize}), parts.query, keys,
      values, parts.mask.padding ? Value(parts.mask.padding) : Value(), parts.sinks,
      builder.getI64IntegerAttr(parts.heads), builder.getI64IntegerAttr(kvHeads),
      builder.getF64FloatAttr(parts.scale), builder.getI64IntegerAttr(0),
      builder.getI64IntegerAttr(parts.mask.window), builder.getF64FloatAttr(parts.softCap));
}
