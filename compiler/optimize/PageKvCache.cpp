// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// page-kv-cache: past and present tensors become cache groups that the runtime keeps in pages.
#include "compiler/optimize/ModelSignature.h"
#include "compiler/optimize/Passes.h"
#include "dialects/lm/LmDialect.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringSwitch.h"
#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <optional>

using namespace mlir;

namespace sluicec::optimize {
#define GEN_PASS_DEF_PAGEKVCACHE
#include "compiler/optimize/Passes.h.inc"

namespace {

/// Keys or values as an attention reads them: appended rows, each head repeated that often.
struct CacheSide {
  lm::PaddedAppendOp append;
  int64_t repeats = 1;

  int64_t heads() { return cast<RankedTensorType>(append.getType()).getDimSize(1); }
  int64_t headSize() { return cast<RankedTensorType>(append.getType()).getDimSize(3); }
  auto identity() { return std::make_pair(append.getOperation(), repeats); }
};

/// What one attention, or several over the same keys and values, keep in the cache.
struct CacheLayer {
  CacheSide keys, values;
  SmallVector<lm::PaddedAttentionOp> readers;
  unsigned group = 0;
  int64_t layer = 0; // within the group
  bool appended = false;
};

struct CacheGroup {
  int64_t window = 0, kvHeads = 0, keyHead = 0, valueHead = 0;
  Type element;
  int64_t layers = 0;
  Value current; // the group's latest cache value
  bool holds(const CacheGroup &other) const {
    return window == other.window && kvHeads == other.kvHeads && keyHead == other.keyHead &&
           valueHead == other.valueHead && element == other.element;
  }
  lm::CacheType type(MLIRContext *context) const {
    return lm::CacheType::get(context, window, element, kvHeads, keyHead, valueHead, layers);
  }
};

class CachePager {
public:
  /// `element` is null to keep the file's.
  CachePager(func::FuncOp func, Type element) : func(func), element(element) {}

  LogicalResult run() {
    if (failed(collectLayers()) || failed(checkAppends())) {
      return failure();
    }
    addArguments();
    rewriteAttentions();
    return replaceSignature();
  }

private:
  func::FuncOp func;
  Type element;
  SmallVector<CacheLayer> layers;
  llvm::DenseMap<lm::PaddedAttentionOp, unsigned> layerOf;
  SmallVector<CacheGroup> groups;
  Value batch;

