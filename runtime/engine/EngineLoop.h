// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Gives an Engine a thread of its own: other threads post requests through a queue, the loop steps
// while there is work and sleeps when there is none. Used by the server and interactive tools.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/engine/Engine.h"

#include <functional>
#include <memory>

namespace sluice {

/// All functions but the destructor may be called from any thread, also from callbacks.
class EngineLoop {
public:
  /// Starts the thread. Until it is destroyed, only the loop may touch the engine (its immutable
  /// parts, model(), tokenizer(), chatTemplate(), contextLimit(), may be read by all).
  /// Internal: the system gives no thread.
  static Result<std::unique_ptr<EngineLoop>> start(std::unique_ptr<Engine> engine);
  /// Cancels what still runs (each gets its onFinish) and joins.
  ~EngineLoop();

  /// As Engine::submit; callbacks run on the loop's thread. Never waits for a step.
  Result<RequestId> submit(RequestSpec spec);
  /// As Engine::cancel, but a request that has ended is no error.
  void cancel(RequestId request);
  /// Runs `action` on the loop's thread between two steps (stats, evaluate).
  void post(std::function<void(Engine &)> action);
  /// Ends with the error that stopped the loop; ok while it runs.
  Status status() const;
  const Engine &engine() const; ///< immutable parts only

private:
  struct State;
  explicit EngineLoop(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

} // namespace sluice
