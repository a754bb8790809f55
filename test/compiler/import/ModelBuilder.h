// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds small ONNX files for the importer's tests, and imports them catching the diagnostics.
#pragma once

#include "compiler/import/ImportModel.h"

#include "mlir/IR/MLIRContext.h"

#include <filesystem>
#include <string>
#include <vector>

#include "onnx/onnx-ml.pb.h"

namespace sluicec::test {

using Proto = ::onnx::TensorProto; // for its element type numbers

/// A folder of its own, removed at destruction.
class TemporaryFolder {
public:
  TemporaryFolder();
  ~TemporaryFolder();
  std::string path(const std::string &name) const { return (folder / name).string(); }
  /// Writes a file and returns its path.
  std::string write(const std::string &name, const std::string &content) const;
  const std::filesystem::path folder;
};

/// A model under construction: opset 20, IR version 10, no nodes.
class ModelBuilder {
public:
  ModelBuilder();
  ::onnx::ModelProto proto;

  ::onnx::GraphProto &graph() { return *proto.mutable_graph(); }
  /// Sizes are numbers or names: {"batch", "4"}.
  void input(const std::string &name, int type, const std::vector<std::string> &shape);
  void output(const std::string &name, int type, const std::vector<std::string> &shape);
  ::onnx::NodeProto &node(const std::string &op, const std::vector<std::string> &inputs,
                          const std::vector<std::string> &outputs, const std::string &domain = "");
  ::onnx::TensorProto &tensor(const std::string &name, int type, const std::vector<int64_t> &dims);
  void floats(const std::string &name, const std::vector<int64_t> &dims,
              const std::vector<float> &values);
  void ints(const std::string &name, const std::vector<int64_t> &dims,
            const std::vector<int64_t> &values);
  /// y = x + x on f32 [batch, 4]: a whole model to spoil.
  static ModelBuilder sum();

  std::string bytes() const { return proto.SerializeAsString(); }
};

void addAttribute(::onnx::NodeProto &node, const std::string &name, int64_t value);
void addAttribute(::onnx::NodeProto &node, const std::string &name, float value);

/// Imports and gives the diagnostics' text as NodeDiagnostics prints it.
struct ImportRun {
  explicit ImportRun(const std::string &path, const ImportOptions &options = {});
  explicit ImportRun(const ModelBuilder &model, const ImportOptions &options = {});

  bool ok() const { return succeeded(imported); }
  std::string text(); // of the module
  std::string messages;
  TemporaryFolder folder;
  mlir::MLIRContext context;
  mlir::FailureOr<ImportedModel> imported;

private:
  void run(const std::string &path, const ImportOptions &options);
};

} // namespace sluicec::test
