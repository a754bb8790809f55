// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Recipes read in pieces give what a plain evaluation of the whole gives; bad references are
// diagnostics.
#include "compiler/support/WeightRecipe.h"

#include "compiler/support/FloatConversion.h"
#include "dialects/lm/LmDialect.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "mlir/IR/Verifier.h"
#include "mlir/Parser/Parser.h"

#include <cstring>
#include <random>

#include "gtest/gtest.h"

using namespace mlir;

namespace sluicec::support {
namespace {

/// A whole tensor in f64.
struct Plain {
  SmallVector<int64_t> shape;
  std::vector<double> values;
};

int64_t flatten(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t flat = 0;
  for (auto [i, size] : llvm::zip(index, shape)) {
    flat = flat * size + i;
  }
  return flat;
}

/// result[i] = input[source(i)] for every index of `shape`.
Plain gathered(const Plain &input, ArrayRef<int64_t> shape,
               llvm::function_ref<SmallVector<int64_t>(ArrayRef<int64_t>)> source) {
  Plain result{SmallVector<int64_t>(shape), {}};
  int64_t count = 1;
  for (int64_t size : shape) {
    count *= size;
  }
  for (int64_t flat = 0; flat < count; ++flat) {
    SmallVector<int64_t> index(shape.size());
    int64_t rest = flat;
    for (size_t d = shape.size(); d-- > 0;) {
      index[d] = rest % shape[d];
      rest /= shape[d];
    }
    result.values.push_back(input.values[static_cast<size_t>(flatten(source(index), input.shape))]);
  }
  return result;
}

class WeightRecipe : public testing::Test {
protected:
  WeightRecipe() { context.loadDialect<lm::LmDialect, func::FuncDialect>(); }

  MLIRContext context;
  WeightStore store;
  OwningOpRef<ModuleOp> module;

  Value onlyResult(StringRef recipe) {
    std::string text = ("func.func @f() {\n" + recipe + "\nreturn }").str();
    module = parseSourceString<ModuleOp>(text, &context);
    EXPECT_TRUE(module);
    return (*module->getOps<func::FuncOp>().begin())
        .getBody()
        .front()
        .getTerminator()
        ->getPrevNode()
        ->getResult(0);
  }

  void addFloats(StringRef name, ArrayRef<int64_t> shape, ArrayRef<float> values) {
    std::vector<char> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    store.addComputed(name, Float32Type::get(&context), shape, std::move(bytes));
  }

  std::vector<double> read(Value weight) {
    auto reader = RecipeReader::create(weight, resolverOf(store));
    EXPECT_TRUE(succeeded(reader));
    auto bytes = reader->readAll();
    EXPECT_TRUE(succeeded(bytes));
    std::vector<double> values(static_cast<size_t>(reader->numRows() * reader->rowElements()));
    decodeElements(reader->elementType(), *bytes, llvm::MutableArrayRef<double>(values));
    return values;
  }

  std::string errorOf(Value weight, bool whileReading = false) {
    std::string message;
    ScopedDiagnosticHandler handler(&context, [&](Diagnostic &d) { message += d.str(); });
    auto reader = RecipeReader::create(weight, resolverOf(store));
    EXPECT_EQ(succeeded(reader), whileReading);
    if (succeeded(reader)) {
      EXPECT_TRUE(failed(reader->readAll()));
    }
    return message;
  }
};

/// Grows random recipes beside their plain evaluation.
class RandomRecipes {
public:
  RandomRecipes(WeightStore &store, MLIRContext &context, uint32_t seed)
      : store(store), b(&context), random(seed), module(ModuleOp::create(b.getUnknownLoc())) {
    b.setInsertionPointToStart(module->getBody());
  }

  std::pair<Value, Plain> grow(int depth) {
    if (depth == 0) {
      return leaf();
    }
    auto [input, plain] = grow(depth - 1);
    switch (pick(0, 4)) {
    case 0:
      return transpose(input, plain);
    case 1:
      return reshape(input, plain);
    case 2:
      return slice(input, plain);
    case 3:
      return concat(input, plain);
    default:
      return convert(input, plain);
    }
  }

  int64_t pick(int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  }

private:
  WeightStore &store;
  OpBuilder b;
  std::mt19937 random;
  OwningOpRef<ModuleOp> module;

  static Type elementOf(Value v) { return cast<RankedTensorType>(v.getType()).getElementType(); }

  std::pair<Value, Plain> leaf() {
    SmallVector<int64_t> shape;
    int64_t count = 1;
    for (int64_t d = pick(1, 3); d > 0; --d) {
      shape.push_back(pick(1, 5) * pick(1, 3));
      count *= shape.back();
    }
    std::vector<float> values(static_cast<size_t>(count));
    Plain plain{shape, {}};
    for (float &v : values) {
      v = static_cast<float>(pick(-100, 100)); // exact in all types
      plain.values.push_back(v);
    }
    std::vector<char> bytes(values.size() * sizeof(float));
    std::memcpy(bytes.data(), values.data(), bytes.size());
    std::string name = store.addComputed("leaf", b.getF32Type(), shape, std::move(bytes));
    auto type = RankedTensorType::get(shape, b.getF32Type());
    return {lm::WeightOp::create(b, b.getUnknownLoc(), type, name, ElementsAttr()), plain};
  }

