// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A walk over protobuf's wire format, guided by the few fields through which a tensor can be
// reached.
#include "compiler/import/ProtoSplit.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/ADT/Twine.h"

#include "onnx/onnx-ml.pb.h"

using namespace sluicec;

namespace {
enum class Message { Model, Graph, Function, Node, Attribute, Tensor, Other };
enum WireType : uint32_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

constexpr llvm::StringLiteral kReferenceKey = "sluice.mapped_raw_data";
// If/Loop bodies nest graph, node, attribute; deeper files are refused here already (protobuf's own
// limit is 100 messages).
constexpr unsigned kMaxDepth = 90;

// The message that `field` of `parent` holds.
Message childMessage(Message parent, uint32_t field) {
  using P = ::onnx::ModelProto;
  using G = ::onnx::GraphProto;
  using A = ::onnx::AttributeProto;
  switch (parent) {
  case Message::Model:
    return field == P::kGraphFieldNumber       ? Message::Graph
           : field == P::kFunctionsFieldNumber ? Message::Function
                                               : Message::Other;
  case Message::Graph:
    return field == G::kNodeFieldNumber          ? Message::Node
           : field == G::kInitializerFieldNumber ? Message::Tensor
                                                 : Message::Other;
  case Message::Function:
    return field == ::onnx::FunctionProto::kNodeFieldNumber ? Message::Node : Message::Other;
  case Message::Node:
    return field == ::onnx::NodeProto::kAttributeFieldNumber ? Message::Attribute : Message::Other;
  case Message::Attribute:
    if (field == A::kTFieldNumber || field == A::kTensorsFieldNumber) {
      return Message::Tensor;
    }
    return field == A::kGFieldNumber || field == A::kGraphsFieldNumber ? Message::Graph
                                                                       : Message::Other;
  default:
    return Message::Other;
  }
}

class Splitter {
public:
  explicit Splitter(llvm::ArrayRef<char> model) : file(model) {}

  // Copies the message in [begin, end) to `out`.
  llvm::Error split(Message kind, uint64_t begin, uint64_t end, unsigned depth, std::string &out) {
    if (depth > kMaxDepth) {
      return llvm::createStringError("graphs are nested too deep");
    }
    uint64_t at = begin;
    while (at < end) {
      uint64_t fieldStart = at;
      uint64_t tag = 0;
      uint64_t length = 0;
      if (!readVarint(at, end, tag) || tag > UINT32_MAX || tag >> 3 == 0) {
        return fault(fieldStart);
      }
      auto field = static_cast<uint32_t>(tag >> 3);
      switch (tag & 7) {
      case kVarint:
        if (!readVarint(at, end, length)) {
          return fault(fieldStart);
        }
        copy(fieldStart, at, out);
        continue;
      case kFixed64:
      case kFixed32:
        length = (tag & 7) == kFixed64 ? 8 : 4;
        break;
      case kBytes:
        if (!readVarint(at, end, length)) {
          return fault(fieldStart);
        }
        break;
      default:
        return fault(fieldStart);
      }
      if (length > end - at) {
        return llvm::createStringError("the file is cut short: the field at byte " +
                                       llvm::Twine(fieldStart) + " has " + llvm::Twine(length) +
                                       " bytes, only " + llvm::Twine(end - at) + " follow");
      }
      if ((tag & 7) != kBytes) {
        copy(fieldStart, at + length, out);
      } else if (llvm::Error error = copyBytesField(kind, field, {at, length}, depth, out)) {
        return error;
      }
      at += length;
    }
    return llvm::Error::success();
  }

private:
  llvm::ArrayRef<char> file;

  // Copies field `field` of a message of `kind`, whose content is at `range`.
  llvm::Error copyBytesField(Message kind, uint32_t field, MappedRange range, unsigned depth,
                             std::string &out) {
    if (kind == Message::Tensor && field == ::onnx::TensorProto::kRawDataFieldNumber &&
        range.length >= kMinMappedRawBytes) {
      ::onnx::TensorProto reference;
      auto *entry = reference.add_metadata_props();
      entry->set_key(kReferenceKey.str());
      entry->set_value(llvm::utostr(range.offset) + "," + llvm::utostr(range.length));
      reference.AppendToString(&out);
      return llvm::Error::success();
    }
    writeVarint(uint64_t(field) << 3 | kBytes, out);
    Message child = childMessage(kind, field);
    if (child == Message::Other) {
      writeVarint(range.length, out);
      copy(range.offset, range.offset + range.length, out);
      return llvm::Error::success();
    }
    std::string inner;
    if (llvm::Error error =
            split(child, range.offset, range.offset + range.length, depth + 1, inner)) {
      return error;
    }
    writeVarint(inner.size(), out);
    out += inner;
    return llvm::Error::success();
  }

  static llvm::Error fault(uint64_t at) {
    return llvm::createStringError("no protobuf field at byte " + llvm::Twine(at) +
                                   "; the file is cut short or no ONNX model");
  }

  void copy(uint64_t begin, uint64_t end, std::string &out) const {
    out.append(file.data() + begin, end - begin);
  }

  bool readVarint(uint64_t &at, uint64_t end, uint64_t &value) const {
    value = 0;
    for (unsigned shift = 0; shift < 64 && at < end; shift += 7) {
      auto byte = static_cast<uint8_t>(file[at++]);
      value |= uint64_t(byte & 127) << shift;
      if (byte < 128) {
        return true;
      }
    }
    return false;
  }

  static void writeVarint(uint64_t value, std::string &out) {
    for (; value >= 128; value >>= 7) {
      out += static_cast<char>(value | 128);
    }
    out += static_cast<char>(value);
  }
};
} // namespace

llvm::Expected<std::string> sluicec::splitModel(llvm::ArrayRef<char> model) {
  std::string out;
  if (llvm::Error error = Splitter(model).split(Message::Model, 0, model.size(), 0, out)) {
    return std::move(error);
  }
  return out;
}

std::optional<MappedRange> sluicec::mappedRawData(const ::onnx::TensorProto &tensor) {
  for (const auto &entry : tensor.metadata_props()) {
    if (entry.key() == kReferenceKey) {
      auto [offset, length] = llvm::StringRef(entry.value()).split(',');
      MappedRange range;
      if (!offset.getAsInteger(10, range.offset) && !length.getAsInteger(10, range.length)) {
        return range;
      }
    }
  }
  return std::nullopt;
}
