// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Frequencies come back from tables of cos and sin, rounded as files store them, and only from such
// tables.
#include "compiler/raise/RopeMatch.h"

#include "llvm/ADT/APFloat.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace sluicec::raise;

namespace {

struct Table {
  std::vector<double> cos, sin;
  int64_t rows = 0;
};

double rounded(double value, const llvm::fltSemantics &semantics) {
  llvm::APFloat number(value);
  bool loses = false;
  number.convert(semantics, llvm::APFloat::rmNearestTiesToEven, &loses);
  number.convert(llvm::APFloat::IEEEdouble(), llvm::APFloat::rmNearestTiesToEven, &loses);
  return number.convertToDouble();
}

Table makeTable(const std::vector<double> &frequencies, int64_t rows, double scale,
                const llvm::fltSemantics &semantics) {
  Table table;
  table.rows = rows;
  for (int64_t row = 0; row < rows; ++row) {
    for (double frequency : frequencies) {
      // Exporters round the product of position and frequency to f32.
      double angle = static_cast<float>(static_cast<double>(row) * frequency);
      table.cos.push_back(rounded(std::cos(angle) * scale, semantics));
      table.sin.push_back(rounded(std::sin(angle) * scale, semantics));
    }
  }
  return table;
}

std::vector<double> powers(int pairs) {
  std::vector<double> frequencies;
  for (int j = 0; j < pairs; ++j) {
    frequencies.push_back(std::pow(10000.0, -static_cast<double>(j) / pairs));
  }
  return frequencies;
}

TEST(RecoverFrequencies, FromSinglePrecision) {
  std::vector<double> frequencies = powers(16);
  Table table = makeTable(frequencies, 4096, 1.25, llvm::APFloat::IEEEsingle());
  std::string why;
  auto found = recoverFrequencies(table.cos, table.sin, table.rows, 1e-3, why);
  ASSERT_TRUE(found) << why;
  EXPECT_NEAR(found->scale, 1.25, 1e-7);
  for (size_t j = 0; j < frequencies.size(); ++j) {
    // An angle of up to 4095 in f32 is off by 2^-13; over 4095 positions that is 3e-8.
    EXPECT_NEAR(found->frequencies[j], frequencies[j], 5e-8);
  }
}

TEST(RecoverFrequencies, FromHalfPrecision) {
  std::vector<double> frequencies = powers(8);
  Table table = makeTable(frequencies, 256, 1.0, llvm::APFloat::IEEEhalf());
  std::string why;
  auto found = recoverFrequencies(table.cos, table.sin, table.rows, 6e-4, why);
  ASSERT_TRUE(found) << why;
  for (size_t j = 0; j < frequencies.size(); ++j) {
    EXPECT_NEAR(found->frequencies[j], frequencies[j],
                4e-6); // half a unit of f16 near 1, over 255 positions
  }
}

TEST(RecoverFrequencies, RefusesOtherTables) {
  Table table = makeTable(powers(4), 64, 1.0, llvm::APFloat::IEEEsingle());
  table.cos[40 * 4 + 2] += 2e-5;
  std::string why;
  EXPECT_FALSE(recoverFrequencies(table.cos, table.sin, table.rows, 1e-5, why));
  EXPECT_NE(why.find("row 40, column 2"), std::string::npos) << why;
  EXPECT_FALSE(recoverFrequencies(table.cos, table.sin, 1, 1e-5, why));
  std::vector<double> nothing;
  EXPECT_FALSE(recoverFrequencies(nothing, nothing, 0, 1e-5, why));
}

} // namespace
