// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// sluicec: reads the command line into CompileOptions and compiles.
#include "compiler/pipeline/CompileOptions.h"
#include "tools/ProgressBar.h"

#include <CLI/CLI.hpp>
#include <map>

int main(int argc, char **argv) {
  using sluicec::Emit;
  using sluicec::Stage;
  sluicec::CompileOptions options;
  CLI::App app("Compiles an ONNX language model into one .sluice file.", "sluicec");
  app.add_option("MODEL", options.model,
                 "Folder with model.onnx, or an .onnx file (or .mlir text with --weights-from)")
      ->required();
  app.add_option("-o,--output", options.output, "File to write")->default_str("MODEL.sluice");
  app.add_option("--target", options.target,
                 "cpu:native, cpu:x86-64-v3, cpu:x86-64-v4 or cpu:aarch64")
      ->capture_default_str();
  app.add_option("--weights", options.weights, "Element type of matrices")
      ->check(CLI::IsMember({"keep", "f32", "f16", "bf16"}))
      ->capture_default_str();
  app.add_option("--kv", options.kv, "Element type of the cache (default: as the file)")
      ->check(CLI::IsMember({"f32", "f16", "bf16"}));
  app.add_option("--jobs", options.jobs, "Threads (default: all cores)")
      ->check(CLI::Range(1, 1024));
  const std::map<std::string, Emit> emits = {
      {"package", Emit::Package},    {"onnx-ir", Emit::OnnxIr}, {"lm-ir", Emit::LmIr},
      {"kernel-ir", Emit::KernelIr}, {"llvm-ir", Emit::LlvmIr}, {"object", Emit::Object}};
  app.add_option("--emit", options.emit, "What to write")
      ->transform(CLI::CheckedTransformer(emits))
      ->option_text("package|onnx-ir|lm-ir|kernel-ir|llvm-ir|object");
  const std::map<std::string, Stage> stages = {{"import", Stage::Import},
                                               {"raise", Stage::Raise},
                                               {"optimize", Stage::Optimize},
                                               {"lower", Stage::Lower}};
  app.add_option("--stop-after", options.stopAfter, "Write the IR behind a stage and end")
      ->transform(CLI::CheckedTransformer(stages))
      ->option_text("import|raise|optimize|lower");
  app.add_option("--disable-pass", options.disabledPasses,
                 "Leave out an optional pass (may be given more than once)");
  std::string trust = "graph";
  app.add_option("--trust", trust, "Who is right about a window where graph and config.json differ")
      ->check(CLI::IsMember({"graph", "config"}))
      ->capture_default_str();
  app.add_option("--external-data-root", options.externalDataRoot,
                 "Another folder that external data may lie in");
  app.add_option("--report", options.report, "Write what each stage did as JSON");
  app.add_option("--weights-from", options.weightsFrom,
                 "Model whose weights an .mlir input refers to");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError &e) {
    return app.exit(e) == 0 ? 0 : 1;
  }
  options.trustConfig = trust == "config";
  for (const CLI::Option *option :
       app.get_options()) { // what shapes the result, so that equal compilations give equal bytes
    std::string name = option->get_name();
    if (option->count() > 0 && name != "--output" && name != "--jobs" && name != "--report" &&
        name != "--help" && name != "MODEL") {
      options.commandLine += name + "=" + CLI::detail::join(option->results(), ",") + "\n";
    }
  }
  sluice::ProgressBar bar("writing", "MB");
  options.progress = [&](uint64_t done, uint64_t total) { bar.update(done >> 20, total >> 20); };
  return sluicec::compile(options);
}
