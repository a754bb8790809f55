// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Rotary tables: what cos and sin values are, as positions, frequencies and scale. Used by
// raise-rope and, for operators that rotate on their own, by raise-attention.
#pragma once

#include "compiler/raise/RaiseRewriter.h"

namespace sluicec::raise {

/// cos and sin of position * frequencies[j], times scale.
struct RopeTable {
  mlir::Value positions; // [B, S] integers
  llvm::SmallVector<double> frequencies;
  double scale = 1.0;
  int64_t length = 0; // rows of the file's table, 0 where the graph computes angles
};

/// cos and sin of one rope table in the lm dialect, [B, S, J] each.
struct RopeAngles {
  mlir::Value cos, sin;
};

/// Finds tables, and writes each distinct one once per function.
class RopeTables {
public:
  explicit RopeTables(RaiseRewriter &rewriter) : rewriter(rewriter) {}

  /// The table behind values of cos and sin that depend on batch, position and feature: [B, S, J],
  /// [B, 1, S, J], …; a feature dimension of 2J may repeat the J angles one after another. Null
  /// where they are anything else; `culprit` says why.
  const RopeTable *match(mlir::Value cos, mlir::Value sin, std::string &why);
  /// The table behind constant [L, J] caches and rows chosen by `positions`.
  const RopeTable *matchCaches(mlir::Value cosCache, mlir::Value sinCache, mlir::Value positions,
                               std::string &why);
  /// lm.rope_table for it, right behind its positions.
  RopeAngles emit(const RopeTable &table, mlir::Location loc);

private:
  RaiseRewriter &rewriter;
  std::vector<std::pair<std::pair<mlir::Value, mlir::Value>, std::unique_ptr<RopeTable>>> matched;
  std::vector<std::pair<RopeTable, RopeAngles>> emitted;
};

/// The token ids [B, S] that the graph looks up in its embedding; null where there is none.
mlir::Value tokenIds(mlir::func::FuncOp function);

/// Positions of tokens for graphs without such an input, behind the function's arguments; one per
/// function.
mlir::Value paddedPositions(RaiseRewriter &rewriter, mlir::Value ids, mlir::Value mask,
                            mlir::Location loc);

/// Frequencies and scale of rows cos(p * f_j) * scale, sin(p * f_j) * scale for p = 0 … rows - 1;
/// std::nullopt and the reason where no frequencies give the whole table within `tolerance`.
/// Neighbouring rows give each frequency up to whole turns (taken in [0, pi]); growing distances
/// then refine it.
struct Frequencies {
  llvm::SmallVector<double> frequencies;
  double scale = 1.0;
};
std::optional<Frequencies> recoverFrequencies(llvm::ArrayRef<double> cos,
                                              llvm::ArrayRef<double> sin, int64_t rows,
                                              double tolerance, std::string &why);

} // namespace sluicec::raise
