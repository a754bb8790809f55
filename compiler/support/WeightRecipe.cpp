// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds a reader for a recipe. Layout steps on stored bytes become one strided view; conversions
// and concatenations become nodes that pull what they need; transposition is pushed down to the
// views.
#include "compiler/support/WeightRecipe.h"

#include "compiler/support/RecipeNodes.h"
#include "dialects/lm/LmDialect.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectResourceBlobManager.h"

#include <cassert>

using namespace mlir;

namespace sluicec::support {

namespace {

using NodePtr = std::shared_ptr<const RecipeNode>;
using Perm = SmallVector<int64_t, 4>;

Perm identityPerm(int64_t rank) { return llvm::to_vector<4>(llvm::seq<int64_t>(0, rank)); }

template <typename Range>
SmallVector<int64_t, 4> permuted(const Range &values, ArrayRef<int64_t> perm) {
  SmallVector<int64_t, 4> result;
  for (int64_t p : perm) {
    result.push_back(values[static_cast<size_t>(p)]);
  }
  return result;
}

class RecipeBuilder {
public:
  explicit RecipeBuilder(const WeightResolver &resolver) : resolver(resolver) {}

  /// A node for `weight` with dimension i of the result being dimension perm[i] of the weight; null
  /// after a diagnostic.
  NodePtr build(Value weight, Perm perm);

private:
  const WeightResolver &resolver;

