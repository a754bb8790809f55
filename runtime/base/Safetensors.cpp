// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Safetensors reading and writing for evaluations.
#include "runtime/base/Safetensors.h"

#include "runtime/base/CheckedMath.h"

#include <cstring>
#include <fstream>
#include <nlohmann/json.hpp>

namespace sluice {

using nlohmann::json;

static uint64_t elementBytes(const std::string &dtype) {
  static const std::map<std::string, uint64_t> sizes = {
      {"F64", 8}, {"F32", 4}, {"F16", 2}, {"BF16", 2}, {"I64", 8},
      {"I32", 4}, {"I16", 2}, {"I8", 1},  {"U8", 1},   {"BOOL", 1}};
  auto it = sizes.find(dtype);
  return it == sizes.end() ? 0 : it->second;
}

int64_t TensorView::numElements() const {
  auto bytesPer = elementBytes(dtype);
  return bytesPer == 0 ? 0 : static_cast<int64_t>(bytes.size() / bytesPer);
}

/// One header entry, checked against the data's size.
static Result<TensorView> readEntry(const std::string &where, const json &entry,
                                    std::span<const char> data) {
  if (!entry.is_object() || !entry.contains("dtype") || !entry["dtype"].is_string() ||
      !entry.contains("shape") || !entry["shape"].is_array() || !entry.contains("data_offsets") ||
      !entry["data_offsets"].is_array() || entry["data_offsets"].size() != 2) {
    return invalidArgument(where + ": expected dtype, shape and data_offsets");
  }
  TensorView view;
  view.dtype = entry["dtype"].get<std::string>();
  for (const json &d : entry["shape"]) {
    if (!d.is_number_unsigned() || d.get<uint64_t>() > INT64_MAX) {
      return invalidArgument(where + ": shape holds something other than sizes");
    }
    view.shape.push_back(d.get<int64_t>());
  }
  const json &begin = entry["data_offsets"][0], &end = entry["data_offsets"][1];
  if (!begin.is_number_unsigned() || !end.is_number_unsigned()) {
    return invalidArgument(where + ": data_offsets are no offsets");
  }
  uint64_t first = begin.get<uint64_t>(), last = end.get<uint64_t>();
  auto expected = checkedBytes(view.shape, elementBytes(view.dtype));
  if (elementBytes(view.dtype) == 0) {
    return unsupported(where + ": element type " + view.dtype + " is not known here");
  }
  if (first > last || !rangeFits(first, last - first, data.size()) || !expected ||
      *expected != last - first) {
    return invalidArgument(where + ": data_offsets do not fit its shape and the file");
  }
  view.bytes = data.subspan(first, last - first);
  return view;
}

Result<SafetensorsFile> SafetensorsFile::read(const std::string &path) {
  std::ifstream in(path, std::ios::binary | std::ios::ate);
  if (!in) {
    return notFound(path + ": cannot be read; give an existing .safetensors file");
  }
  SafetensorsFile file;
  file.path_ = path;
  auto size = static_cast<uint64_t>(std::max<std::streamoff>(in.tellg(), 0));
  uint64_t headerBytes = 0;
  file.data_.resize(size);
  in.seekg(0);
  if (size < 8 || !in.read(file.data_.data(), static_cast<std::streamsize>(size))) {
    return invalidArgument(path + ": too short for a .safetensors file");
  }
  std::memcpy(&headerBytes, file.data_.data(), 8);
  if (!rangeFits(8, headerBytes, size) || headerBytes > (100u << 20)) {
    return invalidArgument(path + ": no .safetensors file, or cut (its header would have " +
                           std::to_string(headerBytes) + " bytes)");
  }
  json header =
      json::parse(file.data_.data() + 8, file.data_.data() + 8 + headerBytes, nullptr, false);
  if (!header.is_object()) {
    return invalidArgument(path + ": its header is no JSON object");
  }
  std::span<const char> data(file.data_.data() + 8 + headerBytes, size - 8 - headerBytes);
  for (auto &[name, entry] : header.items()) {
    if (name == "__metadata__") {
      continue;
    }
    auto view = readEntry(path + ": array '" + name + "'", entry, data);
    if (!view) {
      return view.error();
    }
    file.tensors_.emplace(name, std::move(*view));
  }
  return file;
}

const TensorView *SafetensorsFile::find(const std::string &name) const {
  auto it = tensors_.find(name);
  return it == tensors_.end() ? nullptr : &it->second;
}

static Status wrongArray(const std::string &path, const std::string &name, const TensorView *found,
                         size_t rank, const char *kind) {
  std::string what =
      found ? found->dtype + " of rank " + std::to_string(found->shape.size()) : "nothing";
  return invalidArgument(path + ": array '" + name + "': found " + what + ", expected " + kind +
                         " of rank " + std::to_string(rank));
}

Result<std::vector<float>> SafetensorsFile::floats(const std::string &name, size_t rank) const {
  const TensorView *view = find(name);
  if (!view || view->dtype != "F32" || view->shape.size() != rank) {
    return wrongArray(path_, name, view, rank, "F32");
  }
  std::vector<float> out(view->bytes.size() / sizeof(float));
  std::memcpy(out.data(), view->bytes.data(), view->bytes.size());
  return out;
}

Result<std::vector<int64_t>> SafetensorsFile::integers(const std::string &name, size_t rank) const {
  const TensorView *view = find(name);
  if (!view || (view->dtype != "I64" && view->dtype != "I32") || view->shape.size() != rank) {
    return wrongArray(path_, name, view, rank, "I64 or I32");
  }
  std::vector<int64_t> out;
  auto count = static_cast<size_t>(view->numElements());
  out.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (view->dtype == "I64") {
      int64_t v = 0;
      std::memcpy(&v, view->bytes.data() + 8 * i, 8);
      out.push_back(v);
    } else {
      int32_t v = 0;
      std::memcpy(&v, view->bytes.data() + 4 * i, 4);
      out.push_back(v);
    }
  }
  return out;
}

Status writeSafetensors(const std::string &path, const std::string &name,
                        const std::vector<int64_t> &shape, std::span<const float> values) {
  json header;
  header[name] = {{"dtype", "F32"}, {"shape", shape}, {"data_offsets", {0, values.size_bytes()}}};
  std::string text = header.dump();
  text.resize((text.size() + 7) / 8 * 8, ' ');
  auto length = static_cast<uint64_t>(text.size());
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(reinterpret_cast<const char *>(&length), sizeof(length));
  out.write(text.data(), static_cast<std::streamsize>(text.size()));
  out.write(reinterpret_cast<const char *>(values.data()),
            static_cast<std::streamsize>(values.size_bytes()));
  out.flush();
  return out ? Status::ok()
             : invalidArgument(path + ": cannot be written; check the folder and the free space");
}

} // namespace sluice
