// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The thread that owns an engine, and the queue to it.
#include "runtime/engine/EngineLoop.h"

#include "runtime/engine/EngineState.h"

#include <condition_variable>
#include <mutex>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

namespace sluice {

struct EngineLoop::State {
  std::unique_ptr<Engine> engine;
  std::thread thread;

  mutable std::mutex mutex; // guards what follows; never held while a callback runs
  std::condition_variable changed;
  std::vector<std::function<void(Engine &)>> actions;
  bool stopping = false;
  Status status;
  size_t waiting = 0; // requests in the engine's queue, as of its last step
  size_t posted = 0;  // requests in `actions`

  // Takes what was posted; waits for it while there is nothing else to do. false: stop.
  bool takeActions(std::vector<std::function<void(Engine &)>> &taken) {
    std::unique_lock lock(mutex);
    waiting = engine->state_->waiting.size();
    if (engine->idle()) {
      changed.wait(lock, [this] { return stopping || !actions.empty(); });
    }
    taken.clear();
    taken.swap(actions);
    posted = 0;
    return !stopping;
  }

  void main() {
    std::vector<std::function<void(Engine &)>> taken;
    while (takeActions(taken)) {
      for (const auto &action : taken) {
        action(*engine);
      }
      const auto more = engine->step();
      if (!more) {
        const std::lock_guard lock(mutex);
        status = more.error();
        break;
      }
    }
    shutDown(taken);
  }

  // What was posted last still runs, so that every request gets its onFinish.
  void shutDown(std::vector<std::function<void(Engine &)>> &taken) {
    Status why;
    do {
      for (const auto &action : taken) {
        action(*engine);
      }
      const std::lock_guard lock(mutex);
      why = status;
      stopping = true;
      taken.clear();
      taken.swap(actions);
    } while (!taken.empty());
    engine->endAll(why ? FinishReason::Cancelled : FinishReason::Error, why);
  }
};

EngineLoop::EngineLoop(std::unique_ptr<State> state) : state_(std::move(state)) {}

Result<std::unique_ptr<EngineLoop>> EngineLoop::start(std::unique_ptr<Engine> engine) {
  auto state = std::make_unique<State>();
  state->engine = std::move(engine);
  try {
    state->thread = std::thread([raw = state.get()] { raw->main(); });
  } catch (const std::system_error &error) {
    return internalError(std::string("no thread for the engine: ") + error.what());
  }
  return std::unique_ptr<EngineLoop>(new EngineLoop(std::move(state)));
}

EngineLoop::~EngineLoop() {
  {
    const std::lock_guard lock(state_->mutex);
    state_->stopping = true;
  }
  state_->changed.notify_all();
  state_->thread.join();
}

Result<RequestId> EngineLoop::submit(RequestSpec spec) {
  State &s = *state_;
  SLUICE_RETURN_IF_ERROR(s.engine->checkSpec(spec));
  const RequestId id = s.engine->state_->nextId.fetch_add(1);
  {
    const std::lock_guard lock(s.mutex);
    if (s.stopping) {
      return s.status ? Status(Code::Cancelled, "the engine is shutting down") : s.status;
    }
    if (s.waiting + s.posted >= s.engine->state_->options.maxQueued) {
      return capacityReached("the queue is full; try later");
    }
    ++s.posted;
    // std::function wants to be copied: the spec is moved out when the action runs, once
    auto held = std::make_shared<RequestSpec>(std::move(spec));
    s.actions.emplace_back([id, held](Engine &engine) { engine.enqueue(id, std::move(*held)); });
  }
  s.changed.notify_all();
  return id;
}

void EngineLoop::cancel(RequestId request) {
  // NotFound: it has ended by itself
  post([request](Engine &engine) { static_cast<void>(engine.cancel(request)); });
}

void EngineLoop::post(std::function<void(Engine &)> action) {
  {
    const std::lock_guard lock(state_->mutex);
    if (state_->stopping) {
      return;
    }
    state_->actions.push_back(std::move(action));
  }
  state_->changed.notify_all();
}

Status EngineLoop::status() const {
  const std::lock_guard lock(state_->mutex);
  return state_->status;
}

const Engine &EngineLoop::engine() const { return *state_->engine; }

} // namespace sluice
