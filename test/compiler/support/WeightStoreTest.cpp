// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The weight store: sizes, names, reading of every element type, one store per context.
#include "compiler/support/WeightStore.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace mlir;
using namespace sluicec::support;

namespace {

class WeightStoreTest : public testing::Test {
protected:
  MLIRContext context;
  Builder b{&context};
  WeightStore &store = WeightStore::attach(&context);

  // Adds bytes under a name; the error's text, "" if it went well.
  std::string add(const std::string &name, Type type, std::vector<int64_t> shape,
                  const std::vector<uint8_t> &bytes) {
    auto owner = std::make_shared<const std::vector<char>>(bytes.begin(), bytes.end());
    WeightTensor tensor{type, llvm::SmallVector<int64_t, 4>(llvm::ArrayRef<int64_t>(shape)),
                        *owner};
    return llvm::toString(store.add(name, tensor, owner));
  }
};

TEST_F(WeightStoreTest, Sizes) {
  EXPECT_EQ(weightBytes(b.getF32Type(), {2, 3}), 24u);
  EXPECT_EQ(weightBytes(b.getF32Type(), {}), 4u);
  EXPECT_EQ(weightBytes(b.getI1Type(), {5}), 5u); // a byte each
  EXPECT_EQ(weightBytes(b.getIntegerType(4), {3}), 2u);
  EXPECT_EQ(weightBytes(b.getIntegerType(2), {5}), 2u);
  EXPECT_EQ(weightBytes(b.getF32Type(), {0, INT64_MAX, INT64_MAX}), 0u);
  EXPECT_EQ(weightBytes(b.getF32Type(), {INT64_MAX, 2}), std::nullopt);
  EXPECT_EQ(weightBytes(b.getF32Type(), {int64_t(1) << 59}), std::nullopt); // its bits overflow
  EXPECT_EQ(weightBytes(b.getF32Type(), {-1}), std::nullopt);
  EXPECT_EQ(weightBytes(b.getNoneType(), {1}), std::nullopt);
}

TEST_F(WeightStoreTest, NamesAndSizesAreChecked) {
  EXPECT_EQ(add("w", b.getI8Type(), {2}, {1, 2}), "");
  EXPECT_EQ(add("w", b.getI8Type(), {2}, {3, 4}), "there are two tensors named 'w'");
  EXPECT_EQ(add("v", b.getF32Type(), {2}, {1, 2}),
            "tensor 'v' has 2 bytes, its type and shape need 8");
  EXPECT_EQ(store.bytes("w").size(), 2u);
  EXPECT_TRUE(store.bytes("v").empty());
  EXPECT_EQ(store.find("w")->shape.size(), 1u);
  EXPECT_EQ(store.size(), 1u);
}

TEST_F(WeightStoreTest, ReadsEveryType) {
  using Floats = std::vector<float>;
  ASSERT_EQ(add("f16", b.getF16Type(), {2}, {0x00, 0x3e, 0x00, 0xbe}), "");
  EXPECT_EQ(store.readAsF32("f16"), (Floats{1.5f, -1.5f}));
  ASSERT_EQ(add("bf16", b.getBF16Type(), {1}, {0xc0, 0x3f}), "");
  EXPECT_EQ(store.readAsF32("bf16"), Floats{1.5f});
  ASSERT_EQ(add("f32", b.getF32Type(), {1}, {0, 0, 0xc0, 0x3f}), "");
  EXPECT_EQ(store.readAsF32("f32"), Floats{1.5f});
  ASSERT_EQ(add("f8", Float8E4M3FNType::get(&context), {2}, {0x38, 0xb8}), "");
  EXPECT_EQ(store.readAsF32("f8"), (Floats{1, -1}));
  ASSERT_EQ(add("e8", Float8E8M0FNUType::get(&context), {2}, {127, 128}), "");
  EXPECT_EQ(store.readAsF32("e8"), (Floats{1, 2}));
  ASSERT_EQ(add("f4", Float4E2M1FNType::get(&context), {3}, {0xa2, 0x07}), "");
  EXPECT_EQ(store.readAsF32("f4"), (Floats{1, -1, 6}));
  ASSERT_EQ(add("i4", b.getIntegerType(4), {3}, {0xf1, 0x08}), "");
  EXPECT_EQ(store.readAsI64("i4"), (std::vector<int64_t>{1, -1, -8}));
  ASSERT_EQ(add("ui2", b.getIntegerType(2, false), {4}, {0xe4}), "");
  EXPECT_EQ(store.readAsI64("ui2"), (std::vector<int64_t>{0, 1, 2, 3}));
  ASSERT_EQ(add("bool", b.getI1Type(), {2}, {0, 1}), "");
  EXPECT_EQ(store.readAsI64("bool"), (std::vector<int64_t>{0, 1}));
  ASSERT_EQ(add("i64", b.getI64Type(), {1}, {0xfe, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}), "");
  EXPECT_EQ(store.readAsI64("i64"), std::vector<int64_t>{-2});
  EXPECT_EQ(store.readAsF64("i64"), std::vector<double>{-2});
  EXPECT_EQ(store.readAsI64("f32"), std::nullopt); // no integers
  EXPECT_EQ(store.readAsF32("none"), std::nullopt);
  EXPECT_EQ(store.readAsF32("f16", 1), std::nullopt); // too many elements
}

TEST_F(WeightStoreTest, ComputedNamesAreUnique) {
  EXPECT_EQ(store.addComputed("t", b.getI8Type(), {1}, {7}), "t");
  EXPECT_EQ(store.addComputed("t", b.getI8Type(), {1}, {8}), "t#1");
  EXPECT_EQ(store.addComputed("t", b.getI8Type(), {1}, {9}), "t#2");
  EXPECT_EQ(store.readAsI64("t#1"), std::vector<int64_t>{8});
}

TEST_F(WeightStoreTest, OnePerContext) {
  EXPECT_EQ(&WeightStore::of(&context), &store);
  EXPECT_EQ(&WeightStore::attach(&context), &store);
  MLIRContext other;
  EXPECT_NE(&WeightStore::attach(&other), &store);
  EXPECT_EQ(WeightStore::of(&other).size(), 0u);
}

} // namespace
