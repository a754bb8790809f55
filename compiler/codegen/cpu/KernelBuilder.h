// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What all CPU templates are written with: 16-lane vectors, loops, and the frame of one kernel.
// Part of codegen/cpu.
#pragma once

#include "compiler/codegen/cpu/CpuCodegen.h"
#include "dialects/kernel/KernelDialect.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace sluicec::cpu {

using mlir::Type;
using mlir::Value;
using mlir::ValueRange;

/// Lanes of every vector, on every target: a wider or narrower machine splits them, so that
/// reductions have one order everywhere.
inline constexpr int64_t kLanes = 16;

/// Builds arith, math, scf, vector and llvm operations at one place. Arithmetic takes scalars or
/// vectors, of floats or integers; both operands have one type. Loop counters and offsets are i64.
class KernelBuilder : public mlir::ImplicitLocOpBuilder {
public:
  KernelBuilder(mlir::Location loc, mlir::OpBuilder &at, const CpuTarget &t)
      : ImplicitLocOpBuilder(loc, at), target(t) {}

  const CpuTarget &target;

  // ---- Types and constants ----
  Type f32() { return getF32Type(); }
  Type f64() { return getF64Type(); }
  Type i16() { return getI16Type(); }
  Type i32() { return getI32Type(); }
  Type i64() { return getI64Type(); }
  Type ptr() { return mlir::LLVM::LLVMPointerType::get(getContext()); }
  mlir::VectorType vec(Type element, int64_t lanes = kLanes) {
    return mlir::VectorType::get({lanes}, element);
  }
  /// `shape`'s type (scalar or vector) with another element type.
  Type withElement(Type shape, Type element);
  Value index(int64_t v) { return constant(i64(), static_cast<double>(v)); }
  /// A number or splat of a float or integer type.
  Value constant(Type type, double v);
  /// All lanes of an integer type hold these bits.
  Value bits(Type type, uint32_t v);
  /// `v`'s type filled with c.
  Value like(Value v, double c) { return constant(v.getType(), c); }
  Value zeros(Type type) { return constant(type, 0.0); }
  /// 0, 1, 2, ... 15 of i32.
  Value iota();

  // ---- Arithmetic: rounds each operation by itself; only fma fuses ----
  Value add(Value a, Value b);
  Value sub(Value a, Value b);
  Value mul(Value a, Value b);
  Value div(Value a, Value b); ///< integers: unsigned
  Value rem(Value a, Value b); ///< unsigned
  Value fma(Value a, Value b, Value c);
  Value neg(Value a);
  Value sqrt(Value a);
  Value add(Value a, int64_t b) { return add(a, like(a, static_cast<double>(b))); }
  Value sub(Value a, int64_t b) { return sub(a, like(a, static_cast<double>(b))); }
  Value mul(Value a, int64_t b) { return mul(a, like(a, static_cast<double>(b))); }
  Value div(Value a, int64_t b) { return div(a, like(a, static_cast<double>(b))); }
  Value rem(Value a, int64_t b) { return rem(a, like(a, static_cast<double>(b))); }
  /// ceil(a / b) of a non-negative integer.
  Value ceilDiv(Value a, int64_t b) { return div(add(a, b - 1), b); }
  Value compare(mlir::arith::CmpIPredicate p, Value a, Value b);
  Value compare(mlir::arith::CmpFPredicate p, Value a, Value b);
  Value select(Value c, Value a, Value b);
  Value both(Value a, Value b);
  Value minInt(Value a, Value b); ///< signed
  Value maxInt(Value a, Value b); ///< signed
  /// b > a ? b : a; a NaN in b is passed over.
  Value maxFloat(Value a, Value b);
  /// b < a ? b : a; a NaN in b is passed over.
  Value minFloat(Value a, Value b);
  Value bitcast(Value v, Type element) {
    return mlir::arith::BitcastOp::create(*this, withElement(v.getType(), element), v);
  }
  Value toI64(Value v) {
    return mlir::arith::ExtSIOp::create(*this, withElement(v.getType(), i64()), v);
  }
  Value toI32(Value v) {
    return mlir::arith::TruncIOp::create(*this, withElement(v.getType(), i32()), v);
  }

