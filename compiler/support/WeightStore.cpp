// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The weight store and its attachment to a context.
#include "compiler/support/WeightStore.h"

#include "llvm/ADT/APFloat.h"
#include "llvm/ADT/APInt.h"
#include "llvm/Support/MathExtras.h"
#include "mlir/IR/BuiltinDialect.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/DialectInterface.h"

#include <bit>
#include <cstring>

using namespace mlir;
using namespace sluicec::support;

static_assert(std::endian::native == std::endian::little,
              "weights are read in place; they are little endian");

namespace {
// Holds the store of a context; attached to the builtin dialect, which every context has.
class WeightStoreHolder : public DialectInterface::Base<WeightStoreHolder> {
public:
  MLIR_DEFINE_EXPLICIT_INTERNAL_INLINE_TYPE_ID(WeightStoreHolder)
  explicit WeightStoreHolder(Dialect *dialect) : Base(dialect) {}
  mutable WeightStore store;
};

// Bits of one stored element: bool takes a byte; 0 where the type has no storage form.
unsigned elementBits(Type type) {
  if (auto complex = dyn_cast<ComplexType>(type)) {
    return 2 * elementBits(complex.getElementType());
  }
  if (!isa<IntegerType, FloatType>(type)) {
    return 0;
  }
  return type.isInteger(1) ? 8 : type.getIntOrFloatBitWidth();
}

// Element `index` as its bit pattern.
llvm::APInt elementPattern(Type type, llvm::ArrayRef<char> bytes, int64_t index) {
  unsigned bits = elementBits(type);
  uint64_t raw = 0;
  if (bits < 8) {
    uint64_t bitOffset = static_cast<uint64_t>(index) * bits;
    raw = static_cast<uint8_t>(bytes[bitOffset / 8]) >> (bitOffset % 8);
  } else {
    std::memcpy(&raw, bytes.data() + static_cast<uint64_t>(index) * (bits / 8), bits / 8);
  }
  raw &= llvm::maskTrailingOnes<uint64_t>(bits);
  return llvm::APInt(bits, raw);
}

int64_t decodeInteger(Type type, llvm::ArrayRef<char> bytes, int64_t index) {
  llvm::APInt pattern = elementPattern(type, bytes, index);
  bool isUnsigned = type.isUnsignedInteger() || type.isInteger(1);
  return isUnsigned ? static_cast<int64_t>(pattern.getZExtValue()) : pattern.getSExtValue();
}

template <typename T, typename Decode>
std::vector<T> readAll(const WeightTensor &tensor, Decode decode) {
  std::vector<T> values(static_cast<size_t>(tensor.numElements()));
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = static_cast<T>(decode(static_cast<int64_t>(i)));
  }
  return values;
}
} // namespace

int64_t WeightTensor::numElements() const {
  int64_t count = 1;
  for (int64_t size : shape) {
    count *= size;
  }
  return count;
}

std::optional<uint64_t> sluicec::support::weightBytes(Type elementType,
                                                      llvm::ArrayRef<int64_t> shape) {
  uint64_t bits = elementBits(elementType);
  bool empty = false;
  for (int64_t size : shape) {
    if (size < 0) {
      return std::nullopt;
    }
    empty |= size == 0;
  }
  for (int64_t size : shape) {
    if (!empty && __builtin_mul_overflow(bits, static_cast<uint64_t>(size), &bits)) {
      return std::nullopt;
    }
  }
  if (bits == 0 || bits > static_cast<uint64_t>(INT64_MAX)) {
    return std::nullopt;
  }
  return empty ? 0 : llvm::divideCeil(bits, 8);
}

llvm::Error WeightStore::add(llvm::StringRef name, WeightTensor tensor,
                             std::shared_ptr<const void> owner) {
  std::optional<uint64_t> expected = weightBytes(tensor.elementType, tensor.shape);
  if (!expected || *expected != tensor.bytes.size()) {
    return llvm::createStringError(
        "tensor '" + name + "' has " + llvm::Twine(tensor.bytes.size()) +
        " bytes, its type and shape need " +
        (expected ? llvm::Twine(*expected) : llvm::Twine("more than can be counted")));
  }
  std::lock_guard lock(mutex);
  if (!tensors.try_emplace(name, std::make_unique<WeightTensor>(std::move(tensor))).second) {
    return llvm::createStringError("there are two tensors named '" + name + "'");
  }
  if (owner && (owners.empty() || owners.back() != owner)) {
    owners.push_back(std::move(owner));
  }
  return llvm::Error::success();
}

