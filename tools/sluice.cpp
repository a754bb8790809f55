// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sluice: the runtime's command line. Finds the subcommand; each stands in its own file.
#include "tools/Commands.h"

#include <iostream>
#include <map>
#include <new>

namespace sluice {

void PackageOption::addTo(CLI::App &app) {
  app.add_option("PACKAGE", path, "A .sluice file")->required();
  app.add_option("--threads", threads, "Threads (default: all cores)")->check(CLI::Range(1, 1024));
  app.add_option("--verify", verify, "all: check every byte first; code: all but the weights")
      ->check(CLI::IsMember({"all", "code"}))
      ->capture_default_str();
}

EngineOptions PackageOption::engineOptions() const {
  EngineOptions options;
  options.threads = threads;
  options.verify = verify == "code" ? Verify::Code : Verify::All;
  return options;
}

int reportError(const Status &status) {
  std::cerr << "sluice: error: " << status.message() << "\n";
  return status.code() == Code::Internal ? kExitInternal : kExitInput;
}

Result<std::string> readText(std::istream &in, const std::string &name) {
  std::string text(Tokenizer::kMaxTextBytes + 1, '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad() || (!in && in.gcount() == 0 && !in.eof())) {
    return notFound(name + ": cannot be read");
  }
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > Tokenizer::kMaxTextBytes) {
    return invalidArgument(name + ": longer than " +
                           std::to_string(Tokenizer::kMaxTextBytes >> 20) +
                           " MiB of text; give less");
  }
  return text;
}

} // namespace sluice

int main(int argc, char **argv) {
  CLI::App app("Runs compiled language models.", "sluice");
  app.require_subcommand(1);
  std::map<CLI::App *, std::function<int()>> commands;
  auto add = [&](const char *name, const char *help, std::function<int()> (*command)(CLI::App &)) {
    CLI::App *sub = app.add_subcommand(name, help);
    commands[sub] = command(*sub);
  };
  add("run", "Answers a prompt, or talks", sluice::addRunCommand);
  add("eval", "Compares with golden logits, or measures perplexity", sluice::addEvalCommand);
  add("inspect", "Tells what a package holds", sluice::addInspectCommand);
  add("tokenize", "Text on standard input to token ids, or back", sluice::addTokenizeCommand);
  add("logits", "Writes the logits of given token ids", sluice::addLogitsCommand);
  try {
    app.parse(argc, argv);
    int code = commands[app.get_subcommands().front()]();
    std::cout.flush();
    if (!std::cout && code == sluice::kExitDone) {
      return sluice::reportError(
          sluice::invalidArgument("standard output cannot be written; the answer is lost"));
    }
    return code;
  } catch (const CLI::ParseError &e) {
    return app.exit(e) == 0 ? sluice::kExitDone : sluice::kExitInput;
  } catch (const std::bad_alloc &) {
    std::cerr << "sluice: error: out of memory; use fewer sequences or a smaller cache\n";
    return sluice::kExitInput;
  }
}
