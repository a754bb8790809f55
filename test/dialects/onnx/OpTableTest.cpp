// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The op table: order, versions, attribute declarations; NodeBinder's defaults come from it.
#include "dialects/onnx/NodeBinder.h"
#include "dialects/onnx/OnnxOpTable.h"

#include "llvm/ADT/StringExtras.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Parser/Parser.h"

#include <gtest/gtest.h>
#include <limits>

using namespace mlir;
using namespace sluicec::onnx;

namespace {

TEST(OpTable, IsSortedAndComplete) {
  llvm::ArrayRef<OpRow> rows = opTable();
  for (size_t i = 0; i + 1 < rows.size(); ++i) {
    EXPECT_TRUE(std::pair(llvm::StringRef(rows[i].domain), llvm::StringRef(rows[i].opType)) <
                std::pair(llvm::StringRef(rows[i + 1].domain), llvm::StringRef(rows[i + 1].opType)))
        << rows[i].opType.str();
  }
  for (const OpRow &row : rows) {
    EXPECT_EQ(findOp(row.domain, row.opType), &row);
    EXPECT_NE(row.infer, nullptr);
    EXPECT_GE(row.newestVersion(), 1);
    EXPECT_LE(row.newestVersion(), kMaxOpset);
    EXPECT_LE(row.minInputs, row.maxInputs);
    EXPECT_LE(row.minOutputs, row.maxOutputs);
  }
  EXPECT_EQ(findOp("", "NoSuchOp"), nullptr);
  EXPECT_NE(findOp("ai.onnx", "Add"), nullptr);
}

// Each attribute has a name, a known type and, where it has a default, one that can be read.
TEST(OpTable, AttributesAreWellFormed) {
  for (const OpRow &row : opTable()) {
    for (llvm::StringRef entry : llvm::split(row.attributes, ' ')) {
      if (entry.empty()) {
        EXPECT_TRUE(row.attributes.empty()) << row.opType.str();
        continue;
      }
      auto rule = attributeRule(row, entry.split(':').first);
      ASSERT_TRUE(rule) << entry.str();
      EXPECT_TRUE(llvm::is_contained({"i", "f", "s", "t", "g", "is", "fs", "ss"}, rule->type))
          << entry.str();
      int64_t number = 0;
      double real = 0;
      if (rule->presence == AttributeRule::Presence::Defaulted) {
        EXPECT_TRUE(rule->type == "s" ||
                    (rule->type == "i" && !rule->defaultText.getAsInteger(10, number)) ||
                    (rule->type == "f" &&
                     (rule->defaultText == "inf" || !rule->defaultText.getAsDouble(real))))
            << row.opType.str() << " " << entry.str();
      }
    }
  }
}

TEST(OpTable, Versions) {
  const OpRow *attention = findOp("", "Attention");
  EXPECT_EQ(attention->resolveVersion(22), 0);
  EXPECT_EQ(attention->resolveVersion(23), 23);
  EXPECT_EQ(attention->resolveVersion(25), 25);
  EXPECT_EQ(findOp("", "Add")->resolveVersion(13), 13);
  EXPECT_EQ(findOp("", "Add")->resolveVersion(20), 14);
}

TEST(OpTable, NearestName) {
  EXPECT_EQ(nearestOp("", "SoftMax"), "Softmax");
  EXPECT_EQ(nearestOp("com.microsoft", "GroupQueryAttn"), "com.microsoft.GroupQueryAttention");
  EXPECT_EQ(nearestOp("com.microsoft", "RotaryEmbeddings"), "com.microsoft.RotaryEmbedding");
  EXPECT_EQ(nearestOp("", "RotaryEmbeddings"), "RotaryEmbedding");
  EXPECT_EQ(nearestOp("", "QQQQQQQQQQQ"), "");
}

TEST(OpTable, QualifiedNames) {
  EXPECT_EQ(qualifiedOpName("ai.onnx", "Add"), "Add");
  EXPECT_EQ(qualifiedOpName("com.microsoft", "MoE"), "com.microsoft.MoE");
  EXPECT_EQ(splitQualifiedOpName("com.microsoft.MoE"),
            std::pair(llvm::StringRef("com.microsoft"), llvm::StringRef("MoE")));
  EXPECT_EQ(splitQualifiedOpName("Add"), std::pair(llvm::StringRef(), llvm::StringRef("Add")));
}

class NodeBinderTest : public testing::Test {
protected:
  void SetUp() override { context.loadDialect<OnnxDialect, func::FuncDialect>(); }
  // The only node of a function with arguments %x: tensor<2x4xf32>, %n: none.
  NodeBinder bind(const std::string &node) {
    module = parseSourceString<ModuleOp>(
        "func.func @f(%x: tensor<2x4xf32>, %n: none) {\n" + node + "\nreturn }", &context);
    NodeOp found;
    if (module) {
      module->walk([&](NodeOp op) { found = op; });
    }
    return NodeBinder(found);
  }
  MLIRContext context;
  OwningOpRef<ModuleOp> module;
};

TEST_F(NodeBinderTest, Operands) {
  NodeBinder b = bind("%c = onnx.constant dense<[1, -2]> : tensor<2xi64>\n%f = onnx.constant "
                      "dense<0.5> : tensor<f32>\n"
                      "%y:2 = onnx.node \"Foo\"(%x, %n, %c, %f) version 1 : (tensor<2x4xf32>, "
                      "none, tensor<2xi64>, tensor<f32>) -> "
                      "(tensor<2xf32>, none)");
  ASSERT_TRUE(static_cast<bool>(b));
  EXPECT_TRUE(b.is("Foo"));
  EXPECT_FALSE(b.is("Foo", "com.microsoft"));
  EXPECT_EQ(b.numOperands(), 4u);
  EXPECT_TRUE(b.operand(0));
  EXPECT_FALSE(b.operand(1)); // absent
  EXPECT_FALSE(b.operand(9)); // beyond the end
  EXPECT_EQ(b.operandType(0).getShape(), (llvm::ArrayRef<int64_t>{2, 4}));
  EXPECT_FALSE(b.operandType(1));
  EXPECT_FALSE(b.result(1));
  EXPECT_EQ(b.constantInts(2), (llvm::SmallVector<int64_t>{1, -2}));
  EXPECT_FALSE(b.constantInts(0));
  EXPECT_FALSE(b.constantInt(2)); // two elements
  EXPECT_EQ(b.constantFloat(3), 0.5);
}

TEST_F(NodeBinderTest, AttributesAndDefaults) {
  NodeBinder b =
      bind("%y = onnx.node \"Gemm\"(%x, %x) version 13 {alpha = 2.0 : f32, transB = 1 : i64} : "
           "(tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x2xf32>");
  ASSERT_TRUE(static_cast<bool>(b));
  EXPECT_EQ(b.attrFloat("alpha"), 2.0f);
  EXPECT_EQ(b.attrFloat("beta"), 1.0f); // default
  EXPECT_EQ(b.attrInt("transA"), 0);    // default
  EXPECT_EQ(b.attrInt("transB"), 1);
  EXPECT_TRUE(b.hasAttr("transB"));
  EXPECT_FALSE(b.hasAttr("transA"));
}

// Absent attributes of com.microsoft.MoE equal onnxruntime's defaults: alpha 1, beta 0, no clamp
// (ROCm/hip-ep#146).
TEST_F(NodeBinderTest, MoeDefaults) {
  NodeBinder b = bind("%y = onnx.node \"com.microsoft.MoE\"(%x, %x, %x, %n, %x) : "
                      "(tensor<2x4xf32>, tensor<2x4xf32>, tensor<2x4xf32>, none, tensor<2x4xf32>) "
                      "-> tensor<2x4xf32>");
  ASSERT_TRUE(static_cast<bool>(b));
  EXPECT_TRUE(b.is("MoE", "com.microsoft"));
  EXPECT_EQ(b.version(), 1); // left out in the text: the newest
  EXPECT_EQ(b.attrFloat("activation_alpha"), 1.0f);
  EXPECT_EQ(b.attrFloat("activation_beta"), 0.0f);
  EXPECT_EQ(b.attrFloat("swiglu_limit"), std::numeric_limits<float>::infinity());
  EXPECT_EQ(b.attrString("activation_type"), "relu");
}

TEST_F(NodeBinderTest, EmptyBinder) {
  EXPECT_FALSE(static_cast<bool>(NodeBinder(Value())));
  EXPECT_FALSE(NodeBinder(Value()).is("Add"));
  NodeBinder b = bind("");
  EXPECT_FALSE(static_cast<bool>(b));
}

} // namespace
