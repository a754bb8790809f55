// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds the operations that CPU templates are made of, and the frame of a kernel.
#include "compiler/codegen/cpu/KernelBuilder.h"

#include "runtime/device/KernelAbi.h"

#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Dialect/Vector/IR/VectorOps.h"

#include <cstddef>
#include <numeric>

using namespace mlir;

namespace sluicec::cpu {

namespace {

bool isFloat(Value v) { return isa<FloatType>(getElementTypeOrSelf(v.getType())); }

} // namespace

// ---- Types and constants ----

Type KernelBuilder::withElement(Type shape, Type element) {
  if (auto vector = dyn_cast<VectorType>(shape)) {
    return VectorType::get(vector.getShape(), element);
  }
  return element;
}

Value KernelBuilder::constant(Type type, double v) {
  Type element = getElementTypeOrSelf(type);
  TypedAttr number;
  if (isa<FloatType>(element)) {
    number = getFloatAttr(element, v);
  } else {
    number = getIntegerAttr(element, static_cast<int64_t>(v));
  }
  if (auto vector = dyn_cast<VectorType>(type)) {
    number = DenseElementsAttr::get(vector, Attribute(number));
  }
  return arith::ConstantOp::create(*this, number);
}

Value KernelBuilder::bits(Type type, uint32_t v) {
  return constant(type, static_cast<double>(static_cast<int32_t>(v)));
}

Value KernelBuilder::iota() {
  SmallVector<int32_t> lanes(kLanes);
  std::iota(lanes.begin(), lanes.end(), 0);
  return arith::ConstantOp::create(*this, DenseElementsAttr::get(vec(i32()), ArrayRef(lanes)));
}

// ---- Arithmetic ----

Value KernelBuilder::add(Value a, Value b) {
  return isFloat(a) ? Value(arith::AddFOp::create(*this, a, b))
                    : arith::AddIOp::create(*this, a, b);
}
Value KernelBuilder::sub(Value a, Value b) {
  return isFloat(a) ? Value(arith::SubFOp::create(*this, a, b))
                    : arith::SubIOp::create(*this, a, b);
}
Value KernelBuilder::mul(Value a, Value b) {
  return isFloat(a) ? Value(arith::MulFOp::create(*this, a, b))
                    : arith::MulIOp::create(*this, a, b);
}
Value KernelBuilder::div(Value a, Value b) {
  return isFloat(a) ? Value(arith::DivFOp::create(*this, a, b))
                    : arith::DivUIOp::create(*this, a, b);
}
Value KernelBuilder::rem(Value a, Value b) { return arith::RemUIOp::create(*this, a, b); }
Value KernelBuilder::fma(Value a, Value b, Value c) { return math::FmaOp::create(*this, a, b, c); }
Value KernelBuilder::neg(Value a) { return arith::NegFOp::create(*this, a); }
Value KernelBuilder::sqrt(Value a) { return math::SqrtOp::create(*this, a); }
Value KernelBuilder::compare(arith::CmpIPredicate p, Value a, Value b) {
  return arith::CmpIOp::create(*this, p, a, b);
}
Value KernelBuilder::compare(arith::CmpFPredicate p, Value a, Value b) {
  return arith::CmpFOp::create(*this, p, a, b);
}
Value KernelBuilder::select(Value c, Value a, Value b) {
  return arith::SelectOp::create(*this, c, a, b);
}
Value KernelBuilder::both(Value a, Value b) { return arith::AndIOp::create(*this, a, b); }
Value KernelBuilder::minInt(Value a, Value b) { return arith::MinSIOp::create(*this, a, b); }
Value KernelBuilder::maxInt(Value a, Value b) { return arith::MaxSIOp::create(*this, a, b); }
Value KernelBuilder::maxFloat(Value a, Value b) {
  return select(compare(arith::CmpFPredicate::OGT, b, a), b, a);
}
Value KernelBuilder::minFloat(Value a, Value b) {
  return select(compare(arith::CmpFPredicate::OLT, b, a), b, a);
}

// ---- Vectors ----

Value KernelBuilder::splat(Value scalar, int64_t lanes) {
  return vector::BroadcastOp::create(*this, vec(scalar.getType(), lanes), scalar);
}

Value KernelBuilder::lane(Value vector, int64_t i) {
  return vector::ExtractOp::create(*this, vector, ArrayRef<int64_t>{i});
}

Value KernelBuilder::shuffle(Value a, Value b, ArrayRef<int64_t> indices) {
  return vector::ShuffleOp::create(*this, a, b, indices);
}

Value KernelBuilder::foldLanes(Value vector, function_ref<Value(Value, Value)> join) {
  for (int64_t half = cast<VectorType>(vector.getType()).getNumElements() / 2; half >= 1;
       half /= 2) {
    SmallVector<int64_t> low(half), high(half);
    std::iota(low.begin(), low.end(), 0);
    std::iota(high.begin(), high.end(), half);
    vector = join(shuffle(vector, vector, low), shuffle(vector, vector, high));
  }
  return lane(vector, 0);
}

Value KernelBuilder::sumLanes(Value vector) {
  return foldLanes(vector, [&](Value a, Value b) { return add(a, b); });
}

Value KernelBuilder::maxLanes(Value vector) {
  return foldLanes(vector, [&](Value a, Value b) { return maxFloat(a, b); });
}

Value KernelBuilder::extend(Value v) {
  Type element = getElementTypeOrSelf(v.getType());
  if (element.isF32()) {
    return v;
  }
  if (!element.isBF16()) {
    return arith::ExtFOp::create(*this, withElement(v.getType(), f32()), v);
  }
  Type words = withElement(v.getType(), i32());
  Value wide = arith::ExtUIOp::create(*this, words, bitcast(v, i16()));
  return bitcast(arith::ShLIOp::create(*this, wide, constant(words, 16)), f32());
}

Value KernelBuilder::truncate(Value v, Type element) {
  if (element.isF32()) {
    return v;
  }
  if (!element.isBF16()) {
    return arith::TruncFOp::create(*this, withElement(v.getType(), element), v);
  }
  // Nearest even in integers: no machine instruction is sure to exist, and no library is called. A
  // NaN keeps its sign and becomes quiet.
  Value u = bitcast(v, i32());
  Value high = arith::ShRUIOp::create(*this, u, like(u, 16));
  Value odd = both(high, like(u, 1));
  Value rounded = arith::ShRUIOp::create(*this, add(add(u, like(u, 0x7fff)), odd), like(u, 16));
  Value quiet = arith::OrIOp::create(*this, high, like(u, 0x40));
  Value isNan = compare(arith::CmpFPredicate::UNO, v, v);
  Value word = arith::TruncIOp::create(*this, withElement(v.getType(), i16()),
                                       select(isNan, quiet, rounded));
  return bitcast(word, element);
}

// ---- Memory ----

Value KernelBuilder::at(Type element, Value base, Value offset) {
  return LLVM::GEPOp::create(*this, ptr(), element, base, ValueRange{offset});
}

Value KernelBuilder::load(Type type, Value address, int64_t alignment) {
  int64_t natural = bytesOf(getElementTypeOrSelf(type));
  return LLVM::LoadOp::create(*this, type, address, alignment ? alignment : natural);
}

void KernelBuilder::store(Value v, Value address, int64_t alignment) {
  int64_t natural = bytesOf(getElementTypeOrSelf(v.getType()));
  LLVM::StoreOp::create(*this, v, address, alignment ? alignment : natural);
}

Value KernelBuilder::laneMask(int64_t lanes) {
  SmallVector<bool> mask(kLanes, false);
  std::fill_n(mask.begin(), lanes, true);
  return arith::ConstantOp::create(*this, DenseElementsAttr::get(vec(getI1Type()), ArrayRef(mask)));
}

Value KernelBuilder::loadLanes(Type element, Value address, int64_t lanes) {
  return lanes == kLanes ? load(vec(element), address)
                         : loadMasked(element, address, laneMask(lanes));
}

void KernelBuilder::storeLanes(Value v, Value address, int64_t lanes) {
  lanes == kLanes ? store(v, address) : storeMasked(v, address, laneMask(lanes));
}

Value KernelBuilder::loadMasked(Type element, Value address, Value mask) {
  // 16-bit floats travel as integers: masked loads of those exist everywhere.
  Type carrier = element.isF16() || element.isBF16() ? i16() : element;
  Value v = LLVM::MaskedLoadOp::create(*this, vec(carrier), address, mask, zeros(vec(carrier)),
                                       static_cast<uint32_t>(bytesOf(element)));
  return carrier == element ? v : bitcast(v, element);
}

void KernelBuilder::storeMasked(Value v, Value address, Value mask) {
  Type element = getElementTypeOrSelf(v.getType());
  if (element.isF16() || element.isBF16()) {
    v = bitcast(v, i16());
  }
  LLVM::MaskedStoreOp::create(*this, v, address, mask, static_cast<uint32_t>(bytesOf(element)));
}

void KernelBuilder::prefetch(Value address, unsigned level) {
  LLVM::Prefetch::create(*this, address, /*rw=*/0u, /*hint=*/4u - level, /*cache=*/1u);
}

// ---- Control ----

SmallVector<Value> KernelBuilder::loop(Value from, Value to, int64_t step, ValueRange carried,
                                       LoopBody body) {
  auto loopOp = scf::ForOp::create(*this, from, to, index(step), carried);
  InsertionGuard guard(*this);
  setInsertionPointToStart(loopOp.getBody());
  SmallVector<Value> next = body(loopOp.getInductionVar(), loopOp.getRegionIterArgs());
  setInsertionPointToEnd(loopOp.getBody());
  if (!carried.empty()) {
    scf::YieldOp::create(*this, next);
  }
  return llvm::to_vector_of<Value>(loopOp.getResults());
}

void KernelBuilder::loop(Value from, Value to, int64_t step, function_ref<void(Value)> body) {
  auto loopOp = scf::ForOp::create(*this, from, to, index(step));
  InsertionGuard guard(*this);
  setInsertionPointToStart(loopOp.getBody());
  body(loopOp.getInductionVar());
}

SmallVector<Value> KernelBuilder::loopWhile(ValueRange carried,
                                            function_ref<Value(ValueRange)> condition,
                                            function_ref<SmallVector<Value>(ValueRange)> body) {
  auto loopOp = scf::WhileOp::create(*this, carried.getTypes(), carried);
  InsertionGuard guard(*this);
  SmallVector<Location> locs(carried.size(), getLoc());
  Block *before = createBlock(&loopOp.getBefore(), {}, carried.getTypes(), locs);
  scf::ConditionOp::create(*this, condition(before->getArguments()), before->getArguments());
  Block *after = createBlock(&loopOp.getAfter(), {}, carried.getTypes(), locs);
  scf::YieldOp::create(*this, body(after->getArguments()));
  return llvm::to_vector_of<Value>(loopOp.getResults());
}

void KernelBuilder::ifThen(Value condition, function_ref<void()> then) {
  auto ifOp = scf::IfOp::create(*this, condition, /*withElseRegion=*/false);
  InsertionGuard guard(*this);
  setInsertionPointToStart(ifOp.thenBlock());
  then();
}

void KernelBuilder::forChunks(int64_t features, function_ref<void(Value, int64_t)> body) {
  int64_t whole = features / kLanes * kLanes;
  if (whole == kLanes) {
    body(index(0), kLanes);
  } else if (whole > 0) {
    loop(0, whole, kLanes, [&](Value i) { body(i, kLanes); });
  }
  if (whole < features) {
    body(index(whole), features - whole);
  }
}

// ---- The frame ----

KernelFrame::KernelFrame(kernel::FuncOp kernelOp, ModuleOp into, OpBuilder &atBuilder,
                         const CpuTarget &t)
    : KernelBuilder(kernelOp.getLoc(), atBuilder, t), kernel(kernelOp), module(into) {
  setInsertionPointToEnd(module.getBody());
  auto type = LLVM::LLVMFunctionType::get(LLVM::LLVMVoidType::get(getContext()),
                                          {ptr(), ptr(), i64(), i64(), ptr()});
  auto func = LLVM::LLVMFuncOp::create(*this, kernel.getSymName(), type);
  Block *entry = func.addEntryBlock(*this);
  setInsertionPointToStart(entry);
  counts = entry->getArgument(0);
  begin = entry->getArgument(2);
  end = entry->getArgument(3);
  scratchBase = entry->getArgument(4);
  for (BlockArgument argument : kernel.getBody().getArguments()) {
    Value slot = at(ptr(), entry->getArgument(1), argument.getArgNumber());
    buffers[argument] = LLVM::LoadOp::create(*this, ptr(), slot, /*alignment=*/8);
  }
  LLVM::ReturnOp ret = LLVM::ReturnOp::create(*this, ValueRange());
  setInsertionPoint(ret);
}

Value KernelFrame::count(kernel::Unit unit) {
  int64_t offset = 0;
  switch (unit) {
  case kernel::Unit::Fixed:
    return index(1);
  case kernel::Unit::Tokens:
    offset = offsetof(sluice_step_counts, tokens);
    break;
  case kernel::Unit::Seqs:
    offset = offsetof(sluice_step_counts, seqs);
    break;
  case kernel::Unit::LogitRows:
    offset = offsetof(sluice_step_counts, logit_rows);
    break;
  case kernel::Unit::Table:
  case kernel::Unit::Blocks:
    llvm_unreachable("no count of the step");
  }
  return toI64(load(i32(), at(getI8Type(), counts, offset)));
}

Value KernelFrame::maxBlocks() {
  return toI64(load(i32(), at(getI8Type(), counts, offsetof(sluice_step_counts, max_blocks))));
}

kernel::GridDimAttr KernelFrame::gridDim(unsigned i) {
  return cast<kernel::GridDimAttr>(kernel.getGrid()[i]);
}

Value KernelFrame::gridExtent(unsigned i) {
  kernel::GridDimAttr dim = gridDim(i);
  if (dim.getUnit() == kernel::Unit::Fixed) {
    return index(dim.getPerUnit() + dim.getFixed());
  }
  return add(mul(count(dim.getUnit()), dim.getPerUnit()), dim.getFixed());
}

Value KernelFrame::scratch(int64_t bytes) {
  Value address = at(getI8Type(), scratchBase, scratchUsed);
  scratchUsed += (bytes + 63) / 64 * 64;
  return address;
}

Value KernelFrame::constantArray(StringRef name, ArrayRef<float> values) {
  InsertionGuard guard(*this);
  auto type = LLVM::LLVMArrayType::get(f32(), values.size());
  auto data = DenseElementsAttr::get(
      RankedTensorType::get({static_cast<int64_t>(values.size())}, f32()), values);
  LLVM::GlobalOp global;
  {
    InsertionGuard atModule(*this);
    setInsertionPointToStart(module.getBody());
    global = LLVM::GlobalOp::create(*this, type, /*isConstant=*/true, LLVM::Linkage::Internal, name,
                                    data,
                                    /*alignment=*/64);
  }
  return LLVM::AddressOfOp::create(*this, global);
}

} // namespace sluicec::cpu
