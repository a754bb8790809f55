// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading TensorProtos.
#include "compiler/import/TensorReader.h"

#include "compiler/import/ProtoSplit.h"
#include "dialects/onnx/ElementTypes.h"

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Diagnostics.h"

#include "onnx/onnx-ml.pb.h"

using namespace mlir;
namespace sluicec {

static std::string shapeText(llvm::ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (int64_t size : shape) {
    text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  }
  return text + "]";
}

TensorReader::TensorReader(support::WeightStore &weights,
                           std::shared_ptr<const MappedFile> modelFile, std::string modelFolder,
                           std::string root)
    : store(weights), model(std::move(modelFile)), folder(std::move(modelFolder)),
      externalDataRoot(std::move(root)) {}

FailureOr<std::shared_ptr<const MappedFile>> TensorReader::externalFile(llvm::StringRef path,
                                                                        Location location) {
  auto known = externals.find(path);
  if (known != externals.end()) {
    return known->second;
  }
  if (!contained) {
    auto opened = ContainedFolder::open(folder, externalDataRoot);
    if (!opened) {
      emitError(location) << llvm::toString(opened.takeError());
      return failure();
    }
    contained.emplace(std::move(*opened));
  }
  auto mapped = contained->map(path);
  if (!mapped) {
    emitError(location) << llvm::toString(mapped.takeError());
    return failure();
  }
  externals[path] = *mapped;
  return *mapped;
}

LogicalResult TensorReader::readExternal(const ::onnx::TensorProto &tensor, uint64_t size,
                                         Location location, Data &data) {
  llvm::StringRef path;
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  for (const auto &entry : tensor.external_data()) {
    llvm::StringRef key = entry.key();
    llvm::StringRef value = entry.value();
    uint64_t number = 0;
    if (key == "location") {
      path = value;
    } else if (key == "offset" || key == "length") {
      if (value.getAsInteger(10, number)) {
        return emitError(location)
               << "external data " << key << " is '" << value << "', expected a number of bytes";
      }
      (key == "offset" ? offset : length.emplace()) = number;
    }
  }
  if (length && *length != size) {
    return emitError(location) << "external data length is " << *length << " bytes, shape "
                               << shapeText(data.tensor.shape) << " of "
                               << onnx::elementTypeText(data.tensor.elementType) << " needs "
                               << size;
  }
  auto file = externalFile(path, location);
  if (failed(file)) {
    return failure();
  }
  llvm::ArrayRef<char> bytes = (*file)->bytes();
  if (offset > bytes.size() || size > bytes.size() - offset) {
    return emitError(location) << "external data need " << size << " bytes at offset " << offset
                               << ", file '" << path << "' has " << bytes.size() << " bytes";
  }
  data.tensor.bytes = bytes.slice(offset, size);
  data.owner = *file;
  return success();
}

namespace {
// Appends the low `width` bytes of each value of a typed field.
template <typename Field>
void appendLowBytes(const Field &field, size_t width, std::vector<char> &out) {
  out.reserve(static_cast<size_t>(field.size()) * width);
  for (auto value : field) {
    char raw[sizeof(value)];
    std::memcpy(raw, &value, sizeof(value));
    out.insert(out.end(), raw, raw + std::min(width, sizeof(value)));
  }
}

// The typed fields of a tensor as raw data. int32_data holds all types of up to 32 bits but float;
// of a sub-byte type one packed byte per entry.
std::vector<char> typedFields(const ::onnx::TensorProto &tensor, unsigned bits) {
  std::vector<char> raw;
  size_t width = std::max(1u, bits / 8);
  if (tensor.float_data_size() > 0) {
    appendLowBytes(tensor.float_data(), sizeof(float), raw);
  } else if (tensor.int32_data_size() > 0) {
    appendLowBytes(tensor.int32_data(), width, raw);
  } else if (tensor.int64_data_size() > 0) {
    appendLowBytes(tensor.int64_data(), sizeof(int64_t), raw);
  } else if (tensor.double_data_size() > 0) {
    appendLowBytes(tensor.double_data(), sizeof(double), raw);
  } else if (tensor.uint64_data_size() > 0) {
    appendLowBytes(tensor.uint64_data(), width, raw);
  }
  return raw;
}

// True where the IR should hold the values.
bool isInline(const support::WeightTensor &tensor) {
  if (auto intType = dyn_cast<IntegerType>(tensor.elementType)) {
    return (intType.getWidth() == 1 || intType.getWidth() >= 8) &&
           tensor.numElements() <= kMaxInlineIntegers;
  }
  auto floatType = dyn_cast<FloatType>(tensor.elementType);
  return floatType && floatType.getWidth() >= 8 && tensor.numElements() <= kMaxInlineFloats;
}

DenseElementsAttr elementsAttr(const support::WeightTensor &tensor) {
  auto type = RankedTensorType::get(tensor.shape, tensor.elementType);
  if (tensor.numElements() == 0) {
    return DenseElementsAttr::get(type, llvm::ArrayRef<Attribute>());
  }
  if (tensor.elementType.isInteger(1)) {
    auto bits = llvm::map_to_vector(tensor.bytes, [](char byte) { return byte != 0; });
    return DenseElementsAttr::get(type, llvm::ArrayRef<bool>(bits));
  }
  return DenseElementsAttr::getFromRawBuffer(type, tensor.bytes);
}
} // namespace

FailureOr<TensorReader::Data> TensorReader::read(const ::onnx::TensorProto &tensor,
                                                 Location location) {
  Data data;
  data.tensor.elementType = onnx::elementTypeFromNumber(location.getContext(), tensor.data_type());
  if (!data.tensor.elementType || isa<onnx::StringType>(data.tensor.elementType)) {
    emitError(location) << "element type " << tensor.data_type() << " "
                        << onnx::elementTypeName(tensor.data_type())
                        << " is not supported for tensor data";
    return failure();
  }
  data.tensor.shape.assign(tensor.dims().begin(), tensor.dims().end());
  std::optional<uint64_t> size = support::weightBytes(data.tensor.elementType, data.tensor.shape);
  if (data.tensor.shape.size() > kMaxRank || !size) {
    emitError(location) << "absurd shape " << shapeText(data.tensor.shape) << ": expected up to "
                        << kMaxRank << " sizes >= 0 whose product can be counted";
    return failure();
  }
  if (tensor.has_segment()) {
    emitError(location)
        << "the tensor is stored in segments, which are not supported; re-export it whole";
    return failure();
  }
  if (tensor.data_location() == ::onnx::TensorProto::EXTERNAL) {
    return failed(readExternal(tensor, *size, location, data)) ? FailureOr<Data>(failure())
                                                               : FailureOr<Data>(data);
  }
  if (std::optional<MappedRange> range = mappedRawData(tensor)) {
    llvm::ArrayRef<char> bytes = model->bytes();
    bool inFile = range->offset <= bytes.size() && range->length <= bytes.size() - range->offset;
    data.tensor.bytes = inFile ? bytes.slice(range->offset, range->length) : llvm::ArrayRef<char>();
    data.owner = model;
  } else {
    const std::string &raw = tensor.raw_data();
    auto copy = std::make_shared<const std::vector<char>>(
        raw.empty() ? typedFields(tensor, onnx::storageBits(data.tensor.elementType))
                    : std::vector<char>(raw.begin(), raw.end()));
    data.tensor.bytes = *copy;
    data.owner = std::move(copy);
  }
  if (data.tensor.bytes.size() != *size) {
    emitError(location) << "the tensor has " << data.tensor.bytes.size() << " bytes of data, shape "
                        << shapeText(data.tensor.shape) << " of "
                        << onnx::elementTypeText(data.tensor.elementType) << " needs " << *size;
    return failure();
  }
  return data;
}

FailureOr<Value> TensorReader::create(OpBuilder &builder, const ::onnx::TensorProto &tensor,
                                      llvm::StringRef key, Location location, bool isScoped) {
  FailureOr<Data> data = read(tensor, location);
  if (failed(data)) {
    return failure();
  }
  std::string name = key.str();
  for (size_t suffix = 1; isScoped && store.contains(name); ++suffix) {
    name = (key + "#" + llvm::Twine(suffix)).str();
  }
  if (llvm::Error error = store.add(name, data->tensor, data->owner)) {
    emitError(location) << llvm::toString(std::move(error));
    return failure();
  }
  auto nameAttr = builder.getStringAttr(name);
  auto type = RankedTensorType::get(data->tensor.shape, data->tensor.elementType);
  if (isInline(data->tensor)) {
    return onnx::ConstantOp::create(builder, location, type, nameAttr, elementsAttr(data->tensor))
        .getResult();
  }
  return onnx::WeightOp::create(builder, location, type, nameAttr).getResult();
}

FailureOr<DenseElementsAttr> TensorReader::readAttribute(const ::onnx::TensorProto &tensor,
                                                         Location location) {
  FailureOr<Data> data = read(tensor, location);
  if (failed(data)) {
    return failure();
  }
  if (!isInline(data->tensor)) {
    emitError(location) << "a tensor attribute of shape " << shapeText(data->tensor.shape)
                        << " and type " << onnx::elementTypeText(data->tensor.elementType)
                        << " is not supported";
    return failure();
  }
  return elementsAttr(data->tensor);
}

} // namespace sluicec
