// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Real exporters' files raise completely, and the interpreter gives their golden logits from the
// raised form: alone, and with the prompt cut in two so that the second part reads the cache.
#include "compiler/import/ImportModel.h"
#include "compiler/raise/RaisePipeline.h"
#include "compiler/reference/Interpreter.h"
#include "compiler/support/NodeDiagnostics.h"
#include "dialects/lm/LmDialect.h"
#include "dialects/onnx/OnnxDialect.h"
#include "runtime/base/Safetensors.h"

#include "mlir/Dialect/Linalg/IR/Linalg.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/Tensor/IR/Tensor.h"
#include "mlir/Pass/PassManager.h"

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>

using namespace mlir;
using namespace sluicec;
namespace fs = std::filesystem;

namespace {

/// What a file must become.
struct Expected {
  const char *name; // folder of fixtures, or of examples/models
  unsigned layers, routes;
  int64_t window;    // of the layers that have one, 0 for none
  unsigned windowed; // how many have it
  unsigned linears;  // lm.linear left: none of an expert's
  double maxError;   // absolute on logits; f32 files: rounding of the golden's own f32 arithmetic
  double rowsWithin; // share of rows within maxError: below 1 for f16 files, whose experts may turn
                     // over
};

constexpr Expected kExpected[] = {
    {"mixtral-torch-kv", 2, 2, 0, 0, 11, 1e-3, 1.0},
    {"mixtral-torch-kv-op23", 2, 2, 0, 0, 11, 1e-3, 1.0},
    {"mixtral-mobius", 2, 2, 0, 0, 11, 1e-3, 1.0},
    {"mixtral-mobius-f16-cuda", 2, 2, 0, 0, 11, 0.25, 0.95},
    {"mistral-torch-kv", 2, 0, 16, 2, 15, 1e-3, 1.0},
    {"mistral-optimum", 2, 0, 16, 2, 15, 1e-3, 1.0},
    {"llama-genai-fp16-cuda", 2, 0, 0, 0, 15, 0.25, 0.95},
    {"llama-optimum", 2, 0, 0, 0, 15, 1e-3, 1.0},
    {"olmoe-torch-nocache", 2, 2, 0, 0, 11, 1e-3, 1.0},
    {"qwen2moe-torch-kv", 2, 2, 0, 0, 19, 1e-3, 1.0},
    {"qwen2moe-mobius", 2, 2, 0, 0, 19, 1e-3, 1.0},
    {"gptoss-torch-kv", 4, 4, 16, 2, 21, 1e-3, 1.0},
    {"gptoss-genai-fp32-cpu", 4, 4, 16, 2, 21, 1e-3, 1.0},
    {"gptoss-genai-fp16-cuda-flatkv", 4, 4, 16, 2, 21, 0.25, 0.95},
    {"gptoss-optimum", 4, 4, 16, 2, 21, 1e-3, 1.0},
    {"qwen3moe-optimum", 2, 2, 0, 0, 11, 1e-3, 1.0},
    {"mixtral-hf", 2, 2, 0, 0, 11, 1e-3, 1.0},
    {"wordmoe", 4, 4, 128, 4, 21, 1e-3, 1.0},
};

fs::path folderOf(const std::string &name) {
  if (name == "wordmoe") {
    return "examples/models/wordmoe";
  }
  const char *stated = std::getenv("SLUICE_FIXTURES");
  return fs::path(stated ? stated : "../shared/fixtures") / name;
}

/// Prompts of the golden file: ids and logits.
struct Prompt {
  std::vector<int64_t> ids;
  std::vector<float> logits; // [tokens, vocabulary]
};

std::vector<Prompt> readPrompts(const std::string &name) {
  std::string family = name.substr(0, name.find('-'));
  fs::path file = name == "wordmoe"
                      ? folderOf(name) / "golden.safetensors"
                      : folderOf(name).parent_path() / "golden" / (family + ".safetensors");
  auto golden = sluice::SafetensorsFile::read(file.string());
  std::vector<Prompt> prompts;
  for (int i = 0; golden.has_value() && i < 3; ++i) {
    auto ids = golden->integers("prompt" + std::to_string(i) + "_ids", 1);
    auto logits = golden->floats("prompt" + std::to_string(i) + "_logits", 2);
    if (ids.has_value() && logits.has_value()) {
      prompts.push_back({std::move(ids).value(), std::move(logits).value()});
    }
  }
  return prompts;
}

class RaisedModel {
public:
  explicit RaisedModel(const std::string &path) {
    context.loadDialect<onnx::OnnxDialect, lm::LmDialect, arith::ArithDialect, func::FuncDialect,
                        linalg::LinalgDialect, math::MathDialect, tensor::TensorDialect>();
    llvm::raw_string_ostream out(messages);
    support::NodeDiagnostics diagnostics(&context, out);
    auto imported = importModel(path, {}, &context);
    if (failed(imported)) {
      return;
    }
    module = std::move(imported->module);
    PassManager manager(&context);
    raise::buildRaisePipeline(manager, {});
    raised = succeeded(manager.run(*module));
  }

  func::FuncOp function() { return *module->getOps<func::FuncOp>().begin(); }

  template <typename Op> unsigned count() {
    unsigned n = 0;
    module->walk([&](Op) { ++n; });
    return n;
  }

  MLIRContext context;
  OwningOpRef<ModuleOp> module;
  std::string messages;
  bool raised = false;
};

using Tensor = reference::Tensor<double>;
using Value = reference::RuntimeValue<double>;

/// One sequence, fed in pieces.
class Sequence {
public:
  explicit Sequence(RaisedModel &model)
      : function(model.function()),
        interpreter(function, support::resolverOf(support::WeightStore::of(&model.context))) {}

