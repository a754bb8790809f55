// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Verifiers of the kernel templates: buffers have the sizes that the attributes say, so that
// generated code stays inside.
#include "dialects/kernel/KernelDialect.h"

#include "mlir/IR/Builders.h"

using namespace mlir;

namespace sluicec::kernel {

namespace {

/// Checks the buffers of one template operation; the first failure is reported on it.
class BufferCheck {
public:
  explicit BufferCheck(Operation *op) : op(op) {}

  /// [rows, perRow] of f32: as many rows as the other row buffers of this template.
  BufferCheck &rows(StringRef name, Value v, int64_t perRow) {
    return rowsOf(name, v, perRow, Float32Type::get(op->getContext()));
  }
  BufferCheck &intRows(StringRef name, Value v, int64_t perRow) {
    return rowsOf(name, v, perRow, IntegerType::get(op->getContext(), 32));
  }
  /// `count` elements of any float type, whatever the step's sizes.
  BufferCheck &weight(StringRef name, Value v, std::optional<int64_t> count) {
    return fixedOf(name, v, count, [](Type t) { return isa<FloatType>(t); }, "a float type");
  }
  BufferCheck &vector(StringRef name, Value v, int64_t count) {
    return fixedOf(name, v, count, [](Type t) { return t.isF32(); }, "f32");
  }
  BufferCheck &intVector(StringRef name, Value v, int64_t count) {
    return fixedOf(name, v, count, [](Type t) { return t.isInteger(32); }, "i32");
  }
  /// count(unit) * perUnit + fixed of `element`.
  BufferCheck &exactly(StringRef name, Value v, BufferType expected) {
    if (succeeded(result) && v && v.getType() != expected) {
      result = op->emitOpError() << name << " is " << v.getType() << ", expected " << expected;
    }
    return *this;
  }
  BufferCheck &require(bool holds, const Twine &what) {
    if (succeeded(result) && !holds) {
      result = op->emitOpError() << what;
    }
    return *this;
  }

  operator LogicalResult() const { return result; }

private:
  Operation *op;
  LogicalResult result = success();
  std::optional<Unit> unit; // what this template's rows are

  BufferCheck &rowsOf(StringRef name, Value v, int64_t perRow, Type element) {
    if (failed(result) || !v) {
      return *this;
    }
    auto type = cast<BufferType>(v.getType());
    if (!unit) {
      unit = type.getUnit();
    }
    return exactly(name, v, BufferType::get(op->getContext(), *unit, perRow, 0, element));
  }

