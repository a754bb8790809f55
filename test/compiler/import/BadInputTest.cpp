// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every mistake in an ONNX file is one line that names file and node or tensor, what was found and
// what was expected.
#include "ModelBuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace sluicec::test;
using sluicec::ImportOptions;
using testing::HasSubstr;
using testing::StartsWith;

namespace {

// The import fails with exactly this one line.
void expectError(const ModelBuilder &model, const std::string &line) {
  ImportRun run(model);
  EXPECT_FALSE(run.ok());
  EXPECT_EQ(run.messages, line + "\n");
}

void expectFileError(const std::string &content, const std::string &line) {
  TemporaryFolder folder;
  ImportRun run(folder.write("model.onnx", content));
  EXPECT_FALSE(run.ok());
  EXPECT_EQ(run.messages, line + "\n");
}

TEST(BadInput, SumIsAGoodModel) {
  ImportRun run(ModelBuilder::sum());
  EXPECT_TRUE(run.ok()) << run.messages;
  EXPECT_EQ(run.messages, "");
}

TEST(BadInput, MissingFile) {
  ImportRun run("/nonexistent/model.onnx");
  EXPECT_EQ(run.messages,
            "model.onnx: error: '/nonexistent/model.onnx': there is no such file or folder\n");
}

TEST(BadInput, FolderWithoutModel) {
  TemporaryFolder folder;
  ImportRun run(folder.folder.string());
  EXPECT_THAT(run.messages, HasSubstr("holds no .onnx file"));
  folder.write("a.onnx", "");
  folder.write("b.onnx", "");
  ImportRun two(folder.folder.string());
  EXPECT_THAT(two.messages, HasSubstr("holds several .onnx files and no model.onnx; name one"));
}

TEST(BadInput, ForeignFormats) {
  expectFileError("", "model.onnx: error: the file is empty");
  expectFileError(std::string("PK\x03\x04", 4) + "abc",
                  "model.onnx: error: expected an ONNX model, found a zip archive (perhaps a "
                  "PyTorch checkpoint)");
  expectFileError("GGUF....", "model.onnx: error: expected an ONNX model, found a GGUF file");
  expectFileError(" {\"a\": 1}", "model.onnx: error: expected an ONNX model, found a JSON file");
  expectFileError(std::string("\x10\0\0\0\0\0\0\0{\"a\":{}}", 16),
                  "model.onnx: error: expected an ONNX model, found a safetensors file");
  expectFileError(
      "version https://git-lfs.github.com/spec/v1\n",
      "model.onnx: error: expected an ONNX model, found a Git LFS pointer (run 'git lfs pull')");
  expectFileError(
      "Hello, world",
      "model.onnx: error: no protobuf field at byte 2; the file is cut short or no ONNX model");
  expectFileError(
      "\x3a\x7fxyz",
      "model.onnx: error: the file is cut short: the field at byte 0 has 127 bytes, only 3 follow");
}

TEST(BadInput, TruncatedAnywhere) {
  ModelBuilder model = ModelBuilder::sum();
  model.floats("w", {100}, std::vector<float>(100, 1.0f));
  model.node("Add", {"w", "w"}, {"v"});
  std::string whole = model.bytes();
  TemporaryFolder folder;
  size_t refused = 0;
  for (size_t length = 0; length < whole.size(); length += 3) {
    ImportRun run(folder.write("model.onnx", whole.substr(0, length)));
    // A cut between fields of the model may leave a smaller model that is whole; it then lacks its
    // graph or opsets.
    EXPECT_FALSE(run.ok()) << length;
    EXPECT_THAT(run.messages, StartsWith("model.onnx: error: ")) << length;
    EXPECT_EQ(std::count(run.messages.begin(), run.messages.end(), '\n'), 1) << length;
    ++refused;
  }
  EXPECT_GT(refused, 100u);
}

TEST(BadInput, FlippedBytesNeverCrash) {
  ModelBuilder model = ModelBuilder::sum();
  model.floats("w", {100}, std::vector<float>(100, 1.0f));
  std::string whole = model.bytes();
  TemporaryFolder folder;
  for (size_t at = 0; at < std::min<size_t>(whole.size(), 160); ++at) {
    for (int bit : {0, 3, 7}) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ (1 << bit));
      ImportRun run(folder.write("model.onnx", damaged));
      EXPECT_EQ(run.ok(), run.messages.find("error") == std::string::npos) << at << " " << bit;
    }
  }
}

TEST(BadInput, NoModelInside) {
  ModelBuilder model = ModelBuilder::sum();
  model.proto.clear_ir_version();
  expectError(model, "model.onnx: error: no ONNX model: it has no ir_version");
  model = ModelBuilder::sum();
  model.proto.clear_graph();
  expectError(model, "model.onnx: error: no ONNX model: it has no graph");
}

