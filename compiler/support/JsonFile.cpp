// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Reading JSON side files.
#include "compiler/support/JsonFile.h"

#include "llvm/ADT/SmallVector.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"

using namespace sluicec::support;

llvm::Expected<std::optional<std::string>> sluicec::support::readTextFile(const std::string &path) {
  llvm::StringRef name = llvm::sys::path::filename(path);
  llvm::sys::fs::file_status status;
  if (llvm::sys::fs::status(path, status) || !llvm::sys::fs::exists(status)) {
    return std::optional<std::string>();
  }
  if (status.type() != llvm::sys::fs::file_type::regular_file) {
    return llvm::createStringError(name + ": it is no regular file");
  }
  if (status.getSize() > kMaxTextFileBytes) {
    return llvm::createStringError(name + ": has " + llvm::Twine(status.getSize()) +
                                   " bytes, at most " + llvm::Twine(kMaxTextFileBytes) +
                                   " are read");
  }
  auto buffer = llvm::MemoryBuffer::getFile(path);
  if (!buffer) {
    return llvm::createStringError(name + ": " + buffer.getError().message());
  }
  return std::optional((*buffer)->getBuffer().str());
}

// llvm::json parses by recursion: a file that nests deeper would overflow the stack.
static bool nestsTooDeep(llvm::StringRef text) {
  constexpr int kMaxNesting = 500;
  int depth = 0;
  bool inString = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (inString) {
      i += c == '\\' ? 1 : 0;
      inString = c != '"';
    } else if (c == '"') {
      inString = true;
    } else if (c == '[' || c == '{') {
      if (++depth > kMaxNesting) {
        return true;
      }
    } else if (c == ']' || c == '}') {
      --depth;
    }
  }
  return false;
}

llvm::Expected<JsonFile> sluicec::support::readJsonFile(const std::string &path) {
  auto text = readTextFile(path);
  if (!text) {
    return text.takeError();
  }
  JsonFile file;
  if (!*text) {
    return file;
  }
  file.text = std::move(**text);
  if (nestsTooDeep(file.text)) {
    return llvm::createStringError(llvm::sys::path::filename(path) +
                                   ": arrays and objects are nested too deep");
  }
  auto value = llvm::json::parse(file.text);
  if (!value) {
    return llvm::createStringError(llvm::sys::path::filename(path) + ": " +
                                   llvm::toString(value.takeError()));
  }
  file.value = std::move(*value);
  return file;
}

const llvm::json::Value *JsonFile::find(llvm::StringRef key) const {
  const llvm::json::Value *at = &value;
  while (at && !key.empty()) {
    auto [first, rest] = key.split('.');
    const llvm::json::Object *object = at->getAsObject();
    at = object ? object->get(first) : nullptr;
    key = rest;
  }
  return at;
}

std::optional<int64_t> JsonFile::findInt(llvm::StringRef key) const {
  const llvm::json::Value *found = find(key);
  return found ? found->getAsInteger() : std::nullopt;
}

std::optional<double> JsonFile::findNumber(llvm::StringRef key) const {
  const llvm::json::Value *found = find(key);
  return found ? found->getAsNumber() : std::nullopt;
}

std::optional<llvm::StringRef> JsonFile::findString(llvm::StringRef key) const {
  const llvm::json::Value *found = find(key);
  return found ? found->getAsString() : std::nullopt;
}

std::optional<bool> JsonFile::findBool(llvm::StringRef key) const {
  const llvm::json::Value *found = find(key);
  return found ? found->getAsBoolean() : std::nullopt;
}

llvm::SmallVector<int64_t> JsonFile::findInts(llvm::StringRef key) const {
  llvm::SmallVector<int64_t> numbers;
  const llvm::json::Value *found = find(key);
  if (const llvm::json::Array *array = found ? found->getAsArray() : nullptr) {
    for (const llvm::json::Value &element : *array) {
      if (std::optional<int64_t> number = element.getAsInteger()) {
        numbers.push_back(*number);
      }
    }
  } else if (std::optional<int64_t> number = found ? found->getAsInteger() : std::nullopt) {
    numbers.push_back(*number);
  }
  return numbers;
}
