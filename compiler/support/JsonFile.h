// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Text and JSON files beside a model, read whole with a size limit.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/Error.h"
#include "llvm/Support/JSON.h"

#include <optional>
#include <string>

namespace sluicec::support {

/// Larger side files are refused (the largest tokenizer.json known is under 40 MB).
constexpr uint64_t kMaxTextFileBytes = uint64_t(256) << 20;

/// The text of a file; std::nullopt where it does not exist. Error where it is no regular file, too
/// large or unreadable.
llvm::Expected<std::optional<std::string>> readTextFile(const std::string &path);

/// A JSON file: its text as the package stores it, and its value for the few fields that the
/// compiler reads.
struct JsonFile {
  std::string text;
  llvm::json::Value value = nullptr;

  bool isPresent() const { return !text.empty(); }
  /// A member of the top object, or null. `key` may name nested objects: "rope_scaling.factor".
  const llvm::json::Value *find(llvm::StringRef key) const;
  std::optional<int64_t> findInt(llvm::StringRef key) const;
  std::optional<double> findNumber(llvm::StringRef key) const;
  std::optional<llvm::StringRef> findString(llvm::StringRef key) const;
  std::optional<bool> findBool(llvm::StringRef key) const;
  /// A member that is a number or a list of numbers ("eos_token_id"); empty where absent.
  llvm::SmallVector<int64_t> findInts(llvm::StringRef key) const;
};

/// Reads and parses; an absent file gives an absent JsonFile. The error names file, line and
/// column.
llvm::Expected<JsonFile> readJsonFile(const std::string &path);

} // namespace sluicec::support