TEST(BadInput, Versions) {
  ModelBuilder model = ModelBuilder::sum();
  model.proto.set_ir_version(14);
  expectError(model, "model.onnx: error: IR version 14, expected 3 to 13; export with an older "
                     "onnx or update sluicec");
  model.proto.set_ir_version(13);
  EXPECT_TRUE(ImportRun(model).ok());
  model.proto.mutable_opset_import(0)->set_version(26);
  expectError(model,
              "model.onnx: error: opset 26, expected 13 to 25; re-export with a supported opset");
  model.proto.mutable_opset_import(0)->set_version(12);
  expectError(model,
              "model.onnx: error: opset 12, expected 13 to 25; re-export with a supported opset");
  model.proto.mutable_opset_import(0)->set_version(25);
  EXPECT_TRUE(ImportRun(model).ok());
  auto *microsoft = model.proto.add_opset_import();
  microsoft->set_domain("com.microsoft");
  microsoft->set_version(2);
  expectError(model, "model.onnx: error: opset 2 of com.microsoft, expected 1");
  model.proto.clear_opset_import();
  expectError(model, "model.onnx: error: the model imports no operator set");
}

TEST(BadInput, EmptyGraph) {
  ModelBuilder model = ModelBuilder::sum();
  model.graph().clear_node();
  expectError(model, "model.onnx: error: the graph is empty: it has 0 nodes and 1 outputs");
  model = ModelBuilder::sum();
  model.graph().clear_output();
  expectError(model, "model.onnx: error: the graph is empty: it has 1 nodes and 0 outputs");
}

TEST(BadInput, UnknownOperator) {
  ModelBuilder model = ModelBuilder::sum();
  model.graph().mutable_node(0)->set_op_type("Addd");
  expectError(model, "model.onnx: node '/Add' (#0): error: unknown operator 'Addd' of domain "
                     "'ai.onnx' version 20; nearest "
                     "supported is 'Add'");
  model.graph().mutable_node(0)->set_op_type("MatMulNBitz");
  model.graph().mutable_node(0)->set_domain("com.example");
  expectError(model, "model.onnx: node '/Add' (#0): error: unknown operator 'MatMulNBitz' of "
                     "domain 'com.example'; nearest "
                     "supported is 'com.microsoft.MatMulNBits'");
}

TEST(BadInput, OperatorNewerThanOpset) {
  ModelBuilder model = ModelBuilder::sum();
  model.node("RMSNormalization", {"y", "y"}, {"z"});
  expectError(model, "model.onnx: node '/RMSNormalization' (#1): error: RMSNormalization: the "
                     "operator came with opset 23, the "
                     "model imports opset 20");
  model = ModelBuilder::sum();
  model.node("FastGelu", {"y"}, {"z"}, "com.microsoft");
  expectError(model, "model.onnx: node '/FastGelu' (#1): error: FastGelu: the model does not "
                     "import domain 'com.microsoft'");
}

TEST(BadInput, Arity) {
  ModelBuilder model = ModelBuilder::sum();
  model.graph().mutable_node(0)->add_input("x");
  expectError(model, "model.onnx: node '/Add' (#0): error: Add: has 3 inputs, expected 2");
  model = ModelBuilder::sum();
  model.node("TopK", {"x", "x"}, {"z"});
  expectError(model, "model.onnx: node '/TopK' (#1): error: TopK: has 1 outputs, expected 2");
}

TEST(BadInput, Attributes) {
  ModelBuilder model = ModelBuilder::sum();
  addAttribute(*model.graph().mutable_node(0), "axis", int64_t(1));
  expectError(
      model,
      "model.onnx: node '/Add' (#0): error: Add: attribute 'axis' is not known to this operator");
  model = ModelBuilder::sum();
  addAttribute(model.node("Softmax", {"x"}, {"z"}), "axis", 1.0f);
  expectError(model, "model.onnx: node '/Softmax' (#1): error: Softmax: attribute 'axis' has type "
                     "FLOAT, expected 'i' (i, f, s, "
                     "t, g: int, float, string, tensor, graph; is, fs, ss: lists)");
  model = ModelBuilder::sum();
  model.node("Cast", {"x"}, {"z"});
  expectError(model, "model.onnx: node '/Cast' (#1): error: Cast: attribute 'to' is missing");
}

TEST(BadInput, UndefinedName) {
  ModelBuilder model = ModelBuilder::sum();
  model.graph().mutable_node(0)->set_input(1, "q");
  expectError(model, "model.onnx: node '/Add' (#0): error: Add: input 'q' is no graph input, "
                     "initializer or result of a node");
  model = ModelBuilder::sum();
  model.graph().mutable_output(0)->set_name("z");
  expectError(model,
              "model.onnx: output 'z': error: no node, input or initializer defines this output");
}

TEST(BadInput, DuplicateName) {
  ModelBuilder model = ModelBuilder::sum();
  model.node("Mul", {"x", "x"}, {"y"});
  expectError(model, "model.onnx: node '/Mul' (#1): error: 'y' is defined twice; names of inputs, "
                     "initializers and results must "
                     "differ");
  model = ModelBuilder::sum();
  model.floats("w", {1}, {1});
  model.floats("w", {1}, {2});
  expectError(model, "model.onnx: tensor 'w': error: there are two tensors named 'w'");
}