  BufferCheck &fixedOf(StringRef name, Value v, std::optional<int64_t> count,
                       llvm::function_ref<bool(Type)> isElement, StringRef elementName) {
    if (failed(result) || !v) {
      return *this;
    }
    auto type = cast<BufferType>(v.getType());
    if (type.getUnit() != Unit::Fixed || !isElement(type.getElement()) || !count ||
        type.getFixed() != *count) {
      auto diag = op->emitOpError() << name << " is " << type << ", expected ";
      if (count) {
        diag << *count;
      } else {
        diag << "an addressable number of";
      }
      result = diag << " elements of " << elementName;
    }
    return *this;
  }
};

/// a * b, or nothing where it overflows or is negative.
std::optional<int64_t> product(std::optional<int64_t> a, int64_t b) {
  int64_t r = 0;
  if (!a || *a < 0 || b < 0 || __builtin_mul_overflow(*a, b, &r)) {
    return std::nullopt;
  }
  return r;
}

/// Elements of `experts` matrices of n columns (n gates and n ups with `gated`) over k, in panels.
std::optional<int64_t> panelElements(LayoutAttr layout, int64_t experts, int64_t n, int64_t k,
                                     bool gated) {
  int64_t columns = gated ? layout.getWidth() / 2 : layout.getWidth();
  if (columns < 1 || n < 1 || k < 1) {
    return std::nullopt;
  }
  return product(product(product(experts, n / columns + (n % columns != 0)), layout.getWidth()), k);
}

BufferCheck &checkLayout(BufferCheck &check, LayoutAttr layout, bool gated) {
  return check.require(layout.getKind() == (gated ? LayoutKind::GatedPanel : LayoutKind::Panel),
                       gated ? "gated needs a gated_panel layout" : "needs a panel layout");
}

BufferType rowsType(MLIRContext *context, Unit unit, int64_t perRow, Type element) {
  return BufferType::get(context, unit, perRow, 0, element);
}

BufferCheck &checkCache(BufferCheck &check, Operation *op, lm::CacheType layout,
                        int64_t blockTokens, Value cache, Value table) {
  MLIRContext *c = op->getContext();
  std::optional<int64_t> row = product(product(layout.getLayers(), layout.getKvHeads()),
                                       layout.getKeyHead() + layout.getValueHead());
  std::optional<int64_t> block = product(row, blockTokens);
  check.require(block && *block > 0, "a cache block has no addressable size");
  return check
      .exactly("cache", cache, rowsType(c, Unit::Blocks, block.value_or(0), layout.getElement()))
      .exactly("block_table", table, rowsType(c, Unit::Table, 1, IntegerType::get(c, 32)));
}

} // namespace

LogicalResult EmbeddingOp::verify() {
  auto table = cast<BufferType>(getTable().getType());
  BufferCheck check(*this);
  check.require(getFeatures() > 0 && table.getUnit() == Unit::Fixed &&
                    isa<FloatType>(table.getElement()) && table.getFixed() % getFeatures() == 0,
                "table is no [vocabulary, features] weight");
  return check.intRows("ids", getIds(), 1).rows("out", getOut(), getFeatures());
}

LogicalResult RmsNormOp::verify() {
  BufferCheck check(*this);
  check.require(getGroups() > 0 && getFeatures() > 0 && getFeatures() % getGroups() == 0,
                "groups do not divide the features");
  if (failed(LogicalResult(check))) {
    return check;
  }
  check.require(!getSum() || getResidual(), "gives sum without a residual");
  return check.rows("x", getX(), getFeatures())
      .vector("weight", getWeight(), getFeatures() / getGroups())
      .rows("residual", getResidual(), getFeatures())
      .rows("out", getOut(), getFeatures())
      .rows("sum", getSum(), getFeatures());
}

LogicalResult LayerNormOp::verify() {
  return BufferCheck(*this)
      .rows("x", getX(), getFeatures())
      .vector("weight", getWeight(), getFeatures())
      .vector("bias", getBias(), getFeatures())
      .rows("out", getOut(), getFeatures());
}

LogicalResult RopeTableOp::verify() {
  int64_t pairs = static_cast<int64_t>(getFrequencies().size());
  return BufferCheck(*this)
      .intRows("positions", getPositions(), 1)
      .rows("cos", getCos(), pairs)
      .rows("sin", getSin(), pairs);
}

LogicalResult RopeOp::verify() {
  BufferCheck check(*this);
  check.require(getPairs() > 0 && 2 * getPairs() <= getHead(), "rotates more than a head has");
  int64_t features = product(getHeads(), getHead()).value_or(-1);
  return check.rows("x", getX(), features)
      .rows("cos", getCos(), getPairs())
      .rows("sin", getSin(), getPairs())
      .rows("out", getOut(), features);
}

LogicalResult RepeatHeadsOp::verify() {
  std::optional<int64_t> in = product(getHeads(), getHead());
  return BufferCheck(*this)
      .rows("x", getX(), in.value_or(-1))
      .rows("out", getOut(), product(in, getRepeats()).value_or(-1));
}

LogicalResult MatmulOp::verify() {
  bool gated = getGatedAttr() != nullptr;
  BufferCheck check(*this);
  return checkLayout(check, getLayout(), gated)
      .rows("x", getX(), getK())
      .weight("weight", getWeight(), panelElements(getLayout(), 1, getN(), getK(), gated))
      .vector("bias", getBias(), gated ? 2 * getN() : getN())
      .rows("residual", getResidual(), getN())
      .rows("out", getOut(), getN());
}

LogicalResult ExpertPlanOp::verify() {
  return BufferCheck(*this)
      .require(getTopK() > 0 && getExperts() >= getTopK(), "needs 1 <= top_k <= experts")
      .intRows("ids", getIds(), getTopK())
      .intRows("order", getOrder(), getTopK())
      .intVector("starts", getStarts(), getExperts() + 1);
}

LogicalResult GroupedMatmulOp::verify() {
  bool gated = getGatedAttr() != nullptr;
  std::optional<int64_t> columns = gated ? product(getN(), 2) : getN();
  BufferCheck check(*this);
  return checkLayout(check, getLayout(), gated)
      .rows("x", getX(), getPerChoice() ? product(getTopK(), getK()).value_or(-1) : getK())
      .weight("weight", getWeight(),
              panelElements(getLayout(), getExperts(), getN(), getK(), gated))
      .vector("bias", getBias(), product(columns, getExperts()).value_or(-1))
      .intRows("order", getOrder(), getTopK())
      .intVector("starts", getStarts(), getExperts() + 1)
      .rows("out", getOut(), product(getTopK(), getN()).value_or(-1));
}

LogicalResult CombineOp::verify() {
  return BufferCheck(*this)
      .rows("y", getY(), product(getTopK(), getFeatures()).value_or(-1))
      .rows("weights", getWeights(), getTopK())
      .rows("residual", getResidual(), getFeatures())
      .rows("out", getOut(), getFeatures());
}

LogicalResult RouteOp::verify() {
  return BufferCheck(*this)
      .require(getTopK() > 0 && getExperts() >= getTopK(), "needs 1 <= top_k <= experts")
      .rows("logits", getLogits(), getExperts())
      .vector("correction", getCorrection(), getExperts())
      .rows("weights", getWeights(), getTopK())
      .intRows("ids", getIds(), getTopK());
}

LogicalResult GatedActivationOp::verify() {
  return BufferCheck(*this)
      .rows("gate", getGate(), getFeatures())
      .rows("up", getUp(), getFeatures())
      .rows("out", getOut(), getFeatures());
}

LogicalResult RowIndexOp::verify() {
  Type i32 = IntegerType::get(getContext(), 32);
  return BufferCheck(*this)
      .exactly("seq_start", getSeqStart(), BufferType::get(getContext(), Unit::Seqs, 1, 1, i32))
      .exactly("kv_length", getKvLength(), rowsType(getContext(), Unit::Seqs, 1, i32))
      .exactly("row_seq", getRowSeq(), rowsType(getContext(), Unit::Tokens, 1, i32))
      .exactly("row_index", getRowIndex(), rowsType(getContext(), Unit::Tokens, 1, i32));
}

LogicalResult CacheAppendOp::verify() {
  auto layout = cast<lm::CacheType>(getLayout());
  BufferCheck check(*this);
  check.require(getLayer() >= 0 && getLayer() < layout.getLayers(), "layer is not in the cache");
  return checkCache(check, *this, layout, getBlockTokens(), getCache(), getBlockTable())
      .rows("keys", getKeys(), layout.getKvHeads() * layout.getKeyHead())
      .rows("values", getValues(), layout.getKvHeads() * layout.getValueHead())
      .intRows("row_seq", getRowSeq(), 1)
      .intRows("row_index", getRowIndex(), 1);
}

LogicalResult AttentionOp::verify() {
  auto layout = cast<lm::CacheType>(getLayout());
  BufferCheck check(*this);
  check.require(getLayer() >= 0 && getLayer() < layout.getLayers(), "layer is not in the cache")
      .require(layout.getKvHeads() > 0 && getHeads() > 0 && getHeads() % layout.getKvHeads() == 0,
               "heads are not a multiple of the cache's kv heads")
      .require(getSpan() > 0 && getChunk() > 0 && getChunk() % getSpan() == 0,
               "chunk is not a multiple of span");
  return checkCache(check, *this, layout, getBlockTokens(), getCache(), getBlockTable())
      .rows("query", getQuery(), product(getHeads(), layout.getKeyHead()).value_or(-1))
      .intRows("row_seq", getRowSeq(), 1)
      .intRows("row_index", getRowIndex(), 1)
      .vector("sinks", getSinks(), getHeads())
      .rows("out", getOut(), product(getHeads(), layout.getValueHead()).value_or(-1));
}

LogicalResult LogitRowsOp::verify() {
  MLIRContext *c = getContext();
  return BufferCheck(*this)
      .exactly("x", getX(), rowsType(c, Unit::Tokens, getFeatures(), Float32Type::get(c)))
      .exactly("rows", getRows(), rowsType(c, Unit::LogitRows, 1, IntegerType::get(c, 32)))
      .exactly("out", getOut(), rowsType(c, Unit::LogitRows, getFeatures(), Float32Type::get(c)));
}

LogicalResult ElementwiseOp::verify() {
  auto out = cast<BufferType>(getOut().getType());
  Block &body = getBody().front();
  if (out.getUnit() == Unit::Fixed || out.getFixed() != 0 || out.getPerUnit() != getFeatures()) {
    return emitOpError() << "out is " << out << ", expected rows of " << getFeatures();
  }
  if (body.getNumArguments() != getInputs().size() || body.empty() || !isa<YieldOp>(body.back())) {
    return emitOpError("expected a body with one scalar per input, ended by kernel.yield");
  }
  for (auto [input, arg] : llvm::zip(getInputs(), body.getArguments())) {
    auto type = cast<BufferType>(input.getType());
    bool rows = type.getUnit() == out.getUnit() && type.getFixed() == 0 &&
                type.getPerUnit() == getFeatures();
    bool shared =
        type.getUnit() == Unit::Fixed && (type.getFixed() == getFeatures() || type.getFixed() == 1);
    if (!rows && !shared) {
      return emitOpError() << "input " << type << " is neither [rows, " << getFeatures()
                           << "] nor one row nor one scalar";
    }
    if (arg.getType() != type.getElement()) {
      return emitOpError() << "body takes " << arg.getType() << " from " << type;
    }
  }
  Type yielded = cast<YieldOp>(body.back()).getValue().getType();
  return yielded == out.getElement() ? success()
                                     : emitOpError() << "yields " << yielded << " into " << out;
}

} // namespace sluicec::kernel
