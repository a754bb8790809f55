// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Size arithmetic that can't wrap: all numbers that come from a file or a request go through here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

namespace sluice {

/// a * b, or nothing when it does not fit 64 bits.
inline std::optional<uint64_t> checkedMul(uint64_t a, uint64_t b) {
  uint64_t r = 0;
  return __builtin_mul_overflow(a, b, &r) ? std::nullopt : std::optional<uint64_t>(r);
}

/// a + b, or nothing when it does not fit 64 bits.
inline std::optional<uint64_t> checkedAdd(uint64_t a, uint64_t b) {
  uint64_t r = 0;
  return __builtin_add_overflow(a, b, &r) ? std::nullopt : std::optional<uint64_t>(r);
}

/// Product of dimensions times the size of one element in bytes; nothing for negative dimensions or overflow.
inline std::optional<uint64_t> checkedBytes(std::span<const int64_t> dims, uint64_t elementBytes) {
  uint64_t total = elementBytes;
  for (int64_t d : dims) {
    if (d < 0) {
      return std::nullopt;
    }
    auto next = checkedMul(total, static_cast<uint64_t>(d));
    if (!next) {
      return std::nullopt;
    }
    total = *next;
  }
  return total;
}

/// True when [offset, offset + length) lies within [0, size).
inline bool rangeFits(uint64_t offset, uint64_t length, uint64_t size) {
  return offset <= size && length <= size - offset;
}

} // namespace sluice
