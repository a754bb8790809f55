// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The first stage: an ONNX file and the JSON files beside it → a module of the onnx dialect and a
// filled WeightStore.
#pragma once

#include "compiler/support/JsonFile.h"

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace sluicec {

struct ImportOptions {
  std::string externalDataRoot; ///< external data are looked up here and links inside it are
                                ///< followed; empty: model's folder, no links
  bool inferShapes = true;      ///< off only in tests that look at the file's own types
  bool foldShapes = true;       ///< integer values that are known numbers become constants
};

/// The files beside a model. An absent one is empty.
struct ModelFiles {
  std::string modelPath; ///< the .onnx file
  std::string folder;    ///< its folder, "." at least
  support::JsonFile config, generationConfig, tokenizer, tokenizerConfig;
  std::string chatTemplate; ///< chat_template.jinja, else tokenizer_config.json's chat_template
                            ///< where that is text
};

struct ImportedModel {
  mlir::OwningOpRef<mlir::ModuleOp> module;
  ModelFiles files;
};

/// Imports `path`, a folder with model.onnx (or one single .onnx file) or an .onnx file. The module
/// holds `func.func @main` of onnx ops; module attributes kOpsetAttr, kIrVersionAttr,
/// kProducerAttr, kFileAttr. Tensor bytes stay mapped, in WeightStore::of(context): one model per
/// context. The result is verified.
///
/// Every mistake in the input is one error diagnostic that names file and node or tensor: no file
/// or another format, cut file, IR version or opset out of range, unknown operator, arity,
/// attributes, undefined or duplicate names, cycles, element types and shapes that do not fit,
/// tensor data missing, too short or outside of the folder, absurd sizes.
mlir::FailureOr<ImportedModel> importModel(llvm::StringRef path, const ImportOptions &options,
                                           mlir::MLIRContext *context);

/// The model file that `path` stands for, as importModel finds it.
llvm::Expected<std::string> findModelFile(llvm::StringRef path);

/// Reads the files beside the model; errors name the file.
llvm::Expected<ModelFiles> readModelFiles(llvm::StringRef modelPath);

/// "a GGUF file", "a zip archive": what the first bytes say the file is, "" where they are
/// compatible with ONNX.
llvm::StringRef foreignFormat(llvm::ArrayRef<char> bytes);

} // namespace sluicec