  LogicalResult collectLayers();
  LogicalResult checkAppends();
  FailureOr<CacheSide> sideOf(lm::PaddedAttentionOp attention, Value value, StringRef name);
  FailureOr<Type> cacheElement(lm::PaddedAppendOp append);
  LogicalResult assignGroup(CacheLayer &layer);
  void addArguments();
  void rewriteAttentions();
  void rewrite(lm::PaddedAttentionOp attention);
  LogicalResult replaceSignature();
};

} // namespace

FailureOr<CacheSide> CachePager::sideOf(lm::PaddedAttentionOp attention, Value value,
                                        StringRef name) {
  CacheSide side;
  while (auto repeat = value.getDefiningOp<lm::RepeatHeadsOp>()) {
    side.repeats *= repeat.getRepeats();
    value = repeat.getX();
  }
  side.append = value.getDefiningOp<lm::PaddedAppendOp>();
  auto past = side.append ? dyn_cast<BlockArgument>(side.append.getPast()) : BlockArgument();
  if (!past || past.getOwner() != &func.getBody().front()) {
    return attention.emitError()
           << name << " are not new rows appended to a past that is an input of the model; such "
           << "attention cannot be cached: export the model with past_key_values, or without a "
              "cache";
  }
  auto type = cast<RankedTensorType>(side.append.getType());
  if (type.isDynamicDim(1) || type.isDynamicDim(3)) {
    return attention.emitError() << name << " are " << type
                                 << ", expected a fixed number of heads and head size";
  }
  return side;
}

FailureOr<Type> CachePager::cacheElement(lm::PaddedAppendOp append) {
  if (element) {
    return element;
  }
  auto past = cast<BlockArgument>(append.getPast());
  auto ofFile = func.getArgAttrOfType<TypeAttr>(past.getArgNumber(), kElementAttr);
  Type type = ofFile ? ofFile.getValue() : cast<RankedTensorType>(past.getType()).getElementType();
  if (type.isF64()) {
    return Type(Float32Type::get(type.getContext()));
  }
  if (!type.isF32() && !type.isF16() && !type.isBF16()) {
    return append.emitError()
           << "keeps its past in " << type
           << ", expected f32, f16 or bf16; choose one with kv-type (sluicec --kv)";
  }
  return type;
}

LogicalResult CachePager::assignGroup(CacheLayer &layer) {
  FailureOr<Type> type = cacheElement(layer.keys.append);
  if (failed(type)) {
    return failure();
  }
  CacheGroup wanted;
  wanted.element = *type;
  wanted.kvHeads = layer.keys.heads() * layer.keys.repeats;
  wanted.keyHead = layer.keys.headSize();
  wanted.valueHead = layer.values.headSize();
  // Blocks may go only when no reader of the layer can see them any more.
  wanted.window = layer.readers.front().getWindow();
  for (lm::PaddedAttentionOp reader : layer.readers) {
    wanted.window = static_cast<int64_t>(reader.getWindow()) == wanted.window ? wanted.window : 0;
  }
  auto found = llvm::find_if(groups, [&](const CacheGroup &g) { return g.holds(wanted); });
  layer.group = static_cast<unsigned>(found - groups.begin());
  if (found == groups.end()) {
    groups.push_back(wanted);
  }
  layer.layer = groups[layer.group].layers++;
  return success();
}

LogicalResult CachePager::collectLayers() {
  using SideIdentity = std::pair<Operation *, int64_t>;
  std::map<std::pair<SideIdentity, SideIdentity>, unsigned> known;
  for (auto attention : func.getOps<lm::PaddedAttentionOp>()) {
    FailureOr<CacheSide> keys = sideOf(attention, attention.getKeys(), "keys");
    if (failed(keys)) {
      return failure();
    }
    FailureOr<CacheSide> values = sideOf(attention, attention.getValues(), "values");
    if (failed(values)) {
      return failure();
    }
    auto [entry, isNew] = known.try_emplace({keys->identity(), values->identity()},
                                            static_cast<unsigned>(layers.size()));
    if (isNew) {
      layers.push_back({*keys, *values, {}});
    }
    layers[entry->second].readers.push_back(attention);
    layerOf[attention] = entry->second;
  }
  for (CacheLayer &layer : layers) {
    if (failed(assignGroup(layer))) {
      return failure();
    }
  }
  return success();
}

/// Past and appended values must have no readers but attention and return.
LogicalResult CachePager::checkAppends() {
  for (auto append : func.getOps<lm::PaddedAppendOp>()) {
    for (Operation *user : append->getUsers()) {
      if (!isa<lm::PaddedAttentionOp, lm::RepeatHeadsOp, func::ReturnOp>(user)) {
        return user->emitError() << "reads keys or values of the cache (" << append.getType()
                                 << "); only attention can, since they will lie in pages";
      }
    }
    for (Operation *user : append.getPast().getUsers()) {
      if (!isa<lm::PaddedAppendOp>(user)) {
        return user->emitError()
               << "reads the past (" << append.getPast().getType()
               << "); only the append of new rows can, since it will lie in pages";
      }
    }
  }
  return success();
}

void CachePager::addArguments() {
  MLIRContext *context = func.getContext();
  batch = insertArgument(func, func.getNumArguments(), lm::BatchType::get(context), "batch");
  for (CacheGroup &group : groups) {
    group.current = insertArgument(func, func.getNumArguments(), group.type(context), "cache");
  }
}

void CachePager::rewriteAttentions() {
  for (auto attention : llvm::make_early_inc_range(func.getOps<lm::PaddedAttentionOp>())) {
    rewrite(attention);
  }
}

void CachePager::rewrite(lm::PaddedAttentionOp attention) {
  CacheLayer &layer = layers[layerOf.lookup(attention)];
  CacheGroup &group = groups[layer.group];
  OpBuilder b(attention);
  auto rowsOf = [&](CacheSide &side) -> Value { // [B, S, heads * repeats * D]
    lm::PaddedAppendOp append = side.append;
    Value rows = append.getRows();
    if (side.repeats == 1) {
      return rows;
    }
    auto type = cast<RankedTensorType>(rows.getType());
    SmallVector<int64_t> shape(type.getShape());
    shape.back() *= side.repeats;
    return lm::RepeatHeadsOp::create(b, append.getLoc(), type.clone(shape), rows, side.heads(),
                                     side.repeats);
  };
  if (!layer.appended) {
    Value keys = rowsOf(layer.keys), values = rowsOf(layer.values);
    Location loc = b.getFusedLoc({layer.keys.append.getLoc(), layer.values.append.getLoc()});
    group.current = lm::CacheAppendOp::create(b, loc, group.current.getType(), group.current, keys,
                                              values, batch, layer.layer);
    layer.appended = true;
  }
  auto paged = lm::AttentionOp::create(
      b, attention.getLoc(), attention.getType(), attention.getQuery(), group.current, batch,
      attention.getSinks(), layer.layer, attention.getHeads(), attention.getKvHeads(),
      attention.getScale(), attention.getWindow(), attention.getMaskWindow(),
      attention.getSoftCap());
  attention.replaceAllUsesWith(paged.getResult());
  attention.erase();
}

LogicalResult CachePager::replaceSignature() {
  // Results: presents go, caches come.
  func::ReturnOp ret = returnOf(func);
  for (unsigned i = func.getNumResults(); i-- > 0;) {
    if (ret.getOperand(i).getDefiningOp<lm::PaddedAppendOp>()) {
      ret->eraseOperand(i);
      (void)func.eraseResult(i);
    }
  }
  Builder b(func.getContext());
  for (CacheGroup &group : groups) {
    ret->insertOperands(ret.getNumOperands(), group.current);
    auto attrs = b.getDictionaryAttr(b.getNamedAttr(kRoleAttr, b.getStringAttr("cache")));
    (void)func.insertResult(func.getNumResults(), group.current.getType(), attrs);
  }
  // Appends and repeats that nothing reads any more, then the pasts.
  for (Operation &op : llvm::make_early_inc_range(llvm::reverse(func.getBody().front()))) {
    if (isa<lm::PaddedAppendOp, lm::RepeatHeadsOp>(op) && op.use_empty()) {
      op.erase();
    }
  }
  for (unsigned i = func.getNumArguments(); i-- > 0;) {
    StringRef role = argumentRole(func, i);
    if (role != "past_key" && role != "past_value") {
      continue;
    }
    if (!func.getArgument(i).use_empty()) {
      return (*func.getArgument(i).user_begin())->emitError()
             << "reads a past that no attention reads (" << func.getArgument(i).getType() << ")";
    }
    (void)func.eraseArgument(i);
  }
  return success();
}

namespace {

struct PageKvCache : impl::PageKvCacheBase<PageKvCache> {
  using PageKvCacheBase::PageKvCacheBase;

  void runOnOperation() override {
    func::FuncOp func = getOperation();
    MLIRContext *context = &getContext();
    if (!isModel(func)) {
      return;
    }
    auto element = llvm::StringSwitch<std::optional<Type>>(kvType.getValue())
                       .Case("keep", Type())
                       .Case("f32", Float32Type::get(context))
                       .Case("f16", Float16Type::get(context))
                       .Case("bf16", BFloat16Type::get(context))
                       .Default(std::nullopt);
    if (!element) {
      func.emitError() << "the cache cannot be kept as '" << kvType.getValue()
                       << "'; expected keep, f32, f16 or bf16";
      return signalPassFailure();
    }
    if (findArgument(func, "batch")) {
      func.emitError("has a batch argument already; page-kv-cache runs once, on the padded form");
      return signalPassFailure();
    }
    if (failed(CachePager(func, *element).run())) {
      signalPassFailure();
    }
  }
};

} // namespace
} // namespace sluicec::optimize