  // ---- Vectors ----
  Value splat(Value scalar, int64_t lanes = kLanes);
  Value lane(Value vector, int64_t i);
  /// `indices` pick lanes of a, then of b.
  Value shuffle(Value a, Value b, llvm::ArrayRef<int64_t> indices);
  /// Folds 16 lanes: 16 -> 8 -> 4 -> 2 -> 1, lane i with lane i + half.
  Value foldLanes(Value vector, llvm::function_ref<Value(Value, Value)> join);
  Value sumLanes(Value vector);
  Value maxLanes(Value vector); ///< floats, by maxFloat
  /// f16 and bf16 to f32, exactly; f32 as it is.
  Value extend(Value v);
  /// f32 to an element type, rounded to nearest even; NaN stays NaN.
  Value truncate(Value v, Type element);

  // ---- Memory. Offsets count elements; addresses are aligned to one element unless said ----
  int64_t bytesOf(Type element) { return element.getIntOrFloatBitWidth() / 8; }
  Value at(Type element, Value base, Value offset);
  Value at(Type element, Value base, int64_t offset) { return at(element, base, index(offset)); }
  Value load(Type type, Value address, int64_t alignment = 0);
  void store(Value v, Value address, int64_t alignment = 0);
  Value loadAt(Type element, Value base, Value offset) {
    return load(element, at(element, base, offset));
  }
  void storeAt(Value v, Value base, Value offset) { store(v, at(v.getType(), base, offset)); }
  /// The first `lanes` of a vector of 16; the others are 0 and not read.
  Value loadLanes(Type element, Value address, int64_t lanes = kLanes);
  void storeLanes(Value v, Value address, int64_t lanes = kLanes);
  /// The lanes that the i1 vector `mask` names.
  Value loadMasked(Type element, Value address, Value mask);
  void storeMasked(Value v, Value address, Value mask);
  /// Fetches a cache line for reading into the first or second level.
  void prefetch(Value address, unsigned level);

  // ---- Control ----
  using LoopBody = llvm::function_ref<llvm::SmallVector<Value>(Value i, ValueRange carried)>;
  /// for i = from; i < to; i += step, carrying values; gives those after the last turn.
  llvm::SmallVector<Value> loop(Value from, Value to, int64_t step, ValueRange carried,
                                LoopBody body);
  void loop(Value from, Value to, int64_t step, llvm::function_ref<void(Value i)> body);
  void loop(int64_t from, int64_t to, int64_t step, llvm::function_ref<void(Value i)> body) {
    loop(index(from), index(to), step, body);
  }
  /// while (condition(carried)) carried = body(carried).
  llvm::SmallVector<Value> loopWhile(ValueRange carried,
                                     llvm::function_ref<Value(ValueRange)> condition,
                                     llvm::function_ref<llvm::SmallVector<Value>(ValueRange)> body);
  void ifThen(Value condition, llvm::function_ref<void()> then);
  /// Runs body for 16 features at a time, then once for the rest: body(offset, lanes).
  void forChunks(int64_t features, llvm::function_ref<void(Value offset, int64_t lanes)> body);

private:
  Value laneMask(int64_t lanes);
};

/// The frame of one kernel: its arguments (runtime/device/KernelAbi.h), buffers, grid and scratch
/// memory.
class KernelFrame : public KernelBuilder {
public:
  /// Appends an empty function named like `kernel` to `module` and goes inside.
  KernelFrame(kernel::FuncOp kernel, mlir::ModuleOp module, mlir::OpBuilder &at,
              const CpuTarget &t);

  kernel::FuncOp kernel;

  /// Address of a block argument of the kernel; null for an absent operand.
  Value buffer(Value argument) { return argument ? buffers.lookup(argument) : Value(); }
  static Type elementOf(Value argument) {
    return mlir::cast<kernel::BufferType>(argument.getType()).getElement();
  }
  /// A count of the running step, i64. Blocks and Table have none.
  Value count(kernel::Unit unit);
  /// Row length of each block table, i64.
  Value maxBlocks();
  /// count * perUnit + fixed of grid dimension `i`, i64.
  Value gridExtent(unsigned i);
  kernel::GridDimAttr gridDim(unsigned i);
  /// `bytes` of the worker's scratch memory, aligned to 64.
  Value scratch(int64_t bytes);
  int64_t scratchBytes() const { return scratchUsed; }
  Value cellBegin() { return begin; }
  Value cellEnd() { return end; }
  /// Runs body for each cell of the call.
  void forCells(llvm::function_ref<void(Value cell)> body) { loop(begin, end, 1, body); }
  /// An internal array of constants.
  Value constantArray(llvm::StringRef name, llvm::ArrayRef<float> values);

private:
  mlir::ModuleOp module;
  Value counts, begin, end, scratchBase;
  llvm::DenseMap<Value, Value> buffers;
  int64_t scratchUsed = 0;
};

} // namespace sluicec::cpu