  std::pair<Value, Plain> transpose(Value input, const Plain &plain) {
    SmallVector<int64_t> perm = llvm::to_vector(
                             llvm::seq<int64_t>(0, static_cast<int64_t>(plain.shape.size()))),
                         shape;
    std::shuffle(perm.begin(), perm.end(), random);
    for (int64_t p : perm) {
      shape.push_back(plain.shape[static_cast<size_t>(p)]);
    }
    Plain result = gathered(plain, shape, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> from(index.size());
      for (auto [i, p] : llvm::enumerate(perm)) {
        from[static_cast<size_t>(p)] = index[i];
      }
      return from;
    });
    auto type = RankedTensorType::get(shape, elementOf(input));
    return {lm::WeightTransposeOp::create(b, b.getUnknownLoc(), type, input, perm), result};
  }

  std::pair<Value, Plain> reshape(Value input, Plain plain) {
    auto count = static_cast<int64_t>(plain.values.size());
    SmallVector<int64_t> shape;
    for (int64_t d = pick(1, 3); d > 1; --d) {
      SmallVector<int64_t> divisors;
      for (int64_t i = 1; i <= count; ++i) {
        if (count % i == 0) {
          divisors.push_back(i);
        }
      }
      shape.push_back(
          divisors[static_cast<size_t>(pick(0, static_cast<int64_t>(divisors.size()) - 1))]);
      count /= shape.back();
    }
    shape.push_back(count);
    plain.shape = shape;
    auto type = RankedTensorType::get(shape, elementOf(input));
    return {lm::WeightReshapeOp::create(b, b.getUnknownLoc(), type, input), plain};
  }

  std::pair<Value, Plain> slice(Value input, const Plain &plain) {
    SmallVector<int64_t> offsets, strides, shape;
    for (int64_t size : plain.shape) {
      bool whole = pick(0, 2) == 0;
      offsets.push_back(whole ? 0 : pick(0, size - 1));
      strides.push_back(whole ? 1 : pick(1, 3));
      int64_t most = (size - 1 - offsets.back()) / strides.back() + 1;
      shape.push_back(whole ? size : pick(1, most));
    }
    Plain result = gathered(plain, shape, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> from;
      for (auto [i, o, s] : llvm::zip(index, offsets, strides)) {
        from.push_back(o + i * s);
      }
      return from;
    });
    auto type = RankedTensorType::get(shape, elementOf(input));
    return {lm::WeightSliceOp::create(b, b.getUnknownLoc(), type, input, offsets, strides), result};
  }

  /// The input twice, the second time a part of it.
  std::pair<Value, Plain> concat(Value input, const Plain &plain) {
    auto dim = static_cast<size_t>(pick(0, static_cast<int64_t>(plain.shape.size()) - 1));
    SmallVector<int64_t> part(plain.shape), offsets(plain.shape.size(), 0),
        strides(plain.shape.size(), 1), shape(plain.shape);
    part[dim] = pick(1, plain.shape[dim]);
    shape[dim] += part[dim];
    auto partType = RankedTensorType::get(part, elementOf(input)),
         type = RankedTensorType::get(shape, elementOf(input));
    Value second =
        lm::WeightSliceOp::create(b, b.getUnknownLoc(), partType, input, offsets, strides);
    Plain result = gathered(plain, shape, [&](ArrayRef<int64_t> index) {
      SmallVector<int64_t> from(index);
      from[dim] -= from[dim] >= plain.shape[dim] ? plain.shape[dim] : 0;
      return from;
    });
    return {lm::WeightConcatOp::create(b, b.getUnknownLoc(), type, ValueRange{input, second},
                                       static_cast<int64_t>(dim)),
            result};
  }

  std::pair<Value, Plain> convert(Value input, const Plain &plain) {
    Type types[] = {b.getF32Type(), b.getF16Type(), b.getBF16Type(), b.getF64Type()};
    auto type = cast<RankedTensorType>(input.getType()).clone(types[pick(0, 3)]);
    return {lm::WeightConvertOp::create(b, b.getUnknownLoc(), type, input), plain};
  }
};

