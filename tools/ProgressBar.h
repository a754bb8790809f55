// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Shows how far long work is: a bar with rate and time left on a terminal, a plain line now and
// then elsewhere.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace sluice {

/// Writes to standard error. `unit` is what is counted ("tokens", "MB").
class ProgressBar {
public:
  ProgressBar(std::string what, std::string unit);
  ~ProgressBar(); ///< ends the line
  /// At most ten times a second on a terminal, every ten seconds elsewhere.
  void update(uint64_t done, uint64_t total);

private:
  using Clock = std::chrono::steady_clock;
  std::string what_, unit_;
  bool terminal_;
  bool started_ = false, shown_ = false;
  Clock::time_point start_, last_;
};

} // namespace sluice
