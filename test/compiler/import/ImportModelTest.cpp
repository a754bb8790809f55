// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What the importer makes of good files: types, constants, weights, regions, functions, locations,
// side files.
#include "compiler/support/NodeDiagnostics.h"
#include "compiler/support/WeightStore.h"
#include "dialects/onnx/InferShapes.h"
#include "ModelBuilder.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

using namespace mlir;
using namespace sluicec::test;
using sluicec::support::describeLocation;
using sluicec::support::WeightStore;
using testing::HasSubstr;

namespace {

TEST(ImportModel, SymbolicDimensionsAndAttributes) {
  ModelBuilder model = ModelBuilder::sum();
  addAttribute(model.node("Softmax", {"y"}, {"z"}), "axis", int64_t(-1));
  model.output("z", Proto::FLOAT, {"batch", "4"});
  ImportRun run(model);
  std::string text = run.text();
  EXPECT_THAT(text,
              HasSubstr("%arg0: tensor<?x4xf32, #onnx.dims<\"batch\", \"\">> {onnx.name = \"x\"}"));
  EXPECT_THAT(text, HasSubstr("onnx.node \"Add\"(%arg0, %arg0) version 14 : "));
  EXPECT_THAT(text, HasSubstr("onnx.node \"Softmax\"(%0) version 13 {axis = -1 : i64} : "));
  EXPECT_THAT(text, HasSubstr("{onnx.name = \"z\"}"));
  EXPECT_THAT(text, HasSubstr("onnx.file = \"model.onnx\", onnx.ir_version = 10 : i64, onnx.opset "
                              "= {ai.onnx = 20 : i64}"));
}

TEST(ImportModel, LocationNamesTheNode) {
  ImportRun run(ModelBuilder::sum());
  ASSERT_TRUE(run.ok());
  std::string places;
  run.imported->module->walk(
      [&](sluicec::onnx::NodeOp op) { places += describeLocation(op.getLoc()); });
  EXPECT_EQ(places, "model.onnx: node '/Add' (#0)");
}

TEST(ImportModel, UnsortedNodesAreSorted) {
  ModelBuilder model = ModelBuilder::sum();
  model.node("Neg", {"a"}, {"b"});
  model.node("Abs", {"y"}, {"a"});
  model.output("b", Proto::FLOAT, {"batch", "4"});
  ImportRun run(model);
  ASSERT_TRUE(run.ok()) << run.messages;
  EXPECT_LT(run.text().find("\"Abs\""), run.text().find("\"Neg\""));
}

TEST(ImportModel, AbsentOperandsAndResults) {
  ModelBuilder model = ModelBuilder::sum();
  model.floats("max", {}, {6});
  model.node("Clip", {"y", "", "max"}, {"z"});
  model.floats("scale", {4}, {1, 1, 1, 1});
  model.node("LayerNormalization", {"z", "scale"}, {"n", "", "inv"});
  model.output("inv", Proto::FLOAT, {"batch", "1"});
  ImportRun run(model);
  ASSERT_TRUE(run.ok()) << run.messages;
  EXPECT_THAT(run.text(), HasSubstr("= onnx.none"));
  EXPECT_THAT(run.text(),
              HasSubstr("tensor<?x4xf32, #onnx.dims<\"batch\", \"\">>, none, tensor<f32>) ->"));
  EXPECT_THAT(
      run.text(),
      HasSubstr("-> (tensor<?x4xf32, #onnx.dims<\"batch\", \"\">>, none, tensor<?x1xf32, "));
}

TEST(ImportModel, SmallTensorsAreConstantsLargeOnesWeights) {
  ModelBuilder model = ModelBuilder::sum();
  model.ints("i", {2}, {-1, 7});
  model.floats("f", {2}, {0.5f, -2});
  model.floats("large", {257}, std::vector<float>(257));
  model.ints("empty", {0}, {});
  ImportRun run(model);
  ASSERT_TRUE(run.ok()) << run.messages;
  std::string text = run.text();
  EXPECT_THAT(text, HasSubstr("onnx.constant \"i\" dense<[-1, 7]> : tensor<2xi64>"));
  EXPECT_THAT(
      text, HasSubstr("onnx.constant \"f\" dense<[5.000000e-01, -2.000000e+00]> : tensor<2xf32>"));
  EXPECT_THAT(text, HasSubstr("onnx.weight \"large\" : tensor<257xf32>"));
  EXPECT_THAT(text, HasSubstr("onnx.constant \"empty\" dense<> : tensor<0xi64>"));
  EXPECT_EQ(WeightStore::of(&run.context).size(), 4u);
}

// The value that constant `name` has in the text form.
std::string constantText(ModelBuilder &model) {
  ImportRun run(model);
  EXPECT_TRUE(run.ok()) << run.messages;
  std::string text = run.text();
  size_t begin = text.find("onnx.constant \"t\" ");
  return begin == std::string::npos ? text
                                    : text.substr(begin + 18, text.find('\n', begin) - begin - 18);
}

TEST(ImportModel, TypedDataFields) {
  auto make = [](int type, const std::vector<int64_t> &dims, auto fill) {
    ModelBuilder model = ModelBuilder::sum();
    fill(model.tensor("t", type, dims));
    return constantText(model);
  };
  EXPECT_EQ(make(Proto::FLOAT, {1}, [](auto &t) { t.add_float_data(1.5f); }),
            "dense<1.500000e+00> : tensor<1xf32>");
  EXPECT_EQ(make(Proto::BFLOAT16, {1}, [](auto &t) { t.add_int32_data(0x3fc0); }),
            "dense<1.500000e+00> : tensor<1xbf16>");
  EXPECT_EQ(make(Proto::FLOAT16, {2},
                 [](auto &t) { t.add_int32_data(0x3e00), t.add_int32_data(0xbe00); }),
            "dense<[1.500000e+00, -1.500000e+00]> : tensor<2xf16>");
  EXPECT_EQ(make(Proto::INT8, {2}, [](auto &t) { t.add_int32_data(-3), t.add_int32_data(5); }),
            "dense<[-3, 5]> : tensor<2xi8>");
  EXPECT_EQ(make(Proto::UINT8, {1}, [](auto &t) { t.add_int32_data(200); }),
            "dense<200> : tensor<1xui8>");
  EXPECT_EQ(make(Proto::BOOL, {2}, [](auto &t) { t.add_int32_data(1), t.add_int32_data(0); }),
            "dense<[true, false]> : tensor<2xi1>");
  EXPECT_EQ(make(Proto::DOUBLE, {}, [](auto &t) { t.add_double_data(2.5); }),
            "dense<2.500000e+00> : tensor<f64>");
  EXPECT_EQ(make(Proto::UINT64, {}, [](auto &t) { t.add_uint64_data(9); }),
            "dense<9> : tensor<ui64>");
  EXPECT_EQ(make(Proto::FLOAT8E4M3FN, {1}, [](auto &t) { t.add_int32_data(0x38); }),
            "dense<1.000000e+00> : tensor<1xf8E4M3FN>");
}

TEST(ImportModel, PackedTypesStayWeights) {
  ModelBuilder model = ModelBuilder::sum();
  auto &t = model.tensor("t", Proto::UINT4, {3});
  t.add_int32_data(0x21);
  t.add_int32_data(0x03);
  auto &f = model.tensor("f", Proto::FLOAT4E2M1, {2});
  f.set_raw_data("\x42"); // 1.0 (0b0010), 2.0 (0b0100)
  ImportRun run(model);
  ASSERT_TRUE(run.ok()) << run.messages;
  EXPECT_THAT(run.text(), HasSubstr("onnx.weight \"t\" : tensor<3xui4>"));
  EXPECT_EQ(WeightStore::of(&run.context).readAsI64("t"), (std::vector<int64_t>{1, 2, 3}));
  EXPECT_EQ(WeightStore::of(&run.context).readAsF32("f"), (std::vector<float>{1, 2}));
}

TEST(ImportModel, ConstantNodes) {
  ModelBuilder model = ModelBuilder::sum();
  addAttribute(model.node("Constant", {}, {"a"}), "value_int", int64_t(3));
  auto *list = model.node("Constant", {}, {"b"}).add_attribute();
  list->set_name("value_floats");
  list->set_type(::onnx::AttributeProto::FLOATS);
  list->add_floats(0.5f);
  ImportRun run(model);
  ASSERT_TRUE(run.ok()) << run.messages;
  EXPECT_THAT(run.text(), HasSubstr("onnx.constant \"a\" dense<3> : tensor<i64>"));
  EXPECT_THAT(run.text(), HasSubstr("onnx.constant \"b\" dense<5.000000e-01> : tensor<1xf32>"));
}

TEST(ImportModel, FunctionsAreInlined) {
  ModelBuilder model = ModelBuilder::sum();
  auto *function = model.proto.add_functions();
  function->set_name("Soft");
  function->set_domain("local");
  function->add_input("a");
  function->add_output("b");
  function->add_attribute("dim");
  auto *opset = function->add_opset_import();
  opset->set_version(20);
  auto *inner = function->add_node();
  inner->set_op_type("Softmax");
  inner->set_name("inner");
  inner->add_input("a");
  inner->add_output("b");
  auto *axis = inner->add_attribute();
  axis->set_name("axis");
  axis->set_type(::onnx::AttributeProto::INT);
  axis->set_ref_attr_name("dim");
  addAttribute(model.node("Soft", {"y"}, {"z"}, "local"), "dim", int64_t(0));
  model.output("z", Proto::FLOAT, {"batch", "4"});
  ImportRun run(model);
  ASSERT_TRUE(run.ok()) << run.messages;
  EXPECT_THAT(run.text(), HasSubstr("onnx.node \"Softmax\"(%0) version 13 {axis = 0 : i64}"));
  std::string places;
  run.imported->module->walk(
      [&](sluicec::onnx::NodeOp op) { places += describeLocation(op.getLoc()) + ";"; });
  EXPECT_EQ(places, "model.onnx: node '/Add' (#0);model.onnx: node '/Soft/inner' (#0);");
}

// A function that the op table knows stays a node.
TEST(ImportModel, KnownFunctionIsNotInlined) {
  ModelBuilder model = ModelBuilder::sum();
  auto *opset = model.proto.add_opset_import();
  opset->set_domain("com.microsoft");
  opset->set_version(1);
  auto *function = model.proto.add_functions();
  function->set_name("FastGelu");
  function->set_domain("com.microsoft");
  function->add_input("a");
  function->add_output("b");
  model.node("FastGelu", {"y"}, {"z"}, "com.microsoft");
  model.output("z", Proto::FLOAT, {"batch", "4"});
  ImportRun run(model);
  ASSERT_TRUE(run.ok()) << run.messages;
  EXPECT_THAT(run.text(), HasSubstr("onnx.node \"com.microsoft.FastGelu\"(%0) version 1"));
}

TEST(ImportModel, BranchesBecomeRegions) {
  ModelBuilder model = ModelBuilder::sum();
  model.input("c", Proto::BOOL, {});
  auto &node = model.node("If", {"c"}, {"z"});
  for (std::string branch : {"then_branch", "else_branch"}) {
    auto *attribute = node.add_attribute();
    attribute->set_name(branch);
    attribute->set_type(::onnx::AttributeProto::GRAPH);
    auto *inner = attribute->mutable_g()->add_node();
    inner->set_op_type(branch == "then_branch" ? "Neg" : "Abs");
    inner->add_input("y"); // from outside
    inner->add_output(branch);
    attribute->mutable_g()->add_output()->set_name(branch);
  }
  model.output("z", Proto::FLOAT, {"batch", "4"});
  ImportRun run(model);
  ASSERT_TRUE(run.ok()) << run.messages;
  std::string text = run.text();
  EXPECT_LT(text.find("\"Abs\""), text.find("\"Neg\"")); // else_branch, then_branch
  EXPECT_THAT(text, HasSubstr("onnx.yield"));
  EXPECT_THAT(text, HasSubstr("}) : (tensor<i1>) -> tensor<?x4xf32, #onnx.dims<\"batch\", \"\">>"));
}

TEST(ImportModel, ZeroSizesOfValueInfoAreUnknown) {
  ModelBuilder model = ModelBuilder::sum();
  auto *info = model.graph().add_value_info();
  *info = model.graph().output(0);
  model.graph()
      .mutable_output(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(0)
      ->set_dim_value(0);
  ImportRun run(model);
  ASSERT_TRUE(run.ok()) << run.messages;
  EXPECT_EQ(run.messages, "");
  EXPECT_THAT(run.text(), HasSubstr("-> tensor<?x4xf32, #onnx.dims<\"batch\", \"\">>"));
}

TEST(ImportModel, OutputShapeThatDiffersIsAWarning) {
  ModelBuilder model = ModelBuilder::sum();
  model.graph()
      .mutable_output(0)
      ->mutable_type()
      ->mutable_tensor_type()
      ->mutable_shape()
      ->mutable_dim(1)
      ->set_dim_value(5);
  ImportRun run(model);
  EXPECT_TRUE(run.ok());
  EXPECT_EQ(run.messages,
            "model.onnx: output 'y': warning: has shape [batch, 4], the file states [batch, 5]\n");
}

TEST(ImportModel, KnownShapeComputationsFold) {
  ModelBuilder model = ModelBuilder::sum();
  model.node("Shape", {"x"}, {"s"});
  model.ints("one", {1}, {1});
  model.node("Gather", {"s", "one"}, {"n"});
  model.ints("minus", {1}, {-1});
  auto &concat = model.node("Concat", {"minus", "n"}, {"target"});
  addAttribute(concat, "axis", int64_t(0));
  model.node("Reshape", {"y", "target"}, {"z"});
  model.output("z", Proto::FLOAT, {"batch", "4"});
  ImportRun run(model);
  ASSERT_TRUE(run.ok()) << run.messages;
  EXPECT_THAT(run.text(), HasSubstr("onnx.constant dense<[-1, 4]> : tensor<2xi64>"));
  EXPECT_THAT(run.text(), testing::Not(HasSubstr("\"Gather\"")));
  EXPECT_THAT(run.text(), HasSubstr("-> tensor<?x4xf32, #onnx.dims<\"batch\", \"\">>"));
}

TEST(ImportModel, SideFiles) {
  TemporaryFolder folder;
  folder.write("model.onnx", ModelBuilder::sum().bytes());
  folder.write(
      "config.json",
      R"({"sliding_window": 16, "rope_scaling": {"factor": 2.5}, "eos_token_id": [1, 2]})");
  folder.write("tokenizer_config.json", R"({"chat_template": "{{ messages }}"})");
  ImportRun run(folder.folder.string());
  ASSERT_TRUE(run.ok()) << run.messages;
  const auto &files = run.imported->files;
  EXPECT_EQ(files.config.findInt("sliding_window"), 16);
  EXPECT_EQ(files.config.findNumber("rope_scaling.factor"), 2.5);
  EXPECT_EQ(files.config.findInts("eos_token_id"), (llvm::SmallVector<int64_t>{1, 2}));
  EXPECT_FALSE(files.config.findInt("vocab_size"));
  EXPECT_FALSE(files.tokenizer.isPresent());
  EXPECT_EQ(files.chatTemplate, "{{ messages }}");
  folder.write("chat_template.jinja", "other");
  EXPECT_EQ(ImportRun(folder.folder.string()).imported->files.chatTemplate, "other");
}

} // namespace
