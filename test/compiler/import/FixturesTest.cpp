// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Every fixture, as real exporters wrote them, imports completely: each value has a ranked type and
// all sizes have a number or a name.
#include "compiler/support/NodeDiagnostics.h"
#include "compiler/support/WeightStore.h"
#include "dialects/onnx/InferShapes.h"
#include "ModelBuilder.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

#include <cstdlib>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

using namespace mlir;
using namespace sluicec::test;
namespace fs = std::filesystem;

namespace {

std::vector<std::string> modelFolders() {
  const char *stated = std::getenv("SLUICE_FIXTURES");
  std::vector<std::string> folders;
  for (const fs::path &root :
       {fs::path(stated ? stated : "../shared/fixtures"), fs::path("examples/models")}) {
    std::error_code error;
    for (fs::directory_iterator entry(root, error), end; entry != end && !error;
         entry.increment(error)) {
      if (fs::exists(entry->path() / "model.onnx")) {
        folders.push_back(entry->path().string());
      }
    }
  }
  std::sort(folders.begin(), folders.end());
  return folders;
}

class Fixtures : public testing::TestWithParam<std::string> {};

TEST_P(Fixtures, EveryValueIsRanked) {
  ImportRun run(GetParam());
  ASSERT_TRUE(run.ok()) << run.messages;
  EXPECT_EQ(run.messages, "");
  run.imported->module->walk([&](Operation *op) {
    for (Value value : op->getResults()) {
      std::string place = sluicec::support::describeLocation(op->getLoc());
      EXPECT_FALSE(isa<UnrankedTensorType>(value.getType())) << place;
      for (const auto &size : sluicec::onnx::factsOfType(value.getType())
                                  .shape.value_or(sluicec::onnx::SymbolicShape())) {
        EXPECT_FALSE(size.isUnknown()) << place;
      }
    }
  });
}

// What inference finds is what inference finds again from the printed module.
TEST_P(Fixtures, InferenceIsStable) {
  ImportRun run(GetParam());
  ASSERT_TRUE(run.ok()) << run.messages;
  std::string before = run.text();
  for (auto function : run.imported->module->getOps<func::FuncOp>()) {
    EXPECT_TRUE(succeeded(sluicec::onnx::inferShapes(function)));
  }
  EXPECT_EQ(before, run.text());
}

// The bytes of each weight are found in one of the model's files, at the place the file says (a
// sample of its content is compared).
TEST_P(Fixtures, WeightsAreTheInitializers) {
  ImportRun run(GetParam());
  ASSERT_TRUE(run.ok()) << run.messages;
  std::ifstream stream(GetParam() + "/model.onnx", std::ios::binary);
  std::string bytes(std::istreambuf_iterator<char>(stream), {});
  ::onnx::ModelProto model;
  ASSERT_TRUE(model.ParseFromString(bytes));
  size_t compared = 0;
  for (const auto &tensor : model.graph().initializer()) {
    auto stored = sluicec::support::WeightStore::of(&run.context).bytes(tensor.name());
    if (tensor.has_raw_data()) {
      EXPECT_EQ(llvm::StringRef(stored.data(), stored.size()), tensor.raw_data()) << tensor.name();
      ++compared;
    } else {
      compared += stored.empty() ? 0 : 1;
    }
  }
  EXPECT_EQ(compared, static_cast<size_t>(model.graph().initializer_size()));
}

std::string shortName(const testing::TestParamInfo<std::string> &info) {
  std::string name = fs::path(info.param).filename().string();
  std::replace_if(
      name.begin(), name.end(), [](char c) { return !std::isalnum(static_cast<unsigned char>(c)); },
      '_');
  return name;
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(Fixtures);
INSTANTIATE_TEST_SUITE_P(All, Fixtures, testing::ValuesIn(modelFolders()), shortName);

TEST(FixturesPresent, AtLeastOne) {
  if (modelFolders().empty()) {
    GTEST_SKIP() << "no fixtures: set SLUICE_FIXTURES";
  }
}

} // namespace
