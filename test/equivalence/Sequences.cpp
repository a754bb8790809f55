// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lays sequences out as padded or packed steps and collects each token's logits.
#include "test/equivalence/Sequences.h"

#include "mlir/IR/BuiltinTypes.h"

#include <algorithm>
#include <cmath>
#include <limits>

using namespace mlir;

namespace sluicec::equivalence {

using reference::Batch;
using reference::CacheValue;
using reference::PagedCache;
using Tensor = reference::Tensor<double>;
using Value = reference::RuntimeValue<double>;

namespace {

/// One row of a step: a token of a sequence, or padding.
struct Row {
  int64_t sequence = -1, position = 0;
};

StringRef roleOf(func::FuncOp func, unsigned argument) {
  auto role = func.getArgAttrOfType<StringAttr>(argument, "lm.role");
  return role ? role.getValue() : StringRef();
}

class Driver {
public:
  Driver(func::FuncOp func, const std::vector<Sequence> &sequences,
         const support::WeightResolver &weights, const DriveOptions &options)
      : func(func), sequences(sequences), options(options), interpreter(func, weights),
        random(options.seed), done(sequences.size(), 0) {
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      paged |= roleOf(func, i) == "batch";
      if (roleOf(func, i) == "token_ids") {
        packed = cast<RankedTensorType>(func.getArgument(i).getType()).getRank() == 1;
      }
    }
    for (const Sequence &s : sequences) {
      driven.logits.emplace_back(s.tokens.size());
    }
  }

  FailureOr<Driven> run() {
    size_t steps = 0;
    for (const Sequence &s : sequences) {
      steps = std::max(steps, s.chunks.size());
    }
    makeState();
    for (size_t t = 0; t < steps; ++t) {
      if (failed(step(t))) {
        return failure();
      }
    }
    driven.work = interpreter.work();
    return driven;
  }

private:
  func::FuncOp func;
  const std::vector<Sequence> &sequences;
  const DriveOptions &options;
  reference::Interpreter<double> interpreter;
  std::mt19937 random;
  std::vector<int64_t> done; // tokens of each sequence that earlier steps took
  bool paged = false, packed = false;
  std::vector<Value> state;             // pasts or caches, in the order of arguments and results
  std::vector<std::vector<char>> masks; // [B] mask of all rows so far, of the padded form
  Driven driven;

  int64_t chunk(size_t sequence, size_t t) const {
    const std::vector<int64_t> &chunks = sequences[sequence].chunks;
    return t < chunks.size() ? chunks[t] : 0;
  }

  void makeState() {
    auto batch = static_cast<int64_t>(sequences.size());
    masks.resize(sequences.size());
    for (unsigned i = 0; i < func.getNumArguments(); ++i) {
      StringRef role = roleOf(func, i);
      if (role == "cache") {
        auto type = cast<lm::CacheType>(func.getArgument(i).getType());
        state.push_back(CacheValue{std::make_shared<PagedCache>(type, batch), 0});
      } else if (role == "past_key" || role == "past_value") {
        auto type = cast<RankedTensorType>(func.getArgument(i).getType());
        state.push_back(asValue(Tensor({batch, type.getDimSize(1), 0, type.getDimSize(3)}, false)));
      }
    }
  }

  /// Rows of step `t`, [tokens] or [batch, seq] row-major; `seq` gets the padded length.
  std::vector<Row> layOut(size_t t, int64_t &seq);
  std::vector<Value> arguments(const std::vector<Row> &rows, int64_t seq,
                               const std::vector<int64_t> &wanted);
  LogicalResult step(size_t t);
};

} // namespace

std::vector<Row> Driver::layOut(size_t t, int64_t &seq) {
  std::vector<Row> rows;
  seq = 0;
  for (size_t s = 0; s < sequences.size(); ++s) {
    seq = std::max(seq, chunk(s, t));
  }
  if (options.padding == Padding::Holes) {
    seq += 2;
  }
  for (size_t s = 0; s < sequences.size(); ++s) {
    int64_t count = chunk(s, t);
    std::vector<char> real(static_cast<size_t>(packed ? count : seq), 0);
    auto first = options.padding == Padding::Left ? real.end() - count : real.begin();
    std::fill_n(first, count, 1);
    if (!packed && options.padding == Padding::Holes) {
      std::shuffle(real.begin(), real.end(), random);
    }
    int64_t position = done[s];
    for (char r : real) {
      rows.push_back(r ? Row{static_cast<int64_t>(s), position++} : Row());
      if (!packed) {
        masks[s].push_back(r);
      }
    }
  }
  return rows;
}

std::vector<Value> Driver::arguments(const std::vector<Row> &rows, int64_t seq,
                                     const std::vector<int64_t> &wanted) {
  auto batchSize = static_cast<int64_t>(sequences.size());
  SmallVector<int64_t> shape = packed ? SmallVector<int64_t>{static_cast<int64_t>(rows.size())}
                                      : SmallVector<int64_t>{batchSize, seq};
  Tensor ids(shape, true), positions(shape, true);
  auto batch = std::make_shared<Batch>();
  batch->logitRows = wanted;
  for (auto [i, row] : llvm::enumerate(rows)) {
    if (row.sequence >= 0) {
      ids.integers[i] =
          sequences[static_cast<size_t>(row.sequence)].tokens[static_cast<size_t>(row.position)];
      positions.integers[i] = row.position;
    }
    batch->rowSequence.push_back(row.sequence);
    batch->rowIndex.push_back(row.position);
  }
  std::vector<Value> result;
  auto next = state.begin();
  for (unsigned i = 0; i < func.getNumArguments(); ++i) {
    StringRef role = roleOf(func, i);
    if (role == "token_ids") {
      result.push_back(asValue(ids));
    } else if (role == "position_ids") {
      result.push_back(asValue(positions));
    } else if (role == "attention_mask") {
      Tensor mask({batchSize, static_cast<int64_t>(masks.front().size())}, true);
      auto to = mask.integers.begin();
      for (const std::vector<char> &own : masks) {
        to = std::copy(own.begin(), own.end(), to);
      }
      result.push_back(asValue(std::move(mask)));
    } else if (role == "batch") {
      result.push_back(std::shared_ptr<const Batch>(batch));
    } else {
      result.push_back(*next++);
    }
  }
  return result;
}