  /// Logits [ids, vocabulary] of the next tokens.
  std::vector<double> feed(llvm::ArrayRef<int64_t> ids) {
    auto count = static_cast<int64_t>(ids.size());
    std::vector<int64_t> positions(ids.size()), mask(static_cast<size_t>(past + count), 1);
    for (size_t i = 0; i < ids.size(); ++i) {
      positions[i] = past + static_cast<int64_t>(i);
    }
    std::vector<Value> arguments;
    for (unsigned i = 0; i < function.getNumArguments(); ++i) {
      StringRef role = function.getArgAttrOfType<StringAttr>(i, "lm.role").getValue();
      if (role == "token_ids") {
        arguments.push_back(asValue(Tensor::ofIntegers({1, count}, ids.vec())));
      } else if (role == "position_ids") {
        arguments.push_back(asValue(Tensor::ofIntegers({1, count}, positions)));
      } else if (role == "attention_mask") {
        arguments.push_back(asValue(Tensor::ofIntegers({1, past + count}, mask)));
      } else {
        auto type = cast<RankedTensorType>(function.getArgumentTypes()[i]);
        std::string key = cacheKey(role, function.getArgAttrOfType<IntegerAttr>(i, "lm.layer"));
        auto found = caches.find(key);
        arguments.push_back(
            found != caches.end()
                ? found->second
                : asValue(Tensor({1, type.getDimSize(1), 0, type.getDimSize(3)}, false)));
      }
    }
    auto results = interpreter.run(arguments);
    std::vector<double> logits;
    for (unsigned i = 0; succeeded(results) && i < function.getNumResults(); ++i) {
      StringRef role = function.getResultAttrOfType<StringAttr>(i, "lm.role").getValue();
      if (role == "logits") {
        logits = std::get<std::shared_ptr<const Tensor>>((*results)[i])->reals;
      } else {
        caches[cacheKey(role, function.getResultAttrOfType<IntegerAttr>(i, "lm.layer"))] =
            (*results)[i];
      }
    }
    past += count;
    return logits;
  }

private:
  func::FuncOp function;
  reference::Interpreter<double> interpreter;
  std::map<std::string, Value> caches;
  int64_t past = 0;

  /// "key0" of past_key and present_key in layer 0.
  static std::string cacheKey(StringRef role, IntegerAttr layer) {
    return role.substr(role.find('_') + 1).str() + std::to_string(layer.getInt());
  }
};

class RaiseFixtures : public testing::TestWithParam<Expected> {};

TEST_P(RaiseFixtures, BecomesTheModel) {
  const Expected &expected = GetParam();
  if (!fs::exists(folderOf(expected.name))) {
    GTEST_SKIP() << folderOf(expected.name) << " is absent";
  }
  RaisedModel model(folderOf(expected.name).string());
  ASSERT_TRUE(model.raised) << model.messages;
  EXPECT_EQ(model.count<lm::PaddedAttentionOp>(), expected.layers);
  EXPECT_EQ(model.count<lm::RouteOp>(), expected.routes);
  EXPECT_EQ(model.count<lm::GroupedLinearOp>(), 3 * expected.routes);
  EXPECT_EQ(model.count<lm::ProbeOp>(), 2 * expected.routes);
  EXPECT_EQ(model.count<lm::LinearOp>(), expected.linears);
  EXPECT_EQ(model.count<lm::RopeTableOp>(), 1u);
  unsigned windowed = 0;
  model.module->walk([&](lm::PaddedAttentionOp op) {
    windowed += op.getMaskWindow() != 0;
    EXPECT_TRUE(op.getMaskWindow() == 0 ||
                static_cast<int64_t>(op.getMaskWindow()) == expected.window);
  });
  EXPECT_EQ(windowed, expected.windowed);
  model.function().walk([](Operation *op) {
    EXPECT_FALSE(isa<UnknownLoc>(op->getLoc())) << op->getName().getStringRef().str();
  });
}

TEST_P(RaiseFixtures, GivesTheGoldenLogits) {
  const Expected &expected = GetParam();
  std::vector<Prompt> prompts = readPrompts(expected.name);
  if (prompts.empty()) {
    GTEST_SKIP() << "no golden file for " << expected.name;
  }
  RaisedModel model(folderOf(expected.name).string());
  ASSERT_TRUE(model.raised) << model.messages;
  size_t rows = 0, within = 0;
  for (const Prompt &prompt : prompts) {
    size_t vocabulary = prompt.logits.size() / prompt.ids.size(), cut = prompt.ids.size() / 2;
    Sequence sequence(model);
    std::vector<double> logits = sequence.feed(llvm::ArrayRef(prompt.ids).take_front(cut));
    std::vector<double> rest = sequence.feed(llvm::ArrayRef(prompt.ids).drop_front(cut));
    logits.insert(logits.end(), rest.begin(), rest.end());
    ASSERT_EQ(logits.size(), prompt.logits.size());
    for (size_t row = 0; row < prompt.ids.size(); ++row) {
      double worst = 0;
      for (size_t v = row * vocabulary; v < (row + 1) * vocabulary; ++v) {
        worst = std::max(worst, std::abs(logits[v] - static_cast<double>(prompt.logits[v])));
      }
      ++rows;
      within += worst <= expected.maxError;
    }
  }
  EXPECT_GE(static_cast<double>(within), expected.rowsWithin * static_cast<double>(rows))
      << within << " of " << rows << " rows within " << expected.maxError;
}

INSTANTIATE_TEST_SUITE_P(Files, RaiseFixtures, testing::ValuesIn(kExpected), [](const auto &info) {
  std::string name = info.param.name;
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
});

} // namespace
