// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Drives a model function of any form (padded, paged, packed) through the interpreter from one list
// of sequences, so that forms can be compared token by token.
#pragma once

#include "compiler/reference/Interpreter.h"

#include <random>
#include <vector>

namespace sluicec::equivalence {

/// Tokens of one sequence and how many of them each step takes; chunks[t] may be 0. Their sum is
/// the number of tokens.
struct Sequence {
  std::vector<int64_t> tokens;
  std::vector<int64_t> chunks;
};

/// Where padding lies among the rows of a padded step.
enum class Padding { Left, Right, Holes };

struct DriveOptions {
  Padding padding = Padding::Left; // of the padded and the paged form
  bool alone = false;              // each sequence by itself: no padding at all
  double wantedRows = 1.0; // share of rows whose logits are wanted, in the packed and paged form
  uint32_t seed = 1;
};

/// Logits [sequence][token][vocabulary]; empty where they were not wanted.
using Logits = std::vector<std::vector<std::vector<double>>>;

struct Driven {
  Logits logits;
  reference::Work work;
  int64_t mostBlocks = 0; // cache blocks of all groups held at one time
};

/// Runs all steps. Fails, after a diagnostic, where the interpreter does.
mlir::FailureOr<Driven> drive(mlir::func::FuncOp func, const std::vector<Sequence> &sequences,
                              const support::WeightResolver &weights, const DriveOptions &options);

/// A ragged set: prompts in chunks, beside others that decode token by token, starting at different
/// steps. With `inStep` all prompts are one chunk in the first step and all then decode together,
/// so that left padding leaves no holes.
std::vector<Sequence> raggedSequences(int64_t vocabulary, bool inStep, uint32_t seed);

/// The largest difference of two logits relative to the largest logit of their row, over all tokens
/// that `b` has.
double largestDifference(const Logits &a, const Logits &b);

} // namespace sluicec::equivalence
