// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Engine::evaluate: feeds given sequences through steps of a stated chunking.
#include "runtime/engine/Evaluation.h"

#include "runtime/engine/EngineState.h"
#include "runtime/package/ManifestChecks.h"

#include <algorithm>
#include <string>

namespace sluice {
namespace {

// One evaluation while it runs.
class Evaluator {
public:
  Evaluator(const EvaluationInput &input, const EvaluationSink &sink, StepRunner &runner,
            CachePools &pools)
      : input_(input), sink_(sink), runner_(runner), pools_(pools), builder_(pools.pools.size()),
        probes_([this](const ProbeView &view) { takeProbe(view); }) {}

  Status run() {
    while (next_ < input_.sequences.size() || !active_.empty()) {
      admit();
      if (active_.empty()) {
        return capacityReached("sequence " + std::to_string(next_) + " of " +
                               std::to_string(input_.sequences[next_].size()) +
                               " tokens needs more cache blocks than are free; raise cache memory");
      }
      SLUICE_RETURN_IF_ERROR(step());
    }
    return Status::ok();
  }

private:
  struct Active {
    size_t sequence;
    std::unique_ptr<SequenceCache> cache;
    uint32_t firstRow = 0; // of this step
  };

  const std::vector<int32_t> &tokens(const Active &active) const {
    return input_.sequences[active.sequence];
  }

  uint32_t chunkLimit() const {
    return input_.chunkRows == 0 ? runner_.facts().capacity.tokens : input_.chunkRows;
  }

  // Blocks of a group that a sequence takes at most on its way.
  uint32_t peak(size_t group, size_t sequence) const {
    return pools_.shape.peak(group, input_.sequences[sequence].size(),
                             std::min(chunkLimit(), runner_.facts().capacity.tokens));
  }

  // Begins sequences in order while all their blocks are sure to be there.
  void admit() {
    const StepCapacity &capacity = runner_.facts().capacity;
    const uint32_t together =
        std::min({capacity.seqs, capacity.tokens,
                  input_.maxTogether == 0 ? capacity.seqs : input_.maxTogether});
    while (active_.size() < together && next_ < input_.sequences.size()) {
      for (size_t group = 0; group < pools_.pools.size(); ++group) {
        uint64_t needed = peak(group, next_);
        for (const Active &other : active_) {
          const uint32_t most = peak(group, other.sequence);
          needed += most - std::min(most, pools_.shape.held(group, other.cache->length()));
        }
        if (needed > pools_.pools[group].numFree()) {
          return;
        }
      }
      active_.push_back({next_++, std::make_unique<SequenceCache>(pools_)});
    }
  }

  Status step() {
    const StepCapacity &capacity = runner_.facts().capacity;
    uint32_t budget =
        input_.logits ? std::min(capacity.tokens, capacity.logitRows) : capacity.tokens;
    builder_.clear();
    size_t used = 0; // sequences with rows in this step: a prefix of active_
    uint32_t row = 0;
    for (Active &active : active_) {
      const auto left = static_cast<uint32_t>(tokens(active).size()) - active.cache->length();
      const uint32_t rows = std::min({left, budget, chunkLimit()});
      if (rows == 0) {
        break;
      }
      if (!active.cache->reserve(rows)) {
        return internalError("evaluate planned more cache blocks than are free");
      }
      builder_.add(tokens(active), *active.cache,
                   input_.logits ? StepBuilder::Logits::All : StepBuilder::Logits::None);
      active.firstRow = row;
      row += rows;
      budget -= rows;
      ++used;
    }
    stepRows_ = row;
    usedSequences_ = used;
    StepInput stepInput = builder_.input();
    stepInput.probes = input_.probes && sink_.onProbe ? &probes_ : nullptr;
    SLUICE_RETURN_IF_ERROR(runner_.run(stepInput));
    takeLogits();
    for (size_t i = 0; i < used; ++i) {
      active_[i].cache->commit();
    }
    std::erase_if(active_, [this](const Active &active) {
      return active.cache->length() == tokens(active).size();
    });
    return Status::ok();
  }

  void takeLogits() {
    if (!input_.logits || !sink_.onLogits) {
      return;
    }
    const size_t vocab = runner_.facts().vocab;
    const auto logits = runner_.logits(); // [rows of the step, vocab] f32
    for (size_t i = 0; i < usedSequences_; ++i) {
      const Active &active = active_[i];
      for (uint32_t r = 0; r < active.cache->reserved(); ++r) {
        sink_.onLogits(active.sequence, active.cache->length() + r,
                       logits.subspan((active.firstRow + r) * vocab, vocab));
      }
    }
  }

  // Divides a probe of all rows among the sequences; one that is not per row is left out.
  void takeProbe(const ProbeView &view) {
    if (view.rows != stepRows_) {
      return;
    }
    constexpr uint64_t kElementBytes = 4; // i32 or f32
    for (size_t i = 0; i < usedSequences_; ++i) {
      const Active &active = active_[i];
      ProbeView part = view;
      part.rows = active.cache->reserved();
      part.data = static_cast<const std::byte *>(view.data) +
                  active.firstRow * view.rowWidth * kElementBytes;
      sink_.onProbe(active.sequence, active.cache->length(), part);
    }
  }

  const EvaluationInput &input_;
  const EvaluationSink &sink_;
  StepRunner &runner_;
  CachePools &pools_;
  StepBuilder builder_;
  ProbeSink probes_;
  std::vector<Active> active_;
  size_t next_ = 0; // first sequence that has not begun
  uint64_t stepRows_ = 0;
  size_t usedSequences_ = 0;
};

} // namespace

Status Engine::evaluate(const EvaluationInput &input, const EvaluationSink &sink) {
  State &s = *state_;
  for (size_t i = 0; i < input.sequences.size(); ++i) {
    const std::vector<int32_t> &tokens = input.sequences[i];
    if (tokens.empty() || tokens.size() > s.contextLimit) {
      return invalidArgument("sequence " + std::to_string(i) + " has " +
                             std::to_string(tokens.size()) + " tokens; expected 1 ... " +
                             std::to_string(s.contextLimit));
    }
    for (const int32_t token : tokens) {
      if (token < 0 || static_cast<uint32_t>(token) >= s.facts.vocab) {
        return invalidArgument("sequence " + std::to_string(i) + ": token " +
                               std::to_string(token) + " is outside the vocabulary [0, " +
                               std::to_string(s.facts.vocab) + ")");
      }
    }
  }
  return Evaluator(input, sink, *s.runner, s.pools).run();
}

} // namespace sluice