  NodePtr stored(lm::WeightOp op);
  NodePtr inlined(lm::WeightOp op, ElementsAttr value);
};

} // namespace

NodePtr RecipeBuilder::inlined(lm::WeightOp op, ElementsAttr value) {
  auto type = cast<RankedTensorType>(op.getType());
  std::optional<uint64_t> size = weightBytes(type.getElementType(), type.getShape());
  auto bytes = std::make_shared<std::vector<char>>();
  if (auto resource = dyn_cast<DenseResourceElementsAttr>(value)) {
    AsmResourceBlob *blob = resource.getRawHandle().getBlob();
    if (!blob) {
      op.emitError() << "carries a value whose resource is missing";
      return {};
    }
    bytes->assign(blob->getData().begin(), blob->getData().end());
  } else if (auto dense = dyn_cast<DenseElementsAttr>(value)) {
    if (type.getElementType().isInteger(1)) {
      for (bool b : dense.getValues<bool>()) {
        bytes->push_back(b);
      }
    } else {
      ArrayRef<char> raw = dense.getRawData();
      int64_t copies = dense.isSplat() ? type.getNumElements() : 1;
      for (int64_t i = 0; i < copies; ++i) {
        bytes->insert(bytes->end(), raw.begin(), raw.end());
      }
    }
  } else {
    op.emitError() << "carries a value of an unknown kind; expected dense elements";
    return {};
  }
  if (!size || bytes->size() != *size) {
    op.emitError() << "carries " << bytes->size() << " bytes, " << type << " needs "
                   << size.value_or(0);
    return {};
  }
  ArrayRef<char> view = *bytes;
  return StridedView::create(view, std::move(bytes), type);
}

NodePtr RecipeBuilder::stored(lm::WeightOp op) {
  auto type = cast<RankedTensorType>(op.getType());
  if (elementBytes(type.getElementType()) == 0) {
    op.emitError() << "has elements of " << type.getElementType()
                   << ", expected a type of whole bytes";
    return {};
  }
  if (ElementsAttr value = op.getValueAttr()) {
    return inlined(op, value);
  }
  const WeightTensor *tensor = resolver(op.getSource());
  if (!tensor) {
    op.emitError() << "refers to '" << op.getSource()
                   << "', which is not among the model's tensors";
    return {};
  }
  if (tensor->elementType != type.getElementType() ||
      ArrayRef<int64_t>(tensor->shape) != type.getShape()) {
    op.emitError() << "is " << type << ", but '" << op.getSource() << "' is "
                   << RankedTensorType::get(tensor->shape, tensor->elementType);
    return {};
  }
  return StridedView::create(tensor->bytes, nullptr, type);
}

NodePtr RecipeBuilder::build(Value weight, Perm perm) {
  Operation *op = weight.getDefiningOp();
  assert(isa_and_nonnull<lm::WeightOpInterface>(op) && "a recipe");
  auto type = cast<RankedTensorType>(weight.getType());
  return llvm::TypeSwitch<Operation *, NodePtr>(op)
      .Case([&](lm::WeightOp w) -> NodePtr {
        NodePtr node = stored(w);
        return node ? transposed(node, perm) : NodePtr();
      })
      .Case(
          [&](lm::WeightTransposeOp t) { return build(t.getInput(), permuted(t.getPerm(), perm)); })
      .Case([&](lm::WeightReshapeOp r) -> NodePtr {
        int64_t rank = cast<RankedTensorType>(r.getInput().getType()).getRank();
        NodePtr input = build(r.getInput(), identityPerm(rank));
        return input ? transposed(reshaped(input, type.getShape()), perm) : NodePtr();
      })
      .Case([&](lm::WeightSliceOp s) -> NodePtr {
        NodePtr input = build(s.getInput(), perm);
        return input ? sliced(input, permuted(s.getOffsets(), perm), permuted(s.getStrides(), perm),
                              permuted(type.getShape(), perm))
                     : NodePtr();
      })
      .Case([&](lm::WeightConcatOp c) -> NodePtr {
        SmallVector<NodePtr> inputs;
        for (Value v : c.getInputs()) {
          inputs.push_back(build(v, perm));
          if (!inputs.back()) {
            return {};
          }
        }
        auto dim = llvm::find(perm, c.getDim()) - perm.begin();
        return concatenated(std::move(inputs), dim, permuted(type.getShape(), perm));
      })
      .Case([&](lm::WeightConvertOp c) -> NodePtr {
        NodePtr input = build(c.getInput(), perm);
        auto from = cast<RankedTensorType>(c.getInput().getType()).getElementType();
        return input ? converted(input, from, type.getElementType(), c) : NodePtr();
      })
      .Default([](Operation *other) -> NodePtr {
        other->emitError() << "is a weight recipe that cannot be evaluated";
        return {};
      });
}

WeightResolver resolverOf(const WeightStore &store) {
  return [&store](llvm::StringRef name) { return store.find(name); };
}

FailureOr<RecipeReader> RecipeReader::create(Value weight, const WeightResolver &resolver) {
  auto type = cast<RankedTensorType>(weight.getType());
  NodePtr node = RecipeBuilder(resolver).build(weight, identityPerm(type.getRank()));
  if (!node) {
    return failure();
  }
  return RecipeReader(std::move(node), type.getElementType(), type.getShape());
}

int64_t RecipeReader::rowElements() const {
  int64_t elements = 1;
  for (int64_t size : ArrayRef<int64_t>(dims).drop_front(dims.empty() ? 0 : 1)) {
    elements *= size;
  }
  return elements;
}

int64_t RecipeReader::rowBytes() const { return rowElements() * elementBytes(element); }

LogicalResult RecipeReader::read(int64_t firstRow, int64_t rows, MutableArrayRef<char> out) const {
  assert(firstRow >= 0 && rows >= 0 && firstRow + rows <= numRows() && "rows of this weight");
  assert(static_cast<int64_t>(out.size()) == rows * rowBytes() && "room for just these rows");
  return node->read(firstRow * rowElements(), rows * rowElements(), out.data());
}

LogicalResult RecipeReader::readElements(int64_t first, int64_t count,
                                         MutableArrayRef<char> out) const {
  assert(first >= 0 && count >= 0 && first + count <= numRows() * rowElements() &&
         "elements of this weight");
  assert(static_cast<int64_t>(out.size()) == count * elementBytes(element) &&
         "room for just these elements");
  return node->read(first, count, out.data());
}

FailureOr<std::vector<char>> RecipeReader::readAll() const {
  std::vector<char> bytes(static_cast<size_t>(numBytes()));
  if (failed(read(0, numRows(), bytes))) {
    return failure();
  }
  return bytes;
}

std::string recipeKey(Value weight) {
  Operation *op = weight.getDefiningOp();
  std::string key;
  llvm::raw_string_ostream out(key);
  out << op->getName() << op->getAttrDictionary() << ':' << weight.getType();
  if (op->getNumOperands() > 0) {
    out << '(';
    llvm::interleave(op->getOperands(), out, [&](Value v) { out << recipeKey(v); }, ",");
    out << ')';
  }
  return key;
}

} // namespace sluicec::support