LogicalResult Driver::step(size_t t) {
  int64_t seq = 0;
  std::vector<Row> rows = layOut(t, seq);
  std::vector<int64_t> wanted; // rows whose logits come back
  std::bernoulli_distribution want(options.wantedRows);
  for (auto [i, row] : llvm::enumerate(rows)) {
    if (row.sequence >= 0 && (options.wantedRows >= 1.0 || want(random))) {
      wanted.push_back(static_cast<int64_t>(i));
    }
  }
  int64_t blocks = 0;
  for (Value &value : state) {
    if (auto *cache = std::get_if<CacheValue>(&value)) {
      for (size_t s = 0; s < sequences.size(); ++s) {
        cache->cache->reserve(static_cast<int64_t>(s), done[s], done[s] + chunk(s, t));
      }
      blocks += cache->cache->blocksInUse();
    }
  }
  driven.mostBlocks = std::max(driven.mostBlocks, blocks);
  auto results = interpreter.run(arguments(rows, seq, wanted));
  if (failed(results)) {
    return failure();
  }
  const Tensor &logits = *std::get<std::shared_ptr<const Tensor>>(results->front());
  bool chosen = packed; // the padded and paged forms give logits of all rows
  for (auto [i, r] : llvm::enumerate(wanted)) {
    const double *from = logits.row(chosen ? static_cast<int64_t>(i) : r);
    Row row = rows[static_cast<size_t>(r)];
    driven.logits[static_cast<size_t>(row.sequence)][static_cast<size_t>(row.position)].assign(
        from, from + logits.features());
  }
  std::copy(results->begin() + 1, results->end(), state.begin());
  for (size_t s = 0; s < sequences.size(); ++s) {
    done[s] += chunk(s, t);
  }
  return success();
}

FailureOr<Driven> drive(func::FuncOp func, const std::vector<Sequence> &sequences,
                        const support::WeightResolver &weights, const DriveOptions &options) {
  if (!options.alone) {
    return Driver(func, sequences, weights, options).run();
  }
  Driven all;
  for (const Sequence &sequence : sequences) {
    std::vector<Sequence> one{sequence};
    llvm::erase(one.front().chunks, 0);
    auto driven = Driver(func, one, weights, options).run();
    if (failed(driven)) {
      return failure();
    }
    all.logits.push_back(driven->logits.front());
    all.work.multiplyAdds += driven->work.multiplyAdds;
    all.work.attentionEntries += driven->work.attentionEntries;
    all.work.logitRows += driven->work.logitRows;
    all.mostBlocks = std::max(all.mostBlocks, driven->mostBlocks);
  }
  return all;
}

std::vector<Sequence> raggedSequences(int64_t vocabulary, bool inStep, uint32_t seed) {
  std::mt19937 random(seed);
  auto pick = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  std::vector<Sequence> sequences(4);
  for (size_t s = 0; s < sequences.size(); ++s) {
    Sequence &sequence = sequences[s];
    if (inStep) {
      sequence.chunks = {pick(1, 40), 1, 1, 1, 1};
    } else {
      sequence.chunks.assign(s % 3, 0); // starts later
      for (int64_t prompt = pick(5, 40); prompt > 0;) {
        sequence.chunks.push_back(std::min(prompt, pick(1, 19)));
        prompt -= sequence.chunks.back();
      }
      sequence.chunks.insert(sequence.chunks.end(), {1, 1, 0, 1});
    }
    int64_t total = 0;
    for (int64_t c : sequence.chunks) {
      total += c;
    }
    for (int64_t i = 0; i < total; ++i) {
      sequence.tokens.push_back(pick(0, vocabulary - 1));
    }
  }
  return sequences;
}

double largestDifference(const Logits &a, const Logits &b) {
  double worst = 0;
  for (size_t s = 0; s < b.size(); ++s) {
    for (size_t t = 0; t < b[s].size(); ++t) {
      if (b[s][t].empty()) {
        continue;
      }
      if (a.size() != b.size() || a[s].size() != b[s].size() || a[s][t].size() != b[s][t].size()) {
        return std::numeric_limits<double>::infinity();
      }
      double scale = 0, difference = 0;
      for (size_t v = 0; v < b[s][t].size(); ++v) {
        scale = std::max(scale, std::abs(a[s][t][v]));
        // Not std::max: a NaN must not be lost.
        double d = std::abs(a[s][t][v] - b[s][t][v]);
        difference = d <= difference ? difference : d;
      }
      double relative = difference / scale;
      worst = relative <= worst ? worst : relative;
    }
  }
  return worst;
}

} // namespace sluicec::equivalence
