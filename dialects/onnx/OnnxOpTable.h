// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// What is known about each ONNX operator: one row per operator, used by import (versions, arity,
// types), by InferShapes and by NodeBinder (attribute defaults). Adding an operator is adding a
// row.
#pragma once

#include "dialects/onnx/InferContext.h"

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/LogicalResult.h"

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace sluicec::onnx {

/// Versions that the importer accepts.
constexpr int64_t kMaxIrVersion = 13;
constexpr int64_t kMinOpset = 13;
constexpr int64_t kMaxOpset = 25;
constexpr int64_t kMaxMicrosoftOpset = 1;
constexpr llvm::StringLiteral kMicrosoftDomain = "com.microsoft";

/// No upper limit on the number of operands or results.
constexpr int kVariadic = 1 << 16;

/// One operator.
struct OpRow {
  llvm::StringLiteral domain;
  llvm::StringLiteral opType;
  /// Schema versions with the meaning that the row states, ascending, 0 beyond the last. Only
  /// versions that an opset in [kMinOpset, kMaxOpset] can reach.
  std::array<int16_t, 9> sinceVersions;
  int minInputs, maxInputs;
  int minOutputs, maxOutputs;
  /// Attributes, separated by spaces: `name:type=default`, `name:type!` (must be given),
  /// `name:type?` (may be absent). Types are i(nt) f(loat) s(tring) t(ensor) g(raph), is fs ss
  /// their lists.
  llvm::StringLiteral attributes;
  /// Infers result types, shapes and integer values; fails after reporting through the context.
  llvm::LogicalResult (*infer)(InferContext &context);

  int64_t newestVersion() const;
  /// The schema version in force at `opset`, 0 where the operator came later.
  int64_t resolveVersion(int64_t opset) const;
};

/// All rows, ordered by domain and name. "ai.onnx" and "" are the same domain everywhere.
llvm::ArrayRef<OpRow> opTable();
/// The row of an operator or null.
const OpRow *findOp(llvm::StringRef domain, llvm::StringRef opType);
/// The known operator whose name is nearest by edit distance, as qualifiedOpName, "" where none is
/// near.
std::string nearestOp(llvm::StringRef domain, llvm::StringRef opType);

/// How one attribute is declared in a row.
struct AttributeRule {
  llvm::StringRef type; // as in OpRow::attributes: "i", "fs", …
  enum class Presence { Required, Optional, Defaulted } presence;
  llvm::StringRef defaultText; // of a Defaulted one
};
/// The declaration of attribute `name`, std::nullopt where the operator has no such attribute.
std::optional<AttributeRule> attributeRule(const OpRow &row, llvm::StringRef name);
/// Names of the attributes that must be given.
llvm::SmallVector<llvm::StringRef> requiredAttributes(const OpRow &row);

/// "MoE" of "com.microsoft" is "com.microsoft.MoE"; "Add" of "" is "Add".
std::string qualifiedOpName(llvm::StringRef domain, llvm::StringRef opType);
/// The reverse: {domain, op type}.
std::pair<llvm::StringRef, llvm::StringRef> splitQualifiedOpName(llvm::StringRef name);

} // namespace sluicec::onnx
