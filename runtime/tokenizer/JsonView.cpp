// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Typed reads of tokenizer.json that report the path.
#include "runtime/tokenizer/JsonView.h"

namespace sluice {

namespace {
constexpr int64_t kMaxTokenId =
    (int64_t{1} << 24) - 1; // 16 million; the largest known vocabulary has 300 thousand
}

JsonView JsonView::member(const std::string &key) const {
  std::string path = path_.empty() ? key : path_ + "." + key;
  if (!isObject()) {
    return {nullptr, std::move(path)};
  }
  const auto it = node_->find(key);
  return {it == node_->end() ? nullptr : &*it, std::move(path)};
}

JsonView JsonView::element(size_t index) const {
  return {index < size() ? &(*node_)[index] : nullptr, path_ + "[" + std::to_string(index) + "]"};
}

std::string JsonView::describe() const { return node_ ? node_->type_name() : "nothing"; }

Result<std::string> JsonView::string() const {
  if (!isString()) {
    return wrong("expected a string, found " + describe());
  }
  return node_->get_ref<const std::string &>();
}

Result<bool> JsonView::boolean(bool absent) const {
  if (isNull()) {
    return absent;
  }
  if (!node_->is_boolean()) {
    return wrong("expected true or false, found " + describe());
  }
  return node_->get<bool>();
}

Result<int32_t> JsonView::tokenId() const {
  if (!node_ || !node_->is_number_integer()) {
    return wrong("expected a token id, found " + describe());
  }
  const bool large =
      node_->is_number_unsigned() && node_->get<uint64_t>() > static_cast<uint64_t>(kMaxTokenId);
  const int64_t id = large ? kMaxTokenId + 1 : node_->get<int64_t>();
  if (id < 0 || id > kMaxTokenId) {
    return wrong("token id is out of range, expected 0 ... " + std::to_string(kMaxTokenId));
  }
  return static_cast<int32_t>(id);
}

Result<std::string> JsonView::type() const {
  if (!isObject()) {
    return wrong("expected an object, found " + describe());
  }
  return member("type").string();
}

std::string JsonView::text(std::string_view message) const {
  return "tokenizer.json: " + (path_.empty() ? std::string() : path_ + ": ") + std::string(message);
}

Status JsonView::wrong(std::string_view message) const { return invalidArgument(text(message)); }

Status JsonView::notSupported(std::string_view message) const { return unsupported(text(message)); }

} // namespace sluice
