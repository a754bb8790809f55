// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// `sluice run`: answers one prompt, or talks. Text goes to standard output as it is made, all else
// to standard error.
#include "tools/AnswerStream.h"
#include "tools/Commands.h"

#include <fstream>
#include <iostream>
#include <sstream>
#include <unistd.h>

namespace sluice {

struct RunOptions {
  PackageOption package;
  std::string prompt, file;
  bool interactive = false, raw = false, stats = false;
  uint32_t maxTokens = 0;
  CLI::Option *temperature = nullptr, *topP = nullptr, *topK = nullptr, *minP = nullptr,
              *repetition = nullptr;
  SamplingParams given; ///< what the flags say; the package's defaults elsewhere
};

/// The model's defaults with what the flags say.
static SamplingParams samplingOf(const RunOptions &o, const ModelFacts &facts) {
  SamplingParams params = facts.defaults;
  auto take = [](const CLI::Option *option, auto &to, const auto &from) {
    if (option->count() > 0) {
      to = from;
    }
  };
  take(o.temperature, params.temperature, o.given.temperature);
  take(o.topP, params.topP, o.given.topP);
  take(o.topK, params.topK, o.given.topK);
  take(o.minP, params.minP, o.given.minP);
  take(o.repetition, params.repetitionPenalty, o.given.repetitionPenalty);
  params.presencePenalty = o.given.presencePenalty;
  params.frequencyPenalty = o.given.frequencyPenalty;
  params.seed = o.given.seed;
  params.stopStrings = o.given.stopStrings;
  return params;
}

static int talk(Engine &engine, const RunOptions &o) {
  std::vector<ChatMessage> messages;
  bool terminal = isatty(STDIN_FILENO) == 1;
  for (std::string line;;) {
    if (terminal) {
      std::cerr << "> " << std::flush;
    }
    if (!std::getline(std::cin, line) || line == "/exit") {
      return kExitDone;
    }
    if (line.empty()) {
      continue;
    }
    messages.push_back({"user", line});
    auto text =
        answer(engine, {o.raw, o.stats, o.maxTokens, samplingOf(o, engine.model())}, messages);
    if (!text) { // this turn ends, the conversation goes on
      (void)reportError(text.error());
      messages.pop_back();
      continue;
    }
    messages.push_back({"assistant", *text});
  }
}

static int run(const RunOptions &o) {
  auto engine = Engine::open(o.package.path, o.package.engineOptions());
  if (!engine) {
    return reportError(engine.error());
  }
  cancelOnInterrupt();
  if (o.interactive) {
    return talk(**engine, o);
  }
  std::string prompt = o.prompt;
  if (!o.file.empty()) {
    std::ifstream in(o.file, std::ios::binary);
    auto text = readText(in, o.file);
    if (!text) {
      return reportError(text.error());
    }
    prompt = std::move(*text);
  }
  auto text = answer(**engine, {o.raw, o.stats, o.maxTokens, samplingOf(o, (*engine)->model())},
                     {{"user", prompt}});
  return text ? kExitDone : reportError(text.error());
}

std::function<int()> addRunCommand(CLI::App &app) {
  auto o = std::make_shared<RunOptions>();
  o->package.addTo(app);
  auto *from = app.add_option_group("prompt", "What to answer");
  from->add_option("-p,--prompt", o->prompt, "The prompt");
  from->add_option("-f,--file", o->file, "A file that holds the prompt");
  from->add_flag("-i,--interactive", o->interactive,
                 "Talk: one line is one turn; /exit or end of input ends");
  from->require_option(1);
  app.add_flag("--raw", o->raw, "Give the text to the model as it is, without the chat template");
  app.add_option("--max-tokens", o->maxTokens, "Longest answer (default: up to the context)");
  o->temperature =
      app.add_option("--temperature", o->given.temperature, "0 takes the most likely token");
  o->topP =
      app.add_option("--top-p", o->given.topP, "Smallest set of tokens with this probability");
  o->topK = app.add_option("--top-k", o->given.topK, "The k most likely tokens; 0 = all");
  o->minP = app.add_option("--min-p", o->given.minP,
                           "Tokens at least this share of the most likely one's probability");
  o->repetition = app.add_option("--repetition-penalty", o->given.repetitionPenalty, "1 = none");
  app.add_option("--presence-penalty", o->given.presencePenalty, "0 = none");
  app.add_option("--frequency-penalty", o->given.frequencyPenalty, "0 = none");
  app.add_option("--seed", o->given.seed, "Same seed, same answer");
  app.add_option("--stop", o->given.stopStrings,
                 "Ends the answer before this text (may be given more than once)");
  app.add_flag("--stats", o->stats, "Tokens and seconds on standard error");
  return [o] { return run(*o); };
}

} // namespace sluice