TEST(BadInput, Cycle) {
  ModelBuilder model = ModelBuilder::sum();
  model.node("Mul", {"x", "c"}, {"a"});
  model.node("Sub", {"a", "x"}, {"b"});
  model.node("Div", {"b", "x"}, {"c"});
  model.node("Max", {"c", "x"}, {"d"}); // behind the cycle, not on it
  ImportRun run(model);
  EXPECT_FALSE(run.ok());
  EXPECT_THAT(run.messages, HasSubstr("depends on this node's own result: the graph has a cycle"));
  EXPECT_THAT(run.messages, testing::Not(HasSubstr("/Max")));
  model = ModelBuilder::sum();
  model.graph().mutable_node(0)->set_input(1, "y");
  expectError(model, "model.onnx: node '/Add' (#0): error: Add: input 'y' depends on this node's "
                     "own result: the graph has a cycle");
}

TEST(BadInput, ElementTypes) {
  ModelBuilder model = ModelBuilder::sum();
  model.input("h", Proto::FLOAT16, {"4"});
  model.graph().mutable_node(0)->set_input(1, "h");
  expectError(model, "model.onnx: node '/Add' (#0): error: Add: operands have different element "
                     "types: operand 0 is f32, operand "
                     "1 is f16; expected the same type");
  model = ModelBuilder::sum();
  model.graph().mutable_output(0)->mutable_type()->mutable_tensor_type()->set_elem_type(
      Proto::INT64);
  expectError(model, "model.onnx: node '/Add' (#0): error: Add: result 0 is stated as i64 in the "
                     "file, but the operands give f32");
  model = ModelBuilder::sum();
  model.graph().mutable_input(0)->mutable_type()->mutable_tensor_type()->set_elem_type(27);
  expectError(model, "model.onnx: input 'x': error: has element type 27, which is not supported");
}

TEST(BadInput, Shapes) {
  ModelBuilder model = ModelBuilder::sum();
  model.input("v", Proto::FLOAT, {"3"});
  model.graph().mutable_node(0)->set_input(1, "v");
  expectError(model, "model.onnx: node '/Add' (#0): error: Add: shapes [batch, 4] and [3] do not "
                     "broadcast; expected equal sizes "
                     "or 1 in dimension 1 from the front");
  model = ModelBuilder::sum();
  model.floats("w", {5, 2}, std::vector<float>(10));
  model.node("MatMul", {"x", "w"}, {"z"});
  expectError(model, "model.onnx: node '/MatMul' (#1): error: MatMul: the second last dimension of "
                     "operand 1 is 5, expected 4");
}

TEST(BadInput, AbsurdDimensions) {
  ModelBuilder model = ModelBuilder::sum();
  model.tensor("w", Proto::FLOAT, {int64_t(1) << 40, int64_t(1) << 40}).set_raw_data("abcd");
  expectError(model, "model.onnx: tensor 'w': error: absurd shape [1099511627776, 1099511627776]: "
                     "expected up to 16 sizes >= 0 "
                     "whose product can be counted");
  model = ModelBuilder::sum();
  model.tensor("w", Proto::FLOAT, {-1}).set_raw_data("abcd");
  expectError(model, "model.onnx: tensor 'w': error: absurd shape [-1]: expected up to 16 sizes >= "
                     "0 whose product can be counted");
  model = ModelBuilder::sum();
  model.tensor("w", Proto::FLOAT, std::vector<int64_t>(17, 1)).set_raw_data("abcd");
  EXPECT_THAT(ImportRun(model).messages, HasSubstr("absurd shape"));
  model = ModelBuilder::sum();
  model.input("v", Proto::FLOAT, std::vector<std::string>(17, "1"));
  expectError(model, "model.onnx: input 'v': error: has rank 17, expected at most 16");
}

TEST(BadInput, TensorDataSize) {
  ModelBuilder model = ModelBuilder::sum();
  model.tensor("w", Proto::FLOAT, {3}).set_raw_data("abcdefgh");
  expectError(
      model,
      "model.onnx: tensor 'w': error: the tensor has 8 bytes of data, shape [3] of f32 needs 12");
  model = ModelBuilder::sum();
  model.tensor("w", Proto::STRING, {1}).add_string_data("a");
  expectError(
      model,
      "model.onnx: tensor 'w': error: element type 8 STRING is not supported for tensor data");
}

TEST(BadInput, FunctionCallsItself) {
  ModelBuilder model = ModelBuilder::sum();
  auto *function = model.proto.add_functions();
  function->set_name("F");
  function->set_domain("local");
  function->add_input("a");
  function->add_output("b");
  auto *inner = function->add_node();
  inner->set_op_type("F");
  inner->set_domain("local");
  inner->add_input("a");
  inner->add_output("b");
  model.node("F", {"y"}, {"z"}, "local");
  expectError(model, "model.onnx: node '/F/b' (#0): error: function 'local.F' calls itself");
}

TEST(BadInput, SideFile) {
  TemporaryFolder folder;
  folder.write("model.onnx", ModelBuilder::sum().bytes());
  folder.write("config.json", "{\"a\": }");
  ImportRun run(folder.folder.string());
  EXPECT_FALSE(run.ok());
  EXPECT_THAT(run.messages, StartsWith("model.onnx: error: config.json: [1:"));
}

} // namespace
