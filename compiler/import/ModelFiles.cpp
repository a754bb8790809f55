// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds the model file and reads the JSON files beside it.
#include "compiler/import/ImportModel.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"

using namespace sluicec;
namespace fs = llvm::sys::fs;
namespace path = llvm::sys::path;

static std::string inFolder(llvm::StringRef folder, llvm::StringRef name) {
  llvm::SmallString<256> joined(folder);
  path::append(joined, name);
  return joined.str().str();
}

llvm::Expected<std::string> sluicec::findModelFile(llvm::StringRef given) {
  if (!fs::exists(given)) {
    return llvm::createStringError("'" + given + "': there is no such file or folder");
  }
  if (!fs::is_directory(given)) {
    return given.str();
  }
  std::string standard = inFolder(given, "model.onnx");
  if (fs::exists(standard)) {
    return standard;
  }
  std::vector<std::string> found;
  std::error_code error;
  for (fs::directory_iterator entry(given, error), end; entry != end && !error;
       entry.increment(error)) {
    if (path::extension(entry->path()) == ".onnx") {
      found.push_back(entry->path());
    }
  }
  if (found.size() == 1) {
    return found.front();
  }
  return llvm::createStringError(
      "'" + given + "' holds " +
      (found.empty() ? "no .onnx file" : "several .onnx files and no model.onnx; name one"));
}

llvm::Expected<ModelFiles> sluicec::readModelFiles(llvm::StringRef modelPath) {
  ModelFiles files;
  files.modelPath = modelPath.str();
  files.folder = path::parent_path(modelPath).str();
  if (files.folder.empty()) {
    files.folder = ".";
  }
  std::pair<llvm::StringRef, support::JsonFile *> wanted[] = {
      {"config.json", &files.config},
      {"generation_config.json", &files.generationConfig},
      {"tokenizer.json", &files.tokenizer},
      {"tokenizer_config.json", &files.tokenizerConfig}};
  for (auto [name, target] : wanted) {
    auto file = support::readJsonFile(inFolder(files.folder, name));
    if (!file) {
      return file.takeError();
    }
    *target = std::move(*file);
  }
  auto chatTemplate = support::readTextFile(inFolder(files.folder, "chat_template.jinja"));
  if (!chatTemplate) {
    return chatTemplate.takeError();
  }
  files.chatTemplate =
      chatTemplate->value_or(files.tokenizerConfig.findString("chat_template").value_or("").str());
  return files;
}

llvm::StringRef sluicec::foreignFormat(llvm::ArrayRef<char> bytes) {
  llvm::StringRef text(bytes.data(), bytes.size());
  if (text.starts_with("version https://git-lfs")) {
    return "a Git LFS pointer (run 'git lfs pull')";
  }
  if (text.starts_with("GGUF")) {
    return "a GGUF file";
  }
  if (text.starts_with(llvm::StringRef("PK\x03\x04", 4))) {
    return "a zip archive (perhaps a PyTorch checkpoint)";
  }
  if (text.size() > 9 && text[8] == '{' &&
      text.substr(2, 6).find_first_not_of('\0') == llvm::StringRef::npos) {
    return "a safetensors file";
  }
  if (text.starts_with("\x89HDF")) {
    return "an HDF5 file";
  }
  if (text.starts_with("\x1f\x8b")) {
    return "a gzip archive";
  }
  if (text.starts_with("\x7f"
                       "ELF")) {
    return "an ELF program";
  }
  llvm::StringRef start = text.ltrim(" \t\r\n");
  if (start.starts_with("{") || start.starts_with("[")) {
    return "a JSON file";
  }
  return start.starts_with("<") ? "an XML or HTML file" : "";
}
