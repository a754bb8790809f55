// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The subcommands of `sluice`: each adds its options to the command line and returns what to run.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/engine/Engine.h"

#include <CLI/CLI.hpp>
#include <functional>
#include <istream>
#include <memory>
#include <string>

namespace sluice {

/// Exit codes of all commands.
inline constexpr int kExitDone = 0;
inline constexpr int kExitInput = 1;
inline constexpr int kExitInternal = 2;
inline constexpr int kExitTolerance = 3;

/// Options that every command has.
struct PackageOption {
  std::string path;
  uint32_t threads = 0;
  std::string verify = "all";

  void addTo(CLI::App &app);
  EngineOptions engineOptions() const;
};

/// Prints "sluice: error: MESSAGE" on standard error and gives the exit code of the status.
int reportError(const Status &status);

/// All of a stream, at most as much as the tokenizer takes; `name` is for the error.
Result<std::string> readText(std::istream &in, const std::string &name);

/// Adds a subcommand; the returned function runs it after parsing and gives the exit code.
std::function<int()> addRunCommand(CLI::App &app);
std::function<int()> addEvalCommand(CLI::App &app);
std::function<int()> addInspectCommand(CLI::App &app);
std::function<int()> addTokenizeCommand(CLI::App &app);
std::function<int()> addLogitsCommand(CLI::App &app);

} // namespace sluice
