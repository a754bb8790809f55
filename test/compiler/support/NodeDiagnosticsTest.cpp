// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Diagnostics name the ONNX node, whatever rewrites did to the location.
#include "compiler/support/NodeDiagnostics.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"

#include <gtest/gtest.h>

using namespace mlir;
using namespace sluicec::support;

namespace {

class NodeDiagnosticsTest : public testing::Test {
protected:
  MLIRContext context;
  Location at(const std::string &name, unsigned index, unsigned kind = 0) {
    return NameLoc::get(StringAttr::get(&context, name),
                        FileLineColLoc::get(&context, "model.onnx", index, kind));
  }
};

TEST_F(NodeDiagnosticsTest, Places) {
  EXPECT_EQ(describeLocation(at("/moe/Neg", 17)), "model.onnx: node '/moe/Neg' (#17)");
  EXPECT_EQ(describeLocation(at("w", 3, 1)), "model.onnx: tensor 'w'");
  EXPECT_EQ(describeLocation(at("x", 0, 2)), "model.onnx: input 'x'");
  EXPECT_EQ(describeLocation(at("y", 0, 3)), "model.onnx: output 'y'");
  EXPECT_EQ(describeLocation(at("model.onnx", 0, 4)), "model.onnx");
  EXPECT_EQ(describeLocation(FileLineColLoc::get(&context, "a.mlir", 2, 5)), "a.mlir:2:5");
  EXPECT_EQ(describeLocation(UnknownLoc::get(&context)), "");
  EXPECT_EQ(describeLocation(NameLoc::get(StringAttr::get(&context, "n"))), "'n'");
  EXPECT_EQ(describeLocation(NameLoc::get(StringAttr::get(&context, "outer"), at("inner", 1))),
            "model.onnx: node 'inner' (#1)");
}

TEST_F(NodeDiagnosticsTest, FusedLocationGivesTheFirstNode) {
  Location plain = FileLineColLoc::get(&context, "a.mlir", 2, 5);
  EXPECT_EQ(describeLocation(FusedLoc::get(&context, {plain, at("b", 1), at("c", 2)})),
            "model.onnx: node 'b' (#1)");
  EXPECT_EQ(describeLocation(FusedLoc::get(&context, {UnknownLoc::get(&context), plain})),
            "a.mlir:2:5");
  EXPECT_EQ(describeLocation(CallSiteLoc::get(at("callee", 4), at("caller", 5))),
            "model.onnx: node 'callee' (#4)");
}

TEST_F(NodeDiagnosticsTest, PrintsAndCounts) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  NodeDiagnostics diagnostics(&context, stream);
  emitError(at("/moe", 3)) << "found 2, expected 3";
  emitWarning(at("w", 0, 1)) << "odd";
  emitError(UnknownLoc::get(&context)).append("bad").attachNote(at("n", 1)) << "see here";
  EXPECT_EQ(text, "model.onnx: node '/moe' (#3): error: found 2, expected 3\n"
                  "model.onnx: tensor 'w': warning: odd\n"
                  "error: bad\n"
                  "  model.onnx: node 'n' (#1): note: see here\n");
  EXPECT_EQ(diagnostics.numErrors(), 2u);
  EXPECT_EQ(diagnostics.numWarnings(), 1u);
}

// What the file says cannot break the line.
TEST_F(NodeDiagnosticsTest, ControlCharactersAreEscaped) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  NodeDiagnostics diagnostics(&context, stream);
  emitError(at("a\nb\x1b[2J", 0)) << "tab\t" << std::string(3000, 'x');
  EXPECT_EQ(text.substr(0, 53),
            "model.onnx: node 'a\\x0ab\\x1b[2J' (#0): error: tab\\x09");
  EXPECT_LT(text.size(), 2100u);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
}

} // namespace
