// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Emits a small model layer by layer.
#include "test/equivalence/SmallModel.h"

#include "compiler/support/FloatConversion.h"
#include "dialects/lm/LmDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"

#include <cmath>
#include <cstring>

using namespace mlir;

namespace sluicec::equivalence {

namespace {

constexpr int64_t kDynamic = ShapedType::kDynamic;

class Emitter {
public:
  Emitter(const SmallModel &model, support::WeightStore &store, MLIRContext &context, uint32_t seed)
      : model(model), store(store), b(&context), random(seed), loc(b.getUnknownLoc()),
        f32(b.getF32Type()) {}

  OwningOpRef<ModuleOp> emit();

private:
  const SmallModel &model;
  support::WeightStore &store;
  OpBuilder b;
  std::mt19937 random;
  Location loc;
  Type f32;
  func::FuncOp func;
  Value ids, mask, positions, cos, sin;
  SmallVector<Value> presents;

  RankedTensorType rows(ArrayRef<int64_t> sizes) { // [B, S, sizes...] f32
    SmallVector<int64_t> shape{kDynamic, kDynamic};
    shape.append(sizes.begin(), sizes.end());
    return RankedTensorType::get(shape, f32);
  }
  RankedTensorType cacheType(int64_t heads) {
    return RankedTensorType::get({kDynamic, heads, kDynamic, model.head}, f32);
  }
  int64_t cachedHeads() const { return model.repeatBeforeCache ? model.heads : model.kvHeads; }

