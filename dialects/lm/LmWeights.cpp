// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Verifiers and folders of weight recipes (reference, transpose, reshape, slice, concat, convert).
#include "dialects/lm/LmDialect.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;

namespace sluicec::lm {

static RankedTensorType tensorOf(Value v) { return cast<RankedTensorType>(v.getType()); }

LogicalResult WeightOp::verify() {
  if (getSource().empty()) {
    return emitOpError("has an empty source; expected the name of a tensor of the model file");
  }
  if (auto value = getValue(); value && value->getShapedType() != getType()) {
    return emitOpError() << "carries a value of type " << value->getShapedType() << ", expected "
                         << getType();
  }
  return success();
}

LogicalResult WeightTransposeOp::verify() {
  auto in = tensorOf(getInput()), out = tensorOf(getResult());
  SmallVector<int64_t> sorted(getPerm());
  llvm::sort(sorted);
  if (static_cast<int64_t>(sorted.size()) != in.getRank() ||
      !llvm::all_of(llvm::enumerate(sorted),
                    [](auto p) { return p.value() == static_cast<int64_t>(p.index()); })) {
    return emitOpError() << "perm is no permutation of " << in.getRank() << " dimensions";
  }
  for (auto [i, p] : llvm::enumerate(getPerm())) {
    if (out.getRank() != in.getRank() || out.getDimSize(i) != in.getDimSize(p)) {
      return emitOpError() << "result " << out << " is not the permuted " << in;
    }
  }
  if (in.getElementType() != out.getElementType()) {
    return emitOpError() << "result " << out << " is not the permuted " << in;
  }
  return success();
}

OpFoldResult WeightTransposeOp::fold(FoldAdaptor) {
  if (llvm::all_of(llvm::enumerate(getPerm()),
                   [](auto p) { return p.value() == static_cast<int64_t>(p.index()); })) {
    return getInput();
  }
  if (auto inner = getInput().getDefiningOp<WeightTransposeOp>()) {
    SmallVector<int64_t> joined;
    for (int64_t p : getPerm()) {
      joined.push_back(inner.getPerm()[p]);
    }
    getInputMutable().assign(inner.getInput());
    setPerm(joined);
    return getResult();
  }
  return {};
}

LogicalResult WeightReshapeOp::verify() {
  auto in = tensorOf(getInput()), out = tensorOf(getResult());
  if (in.getNumElements() != out.getNumElements() || in.getElementType() != out.getElementType()) {
    return emitOpError() << "cannot read " << in << " as " << out;
  }
  return success();
}

OpFoldResult WeightReshapeOp::fold(FoldAdaptor) {
  if (getInput().getType() == getType()) {
    return getInput();
  }
  if (auto inner = getInput().getDefiningOp<WeightReshapeOp>()) {
    getInputMutable().assign(inner.getInput());
    return getResult();
  }
  return {};
}

LogicalResult WeightSliceOp::verify() {
  auto in = tensorOf(getInput()), out = tensorOf(getResult());
  int64_t rank = in.getRank();
  if (out.getRank() != rank || static_cast<int64_t>(getOffsets().size()) != rank ||
      static_cast<int64_t>(getStrides().size()) != rank ||
      in.getElementType() != out.getElementType()) {
    return emitOpError() << "expected " << rank
                         << " offsets and strides and equal ranks and element types";
  }
  for (int64_t i = 0; i < rank; ++i) {
    int64_t size = out.getDimSize(i), first = getOffsets()[i], stride = getStrides()[i];
    if (first < 0 || stride < 1 || (size > 0 && first + (size - 1) * stride >= in.getDimSize(i))) {
      return emitOpError() << "leaves dimension " << i << " of " << in;
    }
  }
  return success();
}

OpFoldResult WeightSliceOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? OpFoldResult(getInput()) : OpFoldResult();
}

LogicalResult WeightConcatOp::verify() {
  auto out = tensorOf(getResult());
  int64_t dim = getDim(), total = 0;
  if (getInputs().empty() || dim < 0 || dim >= out.getRank()) {
    return emitOpError() << "needs inputs and a dimension below " << out.getRank();
  }
  for (Value v : getInputs()) {
    auto in = tensorOf(v);
    if (in.getRank() != out.getRank() || in.getElementType() != out.getElementType()) {
      return emitOpError() << "cannot join " << in << " into " << out;
    }
    for (int64_t i = 0; i < out.getRank(); ++i) {
      if (i != dim && in.getDimSize(i) != out.getDimSize(i)) {
        return emitOpError() << "dimension " << i << " of " << in << " and of " << out << " differ";
      }
    }
    total += in.getDimSize(dim);
  }
  if (total != out.getDimSize(dim)) {
    return emitOpError() << "joins " << total << " along dimension " << dim << ", the result has "
                         << out.getDimSize(dim);
  }
  return success();
}

/// What consecutive slices along the dimension cover in order, when that is a whole tensor: the
/// parts of a stacked weight put together again.
static Value joinedSlices(WeightConcatOp op) {
  Value whole;
  int64_t next = 0;
  for (Value v : op.getInputs()) {
    auto slice = v.getDefiningOp<WeightSliceOp>();
    if (!slice || (whole && slice.getInput() != whole)) {
      return {};
    }
    whole = slice.getInput();
    for (auto [i, offset] : llvm::enumerate(slice.getOffsets())) {
      if (offset != (static_cast<int64_t>(i) == op.getDim() ? next : 0) ||
          slice.getStrides()[i] != 1) {
        return {};
      }
    }
    next += slice.getType().getDimSize(op.getDim());
  }
  return whole && whole.getType() == op.getType() ? whole : Value();
}

OpFoldResult WeightConcatOp::fold(FoldAdaptor) {
  if (getInputs().size() == 1) {
    return getInputs()[0];
  }
  return joinedSlices(*this);
}

LogicalResult WeightConvertOp::verify() {
  auto in = tensorOf(getInput()), out = tensorOf(getResult());
  if (in.getShape() != out.getShape() || !isa<FloatType>(in.getElementType()) ||
      !isa<FloatType>(out.getElementType())) {
    return emitOpError() << "converts float types of equal shape, found " << in << " and " << out;
  }
  return success();
}

OpFoldResult WeightConvertOp::fold(FoldAdaptor) {
  return getInput().getType() == getType() ? OpFoldResult(getInput()) : OpFoldResult();
}

} // namespace sluicec::lm
