// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Any byte range of a packed weight equals that part of the whole, for all layouts and element
// sizes.
#include "compiler/package/WeightPacker.h"

#include <random>

#include "PackageFixture.h"

using namespace mlir;

namespace sluicec::package {
namespace {

struct Case {
  kernel::LayoutKind kind;
  int64_t width, experts, rows, columns;
  unsigned elementBytes;
};

class WeightPackerTest : public PackageFixture, public ::testing::WithParamInterface<Case> {};

TEST_P(WeightPackerTest, RangesAreParts) {
  const Case &c = GetParam();
  Builder b(&context);
  Type element = IntegerType::get(&context, c.elementBytes * 8);
  auto type = RankedTensorType::get({c.experts, c.rows, c.columns}, element);
  OpBuilder builder(&context);
  auto source = lm::WeightOp::create(builder, builder.getUnknownLoc(), type,
                                     builder.getStringAttr("w"), ElementsAttr());
  PackagedWeight weight;
  weight.recipe = source.getResult();
  weight.layout = kernel::LayoutAttr::get(&context, c.kind, c.width);
  weight.elementBytes = c.elementBytes;
  // The layouts' definition, element by element; source element i has the bytes of i.
  bool gated = c.kind == kernel::LayoutKind::GatedPanel,
       plain = c.kind == kernel::LayoutKind::Plain;
  int64_t outputs = gated ? c.rows / 2 : c.rows, perPanel = gated ? c.width / 2 : c.width;
  std::string whole;
  auto put = [&](uint64_t value) {
    whole.append(reinterpret_cast<const char *>(&value), c.elementBytes);
  };
  for (int64_t e = 0; e < c.experts; ++e) {
    for (int64_t p = 0; !plain && p * perPanel < outputs; ++p) {
      for (int64_t k = 0; k < c.columns; ++k) {
        for (int64_t j = 0; j < c.width; ++j) {
          int64_t column = p * perPanel + j % perPanel;
          int64_t row = j < perPanel ? column : outputs + column;
          put(column < outputs ? static_cast<uint64_t>((e * c.rows + row) * c.columns + k) : 0);
        }
      }
    }
    for (int64_t i = 0; plain && i < c.rows * c.columns; ++i) {
      put(static_cast<uint64_t>(e * c.rows * c.columns + i));
    }
  }
  weight.bytes = whole.size();
  auto read = [&](int64_t row, int64_t rows, MutableArrayRef<char> out) -> llvm::Error {
    EXPECT_EQ(out.size(), static_cast<size_t>(rows * c.columns) * c.elementBytes);
    EXPECT_LE(row + rows, c.experts * c.rows);
    for (int64_t i = 0; i < rows * c.columns; ++i) {
      uint64_t value = static_cast<uint64_t>(row * c.columns + i);
      std::memcpy(out.data() + static_cast<size_t>(i) * c.elementBytes, &value, c.elementBytes);
    }
    return llvm::Error::success();
  };
  WeightPacker packer(weight);
  std::minstd_rand random(7);
  for (int i = 0; i < 200; ++i) {
    size_t begin = i == 0 ? 0 : random() % whole.size();
    size_t size = i == 0 ? whole.size() : random() % (whole.size() - begin) + 1;
    std::string part(size, 'x');
    llvm::Error error = packer.pack(begin, MutableArrayRef<char>(part.data(), size), read);
    ASSERT_FALSE(static_cast<bool>(error));
    ASSERT_EQ(part, whole.substr(begin, size)) << "from " << begin << ", " << size << " bytes";
  }
  source.erase();
}

INSTANTIATE_TEST_SUITE_P(Layouts, WeightPackerTest,
                         ::testing::Values(Case{kernel::LayoutKind::Plain, 0, 1, 9, 7, 4},
                                           Case{kernel::LayoutKind::Panel, 64, 2, 70, 5, 2},
                                           Case{kernel::LayoutKind::Panel, 64, 1, 128, 33, 4},
                                           Case{kernel::LayoutKind::Panel, 16, 1, 20, 70, 1},
                                           Case{kernel::LayoutKind::Panel, 48, 3, 50, 9,
                                                8}, // 384 bytes a step
                                           Case{kernel::LayoutKind::GatedPanel, 64, 2, 80, 6, 2},
                                           Case{kernel::LayoutKind::GatedPanel, 64, 1, 64, 6, 4}));

} // namespace
} // namespace sluicec::package