std::string WeightStore::addComputed(llvm::StringRef name, Type elementType,
                                     llvm::ArrayRef<int64_t> shape, std::vector<char> data) {
  assert(weightBytes(elementType, shape) == data.size() && "size of a computed tensor");
  auto owner = std::make_shared<const std::vector<char>>(std::move(data));
  WeightTensor tensor{elementType, llvm::SmallVector<int64_t, 4>(shape), *owner};
  std::lock_guard lock(mutex);
  std::string unique = name.str();
  for (size_t suffix = 1; tensors.contains(unique); ++suffix) {
    unique = (name + "#" + llvm::Twine(suffix)).str();
  }
  tensors.try_emplace(unique, std::make_unique<WeightTensor>(std::move(tensor)));
  owners.push_back(std::move(owner));
  return unique;
}

const WeightTensor *WeightStore::find(llvm::StringRef name) const {
  std::lock_guard lock(mutex);
  auto entry = tensors.find(name);
  return entry == tensors.end() ? nullptr : entry->second.get();
}

llvm::ArrayRef<char> WeightStore::bytes(llvm::StringRef name) const {
  const WeightTensor *tensor = find(name);
  return tensor ? tensor->bytes : llvm::ArrayRef<char>();
}

size_t WeightStore::size() const {
  std::lock_guard lock(mutex);
  return tensors.size();
}

double sluicec::support::decodeElement(Type elementType, llvm::ArrayRef<char> bytes,
                                       int64_t index) {
  if (auto floatType = dyn_cast<FloatType>(elementType)) {
    llvm::APFloat value(floatType.getFloatSemantics(), elementPattern(elementType, bytes, index));
    bool losesInfo = false;
    value.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &losesInfo);
    return value.convertToDouble();
  }
  int64_t value = decodeInteger(elementType, bytes, index);
  return elementType.isUnsignedInteger() ? static_cast<double>(static_cast<uint64_t>(value))
                                         : static_cast<double>(value);
}

std::optional<std::vector<float>> WeightStore::readAsF32(llvm::StringRef name,
                                                         int64_t maxElements) const {
  const WeightTensor *tensor = find(name);
  if (!tensor || !isa<IntegerType, FloatType>(tensor->elementType) ||
      tensor->numElements() > maxElements) {
    return std::nullopt;
  }
  if (tensor->elementType.isF32()) {
    std::vector<float> values(static_cast<size_t>(tensor->numElements()));
    std::memcpy(values.data(), tensor->bytes.data(), tensor->bytes.size());
    return values;
  }
  return readAll<float>(
      *tensor, [&](int64_t i) { return decodeElement(tensor->elementType, tensor->bytes, i); });
}

std::optional<std::vector<double>> WeightStore::readAsF64(llvm::StringRef name,
                                                          int64_t maxElements) const {
  const WeightTensor *tensor = find(name);
  if (!tensor || !isa<IntegerType, FloatType>(tensor->elementType) ||
      tensor->numElements() > maxElements) {
    return std::nullopt;
  }
  return readAll<double>(
      *tensor, [&](int64_t i) { return decodeElement(tensor->elementType, tensor->bytes, i); });
}

std::optional<std::vector<int64_t>> WeightStore::readAsI64(llvm::StringRef name,
                                                           int64_t maxElements) const {
  const WeightTensor *tensor = find(name);
  if (!tensor || !isa<IntegerType>(tensor->elementType) || tensor->numElements() > maxElements) {
    return std::nullopt;
  }
  return readAll<int64_t>(
      *tensor, [&](int64_t i) { return decodeInteger(tensor->elementType, tensor->bytes, i); });
}

WeightStore &WeightStore::attach(MLIRContext *context) {
  Dialect *builtin = context->getOrLoadDialect<BuiltinDialect>();
  if (auto *holder = builtin->getRegisteredInterface<WeightStoreHolder>()) {
    return holder->store;
  }
  return builtin->addInterface<WeightStoreHolder>().store;
}

WeightStore &WeightStore::of(MLIRContext *context) { return attach(context); }
