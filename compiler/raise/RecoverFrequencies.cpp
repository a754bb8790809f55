// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// From a table of cosines and sines back to the frequencies that made it.
#include "compiler/raise/RopeMatch.h"

#include <cmath>
#include <numbers>

using namespace sluicec::raise;

std::optional<Frequencies> sluicec::raise::recoverFrequencies(llvm::ArrayRef<double> cos,
                                                              llvm::ArrayRef<double> sin,
                                                              int64_t rows, double tolerance,
                                                              std::string &why) {
  auto columns = rows > 0 ? static_cast<int64_t>(cos.size()) / rows : 0;
  if (rows < 2 || columns == 0 || cos.size() != sin.size()) {
    why = "a table of cos and sin needs two rows or more";
    return std::nullopt;
  }
  auto at = [&](llvm::ArrayRef<double> table, int64_t row, int64_t column) {
    return table[static_cast<size_t>(row * columns + column)];
  };
  Frequencies result;
  result.scale = at(cos, 0, 0); // cos(0) = 1
  if (!(result.scale > 0.0)) {
    why = "row 0 of the cos table is not positive";
    return std::nullopt;
  }
  constexpr double kTurn = 2.0 * std::numbers::pi;
  for (int64_t column = 0; column < columns; ++column) {
    double frequency = std::atan2(at(sin, 1, column), at(cos, 1, column));
    // The angle at twice the distance has half the error; its whole turns are known from the
    // estimate so far.
    for (int64_t row = 2;
         row<rows; row = row * 2> rows - 1 && row != rows - 1 ? rows - 1 : row * 2) {
      double angle = std::atan2(at(sin, row, column), at(cos, row, column));
      double turns = std::round((frequency * static_cast<double>(row) - angle) / kTurn);
      frequency = (angle + turns * kTurn) / static_cast<double>(row);
    }
    result.frequencies.push_back(frequency);
  }
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      double angle = result.frequencies[static_cast<size_t>(column)] * static_cast<double>(row);
      double error = std::max(std::abs(std::cos(angle) * result.scale - at(cos, row, column)),
                              std::abs(std::sin(angle) * result.scale - at(sin, row, column)));
      if (!(error <= tolerance * std::max(1.0, result.scale))) {
        why = "the cos and sin tables differ from any rotation by " + std::to_string(error) +
              " in row " + std::to_string(row) + ", column " + std::to_string(column);
        return std::nullopt;
      }
    }
  }
  return result;
}