TEST_F(WeightRecipe, PiecesOfRandomRecipesAreThoseOfTheWhole) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    RandomRecipes recipes(store, context, seed);
    auto [weight, plain] = recipes.grow(static_cast<int>(seed % 7));
    ASSERT_TRUE(succeeded(verify(weight.getDefiningOp())));
    auto reader = RecipeReader::create(weight, resolverOf(store));
    ASSERT_TRUE(succeeded(reader));
    ASSERT_EQ(reader->shape(), ArrayRef<int64_t>(plain.shape));
    int64_t perRow = reader->rowElements();
    for (int piece = 0; piece < 4; ++piece) {
      int64_t first = piece == 0 ? 0 : recipes.pick(0, reader->numRows());
      int64_t rows = piece == 0 ? reader->numRows() : recipes.pick(0, reader->numRows() - first);
      std::vector<char> bytes(static_cast<size_t>(rows * reader->rowBytes()));
      ASSERT_TRUE(succeeded(reader->read(first, rows, bytes)));
      std::vector<double> values(static_cast<size_t>(rows * perRow));
      decodeElements(reader->elementType(), bytes, llvm::MutableArrayRef<double>(values));
      auto expected =
          ArrayRef<double>(plain.values).slice(static_cast<size_t>(first * perRow), values.size());
      ASSERT_EQ(ArrayRef<double>(values), expected) << "seed " << seed << ": " << recipeKey(weight);
    }
  }
}

TEST_F(WeightRecipe, TransposesLargeMatricesInBlocks) {
  constexpr int64_t kRows = 300, kColumns = 130;
  std::vector<float> values;
  for (int64_t i = 0; i < kRows * kColumns; ++i) {
    values.push_back(static_cast<float>(i));
  }
  addFloats("w", {kRows, kColumns}, values);
  std::vector<double> out = read(onlyResult(R"(%w = lm.weight "w" : tensor<300x130xf32>
    %t = lm.weight_transpose %w perm = [1, 0] : tensor<300x130xf32> -> tensor<130x300xf32>)"));
  for (int64_t r = 0; r < kColumns; ++r) {
    for (int64_t c = 0; c < kRows; ++c) {
      ASSERT_EQ(out[static_cast<size_t>(r * kRows + c)], static_cast<double>(c * kColumns + r));
    }
  }
}

TEST_F(WeightRecipe, InlineValues) {
  EXPECT_EQ(
      read(onlyResult(R"(%w = lm.weight "w" = dense<[1.0, 2.5]> : tensor<2xf16> : tensor<2xf16>)")),
      (std::vector<double>{1.0, 2.5}));
  EXPECT_EQ(
      read(onlyResult(R"(%w = lm.weight "w" = dense<3> : tensor<2x2xi32> : tensor<2x2xi32>)")),
      (std::vector<double>{3, 3, 3, 3}));
  EXPECT_EQ(
      read(onlyResult(
          R"(%w = lm.weight "w" = dense<[true, false, true]> : tensor<3xi1> : tensor<3xi1>)")),
      (std::vector<double>{1, 0, 1}));
}

TEST_F(WeightRecipe, InlineResources) {
  float values[] = {1.0F, 2.0F};
  auto type = RankedTensorType::get({2}, Float32Type::get(&context));
  auto blob = HeapAsmResourceBlob::allocateAndCopyInferAlign(ArrayRef<float>(values));
  auto value = DenseResourceElementsAttr::get(type, "held", std::move(blob));
  Value weight = onlyResult(R"(%w = lm.weight "w" : tensor<2xf32>)");
  cast<lm::WeightOp>(weight.getDefiningOp()).setValueAttr(value);
  EXPECT_EQ(read(weight), (std::vector<double>{1.0, 2.0}));
}

TEST_F(WeightRecipe, BadReferencesAreDiagnosed) {
  addFloats("w", {2}, {1.0F, 1e30F});
  EXPECT_NE(errorOf(onlyResult(R"(%w = lm.weight "absent" : tensor<2xf32>)"))
                .find("'absent', which is not among the model's tensors"),
            std::string::npos);
  EXPECT_NE(errorOf(onlyResult(R"(%w = lm.weight "w" : tensor<3xf32>)"))
                .find("but 'w' is 'tensor<2xf32>'"),
            std::string::npos);
  EXPECT_NE(errorOf(onlyResult(R"(%w = lm.weight "w" : tensor<2xi4>)"))
                .find("expected a type of whole bytes"),
            std::string::npos);
  std::string message = errorOf(onlyResult(R"(%w = lm.weight "w" : tensor<2xf32>
    %h = lm.weight_convert %w : tensor<2xf32> -> tensor<2xf16>)"),
                                /*whileReading=*/true);
  EXPECT_NE(message.find("beyond 'f16'"), std::string::npos) << message;
}

TEST_F(WeightRecipe, KeysTellRecipesApart) {
  auto key = [&](StringRef text) { return recipeKey(onlyResult(text)); };
  const char *half = R"(%w = lm.weight "w" : tensor<4x2xf32>
    %s = lm.weight_slice %w offsets = [0, 0] strides = [1, 1] : tensor<4x2xf32> -> tensor<2x2xf32>)";
  const char *other = R"(%w = lm.weight "w" : tensor<4x2xf32>
    %s = lm.weight_slice %w offsets = [2, 0] strides = [1, 1] : tensor<4x2xf32> -> tensor<2x2xf32>)";
  EXPECT_EQ(key(half), key(half));
  EXPECT_NE(key(half), key(other));
  EXPECT_NE(key(R"(%w = lm.weight "w" : tensor<2xf32>)"),
            key(R"(%w = lm.weight "v" : tensor<2xf32>)"));
}

} // namespace
} // namespace sluicec::support