  void makeFunction();
  /// A weight of random values around `mean`, scaled so that activations stay near 1.
  Value weight(const std::string &name, ArrayRef<int64_t> shape, double scale, double mean = 0);
  Value vector(const std::string &name, int64_t size) { return weight(name, {size}, 0.2, 1.0); }
  Value matrix(const std::string &name, int64_t n, int64_t k) {
    return weight(name, {n, k}, 1 / std::sqrt(static_cast<double>(k)));
  }
  Value norm(const std::string &name, Value x, int64_t groups);
  Value linear(const std::string &name, Value x, int64_t n, bool bias);
  Value attention(const SmallLayer &layer, int64_t index, Value x);
  Value repeated(Value x, RankedTensorType type);
  Value feedForward(int64_t index, Value x);
  Value experts(int64_t index, Value x);
  Value scaleByGeneric(Value x, double factor);
  Value capLogits(Value logits);
};

} // namespace

Value Emitter::weight(const std::string &name, ArrayRef<int64_t> shape, double scale, double mean) {
  Type element = model.weightElement ? model.weightElement : f32;
  auto type = RankedTensorType::get(shape, element);
  std::normal_distribution<double> normal(mean, scale);
  std::vector<float> values(static_cast<size_t>(type.getNumElements()));
  for (float &v : values) {
    v = static_cast<float>(normal(random));
  }
  size_t width = element.getIntOrFloatBitWidth() / 8;
  std::vector<char> bytes(values.size() * width);
  double overflowed = 0;
  ArrayRef<char> from(reinterpret_cast<const char *>(values.data()), values.size() * sizeof(float));
  support::convertElements(f32, from, element, bytes, overflowed);
  std::string unique = store.addComputed(name, element, shape, std::move(bytes));
  return lm::WeightOp::create(b, loc, type, unique, ElementsAttr());
}

void Emitter::makeFunction() {
  SmallVector<Type> inputs, outputs{rows({model.vocabulary})};
  SmallVector<DictionaryAttr> inputAttrs, outputAttrs;
  auto role = [&](StringRef name, int64_t layer = -1) {
    SmallVector<NamedAttribute> attrs{b.getNamedAttr("lm.role", b.getStringAttr(name))};
    if (layer >= 0) {
      attrs.push_back(b.getNamedAttr("lm.layer", b.getI64IntegerAttr(layer)));
    }
    return b.getDictionaryAttr(attrs);
  };
  auto integers = RankedTensorType::get({kDynamic, kDynamic}, b.getI64Type());
  inputs = {integers, integers};
  inputAttrs = {role("token_ids"), role("attention_mask")};
  outputAttrs = {role("logits")};
  if (model.positionInput) {
    inputs.push_back(integers);
    inputAttrs.push_back(role("position_ids"));
  }
  for (int64_t layer = 0; layer < static_cast<int64_t>(model.layers.size()); ++layer) {
    for (StringRef side : {"key", "value"}) {
      inputs.push_back(cacheType(cachedHeads()));
      outputs.push_back(cacheType(cachedHeads()));
      inputAttrs.push_back(role(("past_" + side).str(), layer));
      outputAttrs.push_back(role(("present_" + side).str(), layer));
    }
  }
  func = func::FuncOp::create(b, loc, "main", b.getFunctionType(inputs, outputs));
  func.setAllArgAttrs(inputAttrs);
  func.setAllResultAttrs(outputAttrs);
  b.setInsertionPointToStart(func.addEntryBlock());
}

Value Emitter::norm(const std::string &name, Value x, int64_t groups) {
  Value w = vector(name, lm::featuresOf(x) / groups);
  return lm::RmsNormOp::create(b, loc, x.getType(), Type(), x, w, Value(), b.getF64FloatAttr(1e-5),
                               b.getI64IntegerAttr(groups))
      .getResult();
}

Value Emitter::linear(const std::string &name, Value x, int64_t n, bool bias) {
  Value w = matrix(name, n, lm::featuresOf(x));
  Value added = bias ? vector(name + ".bias", n) : Value();
  return lm::LinearOp::create(b, loc, rows({n}), x, w, added, Value());
}

Value Emitter::repeated(Value x, RankedTensorType type) {
  return lm::RepeatHeadsOp::create(b, loc, type, x, model.kvHeads, model.heads / model.kvHeads);
}

Value Emitter::attention(const SmallLayer &layer, int64_t index, Value x) {
  std::string prefix = "layer" + std::to_string(index) + ".";
  Value q = linear(prefix + "q", x, model.heads * model.head, model.bias);
  Value k = linear(prefix + "k", x, model.kvHeads * model.head, model.bias);
  Value v = linear(prefix + "v", x, model.kvHeads * model.head, model.bias);
  if (layer.normPerHead) {
    q = norm(prefix + "q_norm", q, model.heads);
    k = norm(prefix + "k_norm", k, model.kvHeads);
  }
  auto rotate = [&](Value value, int64_t heads) -> Value {
    return lm::RopeOp::create(b, loc, value.getType(), value, cos, sin, b.getI64IntegerAttr(heads),
                              model.interleavedRope ? b.getUnitAttr() : UnitAttr());
  };
  q = rotate(q, model.heads);
  k = rotate(k, model.kvHeads);
  auto append = [&](Value value, unsigned side) -> Value {
    if (model.repeatBeforeCache) {
      value = repeated(value, rows({model.heads * model.head}));
    }
    unsigned first = model.positionInput ? 3 : 2;
    Value past = func.getArgument(first + 2 * static_cast<unsigned>(index) + side);
    Value present = lm::PaddedAppendOp::create(b, loc, past.getType(), past, value);
    presents.push_back(present);
    return model.repeatHeads ? repeated(present, cacheType(model.heads)) : present;
  };
  Value keys = append(k, 0), values = append(v, 1);
  int64_t kvHeads = cast<RankedTensorType>(keys.getType()).getDimSize(1);
  Value sinks = layer.sinks ? vector(prefix + "sinks", model.heads) : Value();
  Value o = lm::PaddedAttentionOp::create(
      b, loc, rows({model.heads * model.head}), q, keys, values, mask, sinks,
      b.getI64IntegerAttr(model.heads), b.getI64IntegerAttr(kvHeads),
      b.getF64FloatAttr(1 / std::sqrt(static_cast<double>(model.head))), b.getI64IntegerAttr(0),
      b.getI64IntegerAttr(layer.window), b.getF64FloatAttr(model.softCap));
  return linear(prefix + "o", o, model.hidden, false);
}

Value Emitter::feedForward(int64_t index, Value x) {
  std::string prefix = "layer" + std::to_string(index) + ".";
  Value gate = linear(prefix + "gate", x, model.inner, false),
        up = linear(prefix + "up", x, model.inner, false);
  Value gated = lm::GatedActivationOp::create(b, loc, gate.getType(), gate, up,
                                              lm::swigluAttr(b.getContext()));
  return linear(prefix + "down", gated, model.hidden, false);
}

Value Emitter::experts(int64_t index, Value x) {
  std::string prefix = "layer" + std::to_string(index) + ".";
  Value logits = linear(prefix + "router", x, model.numExperts, false);
  auto idsType = RankedTensorType::get({kDynamic, kDynamic, model.topK}, b.getI32Type());
  auto route = lm::RouteOp::create(
      b, loc, rows({model.topK}), idsType, logits, Value(), b.getI64IntegerAttr(model.topK),
      lm::ScoreFunctionAttr::get(b.getContext(), lm::ScoreFunction::SoftmaxAll), b.getUnitAttr(),
      b.getF64FloatAttr(1.0));
  lm::ProbeOp::create(b, loc, route.getIds(), "router_ids", index);
  double scale = 1 / std::sqrt(static_cast<double>(model.hidden));
  SmallVector<int64_t> half{model.numExperts, model.inner, model.hidden};
  Value gate, up;
  if (model.stackedExperts) {
    Value both =
        weight(prefix + "gate_up", {model.numExperts, 2 * model.inner, model.hidden}, scale);
    auto type = cast<RankedTensorType>(both.getType()).clone(half);
    auto slice = [&](int64_t from) -> Value {
      return lm::WeightSliceOp::create(b, loc, type, both, ArrayRef<int64_t>{0, from, 0},
                                       ArrayRef<int64_t>{1, 1, 1});
    };
    gate = slice(0);
    up = slice(model.inner);
  } else {
    gate = weight(prefix + "gate", half, scale);
    up = weight(prefix + "up", half, scale);
  }
  Value down = weight(prefix + "down", {model.numExperts, model.hidden, model.inner},
                      1 / std::sqrt(static_cast<double>(model.inner)));
  auto bias = [&](const char *name, int64_t n) -> Value {
    return model.bias ? weight(prefix + name, {model.numExperts, n}, 0.2) : Value();
  };
  auto grouped = [&](Value from, Value w, Value added) -> Value {
    int64_t n = cast<RankedTensorType>(w.getType()).getDimSize(1);
    return lm::GroupedLinearOp::create(b, loc, rows({model.topK, n}), from, route.getIds(), w,
                                       added);
  };
  Value g = grouped(x, gate, bias("gate_bias", model.inner)),
        u = grouped(x, up, bias("up_bias", model.inner));
  Value gated =
      lm::GatedActivationOp::create(b, loc, g.getType(), g, u, lm::swigluAttr(b.getContext()));
  Value y = grouped(gated, down, bias("down_bias", model.hidden));
  return lm::CombineOp::create(b, loc, rows({model.hidden}), y, route.getWeights());
}

/// x * factor as raise writes it: a linalg.generic with the number in its body.
Value Emitter::scaleByGeneric(Value x, double factor) {
  auto type = cast<RankedTensorType>(x.getType());
  SmallVector<Value> sizes{tensor::DimOp::create(b, loc, x, 0),
                           tensor::DimOp::create(b, loc, x, 1)};
  Value empty = tensor::EmptyOp::create(b, loc, type, sizes);
  Value w = vector("scale", model.hidden);
  MLIRContext *context = b.getContext();
  AffineMap all = AffineMap::getMultiDimIdentityMap(3, context),
            last = AffineMap::get(3, 0, getAffineDimExpr(2, context));
  SmallVector<utils::IteratorType> loops(3, utils::IteratorType::parallel);
  return linalg::GenericOp::create(
             b, loc, TypeRange{type}, ValueRange{x, w}, ValueRange{empty}, ArrayRef{all, last, all},
             loops,
             [&](OpBuilder &in, Location at, ValueRange a) {
               Value wide = a[1].getType().isF32()
                                ? a[1]
                                : arith::ExtFOp::create(in, at, f32, a[1]).getResult();
               Value c = arith::ConstantOp::create(in, at,
                                                   in.getF32FloatAttr(static_cast<float>(factor)));
               Value scaled = arith::MulFOp::create(in, at, a[0], c);
               linalg::YieldOp::create(in, at,
                                       arith::MulFOp::create(in, at, scaled, wide).getResult());
             })
      .getResult(0);
}

/// tanh(logits) * logits: whole-tensor arith and math.
Value Emitter::capLogits(Value logits) {
  Value t = math::TanhOp::create(b, loc, logits);
  return arith::MulFOp::create(b, loc, t, logits);
}

OwningOpRef<ModuleOp> Emitter::emit() {
  OwningOpRef<ModuleOp> module = ModuleOp::create(loc);
  b.setInsertionPointToStart(module->getBody());
  makeFunction();
  ids = func.getArgument(0);
  mask = func.getArgument(1);
  auto integers = cast<RankedTensorType>(ids.getType());
  positions = model.positionInput
                  ? Value(func.getArgument(2))
                  : lm::PaddedPositionsOp::create(b, loc, integers, ids, mask).getResult();
  Value table = weight("embedding", {model.vocabulary, model.hidden}, 1.0);
  Value x = lm::EmbeddingOp::create(b, loc, rows({model.hidden}), table, ids);
  if (model.elementwise) {
    x = scaleByGeneric(x, 1.5);
  }
  SmallVector<double> frequencies;
  for (int64_t j = 0; j < model.head / 2; ++j) {
    frequencies.push_back(
        std::pow(100.0, -2.0 * static_cast<double>(j) / static_cast<double>(model.head)));
  }
  auto angles = rows({model.head / 2});
  auto tables =
      lm::RopeTableOp::create(b, loc, angles, angles, positions,
                              b.getDenseF64ArrayAttr(frequencies), b.getF64FloatAttr(1.0));
  cos = tables.getCos();
  sin = tables.getSin();
  for (auto [i, layer] : llvm::enumerate(model.layers)) {
    auto index = static_cast<int64_t>(i);
    std::string prefix = "layer" + std::to_string(index) + ".";
    Value attended = attention(layer, index, norm(prefix + "norm1", x, 1));
    x = arith::AddFOp::create(b, loc, x, attended);
    Value normed = norm(prefix + "norm2", x, 1);
    Value y = layer.experts ? experts(index, normed) : feedForward(index, normed);
    x = arith::AddFOp::create(b, loc, x, y);
    lm::ProbeOp::create(b, loc, x, "layer_output", index);
  }
  x = norm("norm", x, 1);
  if (model.elementwise) {
    x = scaleByGeneric(x, 0.5);
  }
  Value head = model.tied ? table : matrix("head", model.vocabulary, model.hidden);
  Value logits = lm::LinearOp::create(b, loc, rows({model.vocabulary}), x, head, Value(), Value());
  SmallVector<Value> results{model.elementwise ? capLogits(logits) : logits};
  llvm::append_range(results, presents);
  func::ReturnOp::create(b, loc, results);
  return module;
}

OwningOpRef<ModuleOp> buildSmallModel(const SmallModel &model, support::WeightStore &store,
                                      MLIRContext &context, uint32_t seed) {
  return Emitter(model, store, context, seed).emit();
}

std::vector<SmallModel> smallModels(MLIRContext &context) {
  SmallModel dense{"dense", {{}, {}}};
  dense.tied = true;

  SmallModel experts{"experts", {{0, true}, {0, true, true}}};
  experts.positionInput = true;
  experts.interleavedRope = true;

  SmallModel windows{"windows", {{5, true}, {0, false, false, true}, {5, false}, {21, true}}};
  windows.stackedExperts = true;
  windows.repeatHeads = true;

  SmallModel repeats{"repeated heads", {{0, true}, {0}}};
  repeats.repeatBeforeCache = true;
  repeats.bias = true;
  repeats.softCap = 5;

  SmallModel code{"elementwise code", {{0}, {7, true}}};
  code.elementwise = true;
  code.weightElement = BFloat16Type::get(&context);
  return {dense, experts, windows, repeats, code};
}

} // namespace sluicec::equivalence
