// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Small ONNX files for the importer's tests.
#include "ModelBuilder.h"

#include "compiler/support/NodeDiagnostics.h"

#include <atomic>
#include <fstream>
#include <unistd.h>

namespace sluicec::test {

static std::filesystem::path uniqueFolder() {
  static std::atomic<unsigned> counter = 0;
  auto path = std::filesystem::temp_directory_path() /
              ("sluice-import-" + std::to_string(::getpid()) + "-" + std::to_string(counter++));
  std::filesystem::create_directories(path);
  return path;
}

TemporaryFolder::TemporaryFolder() : folder(uniqueFolder()) {}

TemporaryFolder::~TemporaryFolder() {
  std::error_code ignored;
  std::filesystem::remove_all(folder, ignored);
}

std::string TemporaryFolder::write(const std::string &name, const std::string &content) const {
  std::filesystem::create_directories((folder / name).parent_path());
  std::ofstream(path(name), std::ios::binary) << content;
  return path(name);
}

ModelBuilder::ModelBuilder() {
  proto.set_ir_version(10);
  proto.set_producer_name("test");
  auto *opset = proto.add_opset_import();
  opset->set_domain("");
  opset->set_version(20);
  graph().set_name("g");
}

static void describe(::onnx::ValueInfoProto &info, const std::string &name, int type,
                     const std::vector<std::string> &shape) {
  info.set_name(name);
  auto *tensor = info.mutable_type()->mutable_tensor_type();
  tensor->set_elem_type(type);
  tensor->mutable_shape();
  for (const std::string &size : shape) {
    auto *dim = tensor->mutable_shape()->add_dim();
    if (!size.empty() && (std::isdigit(static_cast<unsigned char>(size[0])) || size[0] == '-')) {
      dim->set_dim_value(std::stoll(size));
    } else if (!size.empty()) {
      dim->set_dim_param(size);
    }
  }
}

void ModelBuilder::input(const std::string &name, int type, const std::vector<std::string> &shape) {
  describe(*graph().add_input(), name, type, shape);
}

void ModelBuilder::output(const std::string &name, int type,
                          const std::vector<std::string> &shape) {
  describe(*graph().add_output(), name, type, shape);
}

::onnx::NodeProto &ModelBuilder::node(const std::string &op, const std::vector<std::string> &inputs,
                                      const std::vector<std::string> &outputs,
                                      const std::string &domain) {
  auto *added = graph().add_node();
  added->set_op_type(op);
  added->set_domain(domain);
  added->set_name("/" + op);
  for (const std::string &name : inputs) {
    added->add_input(name);
  }
  for (const std::string &name : outputs) {
    added->add_output(name);
  }
  return *added;
}

::onnx::TensorProto &ModelBuilder::tensor(const std::string &name, int type,
                                          const std::vector<int64_t> &dims) {
  auto *added = graph().add_initializer();
  added->set_name(name);
  added->set_data_type(type);
  for (int64_t dim : dims) {
    added->add_dims(dim);
  }
  return *added;
}

void ModelBuilder::floats(const std::string &name, const std::vector<int64_t> &dims,
                          const std::vector<float> &values) {
  auto &added = tensor(name, Proto::FLOAT, dims);
  added.set_raw_data(values.data(), values.size() * sizeof(float));
}

void ModelBuilder::ints(const std::string &name, const std::vector<int64_t> &dims,
                        const std::vector<int64_t> &values) {
  auto &added = tensor(name, Proto::INT64, dims);
  added.set_raw_data(values.data(), values.size() * sizeof(int64_t));
}

ModelBuilder ModelBuilder::sum() {
  ModelBuilder model;
  model.input("x", Proto::FLOAT, {"batch", "4"});
  model.node("Add", {"x", "x"}, {"y"});
  model.output("y", Proto::FLOAT, {"batch", "4"});
  return model;
}

void addAttribute(::onnx::NodeProto &node, const std::string &name, int64_t value) {
  auto *attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(::onnx::AttributeProto::INT);
  attribute->set_i(value);
}

void addAttribute(::onnx::NodeProto &node, const std::string &name, float value) {
  auto *attribute = node.add_attribute();
  attribute->set_name(name);
  attribute->set_type(::onnx::AttributeProto::FLOAT);
  attribute->set_f(value);
}

ImportRun::ImportRun(const std::string &path, const ImportOptions &options)
    : imported(mlir::failure()) {
  run(path, options);
}

ImportRun::ImportRun(const ModelBuilder &model, const ImportOptions &options)
    : imported(mlir::failure()) {
  run(folder.write("model.onnx", model.bytes()), options);
}

void ImportRun::run(const std::string &path, const ImportOptions &options) {
  llvm::raw_string_ostream stream(messages);
  support::NodeDiagnostics diagnostics(&context, stream);
  imported = importModel(path, options, &context);
}

std::string ImportRun::text() {
  std::string result;
  llvm::raw_string_ostream stream(result);
  if (ok()) {
    imported->module->print(stream);
  }
  return result;
}

} // namespace sluicec::test
