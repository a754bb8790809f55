// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A place in tokenizer.json together with its path, so that every error says where it is. Used by
// the parts of Tokenizer while they are built.
#pragma once

#include "runtime/base/Status.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

namespace sluice {

class JsonView {
public:
  /// `node` null: absent. Must outlive the view.
  JsonView(const nlohmann::json *node, std::string path) : node_(node), path_(std::move(path)) {}

  /// Absent or JSON null.
  bool isNull() const { return !node_ || node_->is_null(); }
  bool isObject() const { return node_ && node_->is_object(); }
  bool isArray() const { return node_ && node_->is_array(); }
  bool isString() const { return node_ && node_->is_string(); }
  const std::string &path() const { return path_; }
  /// Only for isObject() and isArray() views.
  const nlohmann::json &node() const { return *node_; }

  /// A member of an object; absent when there is none or this is no object.
  JsonView member(const std::string &key) const;
  /// An element of an array; absent when out of range.
  JsonView element(size_t index) const;
  /// Elements of an array, else 0.
  size_t size() const { return isArray() ? node_->size() : 0; }

  Result<std::string> string() const;
  /// `absent` is the value where the file has none (or null).
  Result<bool> boolean(bool absent) const;
  /// A token id: an integer in [0, 2^24).
  Result<int32_t> tokenId() const;
  /// The member "type" of an object.
  Result<std::string> type() const;

  /// "tokenizer.json: PATH: MESSAGE" with code InvalidArgument: the file contradicts its own
  /// format.
  Status wrong(std::string_view message) const;
  /// The same with code Unsupported: the file is right, but this version can't do it.
  Status notSupported(std::string_view message) const;

private:
  std::string describe() const;
  std::string text(std::string_view message) const;

  const nlohmann::json *node_;
  std::string path_;
};

} // namespace sluice
