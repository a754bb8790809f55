// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice tokenize` and `sluice logits`: text to ids, ids to text, ids to logits.
#include "runtime/base/Safetensors.h"
#include "tools/Commands.h"

#include <charconv>
#include <iostream>

namespace sluice {

/// Ids separated by commas or white space.
static Result<std::vector<int32_t>> parseIds(const std::string &text) {
  std::vector<int32_t> ids;
  const char *at = text.data(), *end = at + text.size();
  while (at != end) {
    if (*at == ',' || std::isspace(static_cast<unsigned char>(*at)) != 0) {
      ++at;
      continue;
    }
    int32_t id = 0;
    auto [next, error] = std::from_chars(at, end, id);
    if (error != std::errc()) {
      return invalidArgument("'" +
                             std::string(at, std::min<size_t>(16, static_cast<size_t>(end - at))) +
                             "' is no token id; give integers separated by commas");
    }
    ids.push_back(id);
    at = next;
  }
  return ids;
}

static int tokenize(const PackageOption &package, bool decode) {
  EngineOptions options = package.engineOptions();
  auto engine = Engine::open(package.path, options);
  if (!engine) {
    return reportError(engine.error());
  }
  const Tokenizer *tokenizer = (*engine)->tokenizer();
  if (!tokenizer) {
    return reportError((*engine)->tokenizerStatus()
                           ? unsupported(package.path + ": holds no tokenizer")
                           : (*engine)->tokenizerStatus());
  }
  auto read = readText(std::cin, "standard input");
  if (!read) {
    return reportError(read.error());
  }
  const std::string &text = *read;
  if (decode) {
    auto ids = parseIds(text);
    if (!ids) {
      return reportError(ids.error());
    }
    for (int32_t id : *ids) {
      if (id < 0 || id >= tokenizer->vocabSize()) {
        return reportError(invalidArgument("token id " + std::to_string(id) + " is not in [0, " +
                                           std::to_string(tokenizer->vocabSize()) + ")"));
      }
    }
    std::cout << tokenizer->decode(*ids, false);
    return kExitDone;
  }
  auto ids = tokenizer->encode(text);
  if (!ids) {
    return reportError(ids.error());
  }
  for (size_t i = 0; i < ids->size(); ++i) {
    std::cout << (i == 0 ? "" : " ") << (*ids)[i];
  }
  std::cout << "\n";
  return kExitDone;
}

std::function<int()> addTokenizeCommand(CLI::App &app) {
  auto package = std::make_shared<PackageOption>();
  auto decode = std::make_shared<bool>(false);
  package->addTo(app);
  app.add_flag("--decode", *decode, "Ids to text");
  return [=] { return tokenize(*package, *decode); };
}

static int logits(const PackageOption &package, const std::string &idsText,
                  const std::string &output) {
  auto ids = parseIds(idsText);
  if (!ids) {
    return reportError(ids.error());
  }
  auto engine = Engine::open(package.path, package.engineOptions());
  if (!engine) {
    return reportError(engine.error());
  }
  std::vector<std::vector<int32_t>> sequences = {*ids};
  size_t vocab = (*engine)->model().vocab;
  std::vector<float> out(ids->size() * vocab);
  EvaluationInput input;
  input.sequences = sequences;
  EvaluationSink sink;
  sink.onLogits = [&](size_t, size_t position, std::span<const float> row) {
    std::copy(row.begin(), row.end(), out.begin() + static_cast<std::ptrdiff_t>(position * vocab));
  };
  Status status = (*engine)->evaluate(input, sink);
  if (status) {
    status = writeSafetensors(
        output, "logits", {static_cast<int64_t>(ids->size()), static_cast<int64_t>(vocab)}, out);
  }
  return status ? kExitDone : reportError(status);
}

std::function<int()> addLogitsCommand(CLI::App &app) {
  auto package = std::make_shared<PackageOption>();
  auto ids = std::make_shared<std::string>();
  auto output = std::make_shared<std::string>();
  package->addTo(app);
  app.add_option("--ids", *ids, "Token ids, separated by commas")->required();
  app.add_option("-o,--output", *output, "A .safetensors file: array logits [tokens, vocab] f32")
      ->required();
  return [=] { return logits(*package, *ids, *output); };
}

} // namespace sluice
