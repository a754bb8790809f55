// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Draws the progress bar.
#include "tools/ProgressBar.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

namespace sluice {

ProgressBar::ProgressBar(std::string what, std::string unit)
    : what_(std::move(what)), unit_(std::move(unit)), terminal_(isatty(STDERR_FILENO) == 1),
      start_(Clock::now()), last_(start_) {}

ProgressBar::~ProgressBar() {
  if (terminal_ && shown_) {
    std::fputs("\r\x1b[K", stderr);
  }
}

void ProgressBar::update(uint64_t done, uint64_t total) {
  auto now = Clock::now();
  if (!started_) { // what came before the first news is no part of the rate
    started_ = true;
    start_ = last_ = now;
  }
  auto pause = terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(10000);
  if (total == 0 || now - last_ < pause) {
    return;
  }
  last_ = now;
  double seconds = std::chrono::duration<double>(now - start_).count();
  double share = std::min(1.0, static_cast<double>(done) / static_cast<double>(total));
  double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  double left = share > 0 ? seconds / share - seconds : 0;
  if (terminal_) {
    std::string bar(static_cast<size_t>(share * 30), '#');
    bar.resize(30, '.');
    std::fprintf(stderr, "\r%s [%s] %3.0f %%  %.0f %s/s  %.0f s left\x1b[K", what_.c_str(),
                 bar.c_str(), share * 100, rate, unit_.c_str(), left);
    std::fflush(stderr);
  } else {
    std::fprintf(stderr, "%s: %3.0f %%, %.0f %s/s, %.0f s left\n", what_.c_str(), share * 100, rate,
                 unit_.c_str(), left);
  }
  shown_ = true;
}

} // namespace sluice
