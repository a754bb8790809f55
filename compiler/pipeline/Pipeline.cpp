// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The stages in order, and what is written behind each.
#include "compiler/pipeline/Pipeline.h"

#include "compiler/codegen/cpu/CpuCodegen.h"
#include "compiler/lower/LowerPipeline.h"
#include "compiler/optimize/OptimizePipeline.h"
#include "compiler/package/PackageWriter.h"
#include "compiler/raise/RaisePipeline.h"
#include "compiler/support/WeightStore.h"
#include "dialects/kernel/KernelDialect.h"
#include "dialects/lm/LmDialect.h"
#include "dialects/onnx/OnnxDialect.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Path.h"
#include "mlir/Parser/Parser.h"
#include "mlir/Pass/PassManager.h"

#include <chrono>

using namespace mlir;

namespace sluicec {

LogicalResult Pipeline::checkOptions() {
  for (const std::string &name : options.disabledPasses) {
    if (!llvm::is_contained(optimize::optionalPasses(), name)) {
      return fail(llvm::createStringError("--disable-pass=" + name +
                                          ": no optional pass has this name; they are " +
                                          llvm::join(optimize::optionalPasses(), ", ")));
    }
  }
  bool overwrites = false;
  for (const std::string &input : {options.model, files.modelPath}) {
    bool same = false;
    bool known = !options.output.empty() && !input.empty() &&
                 !llvm::sys::fs::equivalent(input, options.output, same);
    overwrites |= known && same;
  }
  if (overwrites) {
    return fail(llvm::createStringError(options.output +
                                        ": is the model itself; give the output another name"));
  }
  return success();
}

LogicalResult Pipeline::run() {
  if (failed(load()) || failed(checkOptions())) {
    return failure();
  }
  for (Stage stage : {Stage::Raise, Stage::Optimize, Stage::Lower}) {
    Stage end = options.stopAfter;
    if (end == Stage::Import || options.emit == Emit::OnnxIr) {
      return writeModule();
    }
    Stage first = firstStage();
    if (first != Stage::None && stage >= first && failed(runStage(stage))) {
      return failure();
    }
    if (end == stage || (stage == Stage::Optimize && options.emit == Emit::LmIr)) {
      return failed(writeModule()) ? failure() : writeReport();
    }
  }
  if (options.emit == Emit::KernelIr) {
    return failed(writeModule()) ? failure() : writeReport();
  }
  return failed(generate()) ? failure() : writeReport();
}

LogicalResult Pipeline::load() {
  auto start = std::chrono::steady_clock::now();
  bool isText = llvm::StringRef(options.model).ends_with(".mlir");
  std::string model = isText ? options.weightsFrom : options.model;
  support::WeightStore::attach(context);
  if (!model.empty()) {
    ImportOptions importOptions;
    importOptions.externalDataRoot = options.externalDataRoot;
    auto imported = importModel(model, importOptions, context);
    if (failed(imported)) {
      return failure();
    }
    module = std::move(imported->module);
    files = std::move(imported->files);
  }
  if (isText) {
    module = parseSourceFile<ModuleOp>(options.model, context);
  }
  report.addStage("import",
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return success(static_cast<bool>(module));
}

Stage Pipeline::firstStage() {
  bool hasOnnx = false, hasKernel = false, hasPadded = false;
  module->walk([&](Operation *op) {
    hasOnnx |= isa<onnx::OnnxDialect>(op->getDialect());
    hasKernel |= isa<kernel::KernelDialect>(op->getDialect());
    hasPadded |= isa<lm::PaddedAttentionOp>(op);
  });
  return hasKernel   ? Stage::None
         : hasOnnx   ? Stage::Raise
         : hasPadded ? Stage::Optimize
                     : Stage::Lower;
}

LogicalResult Pipeline::runStage(Stage stage) {
  auto start = std::chrono::steady_clock::now();
  PassManager manager(context);
  manager.addInstrumentation(report.instrumentation());
  const char *name = "";
  if (stage == Stage::Raise) {
    name = "raise";
    raise::RaiseOptions raiseOptions;
    raiseOptions.configContext = files.config.findInt("max_position_embeddings").value_or(0);
    if (files.config.isPresent()) {
      bool off = !files.config.findBool("use_sliding_window").value_or(true);
      raiseOptions.configWindow = off ? 0 : files.config.findInt("sliding_window").value_or(0);
    }
    raiseOptions.trustConfig = options.trustConfig;
    raise::buildRaisePipeline(manager, raiseOptions);
  } else if (stage == Stage::Optimize) {
    name = "optimize";
    optimize::OptimizeOptions optimizeOptions;
    optimizeOptions.kv = options.kv;
    optimizeOptions.weights = options.weights;
    optimizeOptions.disabledPasses = options.disabledPasses;
    if (auto e = optimize::buildOptimizePipeline(manager, optimizeOptions)) {
      return fail(std::move(e));
    }
  } else {
    name = "lower";
    lower::LowerOptions lowerOptions;
    lowerOptions.kvBlockTokens = options.kvBlockTokens;
    lower::buildLowerPipeline(manager, lowerOptions);
  }
  LogicalResult result = manager.run(*module);
  report.addStage(name,
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return result;
}

LogicalResult Pipeline::generate() {
  auto start = std::chrono::steady_clock::now();
  llvm::StringRef name(options.target);
  if (!name.consume_front("cpu:")) {
    return emitError(UnknownLoc::get(context))
           << "--target=" << options.target
           << ": expected cpu:native, cpu:x86-64-v3, cpu:x86-64-v4 or cpu:aarch64";
  }
  auto target = cpu::CpuTarget::parse(name);
  if (!target) {
    return fail(target.takeError());
  }
  cpu::CpuCodegenOptions codegen;
  codegen.jobs = options.jobs;
  codegen.sharedObject = options.emit == Emit::Package;
  codegen.object = options.emit == Emit::Object;
  codegen.llvmIr = options.emit == Emit::LlvmIr;
  auto code = cpu::generateCpuCode(*module, *target, codegen);
  if (failed(code)) {
    return failure();
  }
  report.addStage("codegen",
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  if (options.emit != Emit::Package) {
    return writeText(codegen.llvmIr ? llvm::StringRef(code->llvmIr)
                                    : llvm::StringRef(code->object.data(), code->object.size()));
  }
  start = std::chrono::steady_clock::now();
  if (auto e = writePackageFile(*target, *code)) {
    return fail(std::move(e));
  }
  report.addStage("package",
                  std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count());
  return success();
}

llvm::Error Pipeline::writePackageFile(const cpu::CpuTarget &target, const cpu::CpuCode &code) {
  package::CodeVariant variant;
  variant.target = target.name;
  variant.arch = target.triple.substr(0, target.triple.find('-'));
  variant.cpu = target.cpu;
  variant.features = target.requiredFeatures;
  variant.sharedObject = code.sharedObject;
  for (const cpu::CpuFunction &function : code.functions) {
    variant.scratchBytes.push_back({function.symbol, function.scratchBytes});
  }
  package::PackageInputs inputs;
  inputs.kernelModule = *module;
  inputs.code = variant;
  inputs.weights = &support::WeightStore::of(context);
  inputs.texts = {files.tokenizer.text, files.tokenizerConfig.text, files.chatTemplate};
  inputs.facts.name = files.config.findString("model_type").value_or("").str();
  // The generation config says where answers end; the model config is the older place.
  auto eos = files.generationConfig.findInts("eos_token_id");
  if (eos.empty()) {
    eos = files.config.findInts("eos_token_id");
  }
  inputs.facts.eosIds.assign(eos.begin(), eos.end());
  auto idOf = [&](llvm::StringRef key) {
    return files.generationConfig.findInt(key).value_or(files.config.findInt(key).value_or(-1));
  };
  inputs.facts.bosId = idOf("bos_token_id");
  inputs.facts.padId = idOf("pad_token_id");
  inputs.facts.addBos = files.tokenizerConfig.findBool("add_bos_token").value_or(false);
  inputs.generation.temperature = files.generationConfig.findNumber("temperature");
  inputs.generation.topP = files.generationConfig.findNumber("top_p");
  inputs.generation.topK = files.generationConfig.findInt("top_k");
  inputs.generation.repetitionPenalty = files.generationConfig.findNumber("repetition_penalty");
  inputs.generation.doSample = files.generationConfig.findBool("do_sample").value_or(false);
  auto text = [&](llvm::StringRef name) {
    auto attr = (*module)->getAttrOfType<StringAttr>(name);
    return attr ? attr.str() : std::string();
  };
  inputs.provenance = {SLUICE_VERSION, text(onnx::kFileAttr), text(onnx::kProducerAttr),
                       options.commandLine};
  package::PackageOptions packageOptions;
  packageOptions.jobs = options.jobs;
  packageOptions.progress = options.progress;
  auto summary = package::writePackage(options.output.empty() ? defaultOutput() : options.output,
                                       inputs, packageOptions);
  if (!summary) {
    return summary.takeError();
  }
  report.setFact("file_bytes", summary->fileBytes);
  report.setFact("weight_bytes", summary->weightBytes);
  report.setFact("parameters", summary->parameters);
  report.setFact("active_parameters", summary->activeParameters);
  return llvm::Error::success();
}

LogicalResult Pipeline::fail(llvm::Error error) {
  return emitError(UnknownLoc::get(context)) << llvm::toString(std::move(error));
}

std::string Pipeline::defaultOutput() const {
  llvm::SmallString<128> absolute(options.model);
  llvm::sys::fs::make_absolute(absolute);
  llvm::sys::path::remove_dots(absolute, true);
  return (llvm::sys::path::stem(absolute) + ".sluice").str();
}

LogicalResult Pipeline::writeModule() {
  std::string text;
  llvm::raw_string_ostream out(text);
  module->print(out, OpPrintingFlags().enableDebugInfo(true, false));
  return writeText(text);
}

LogicalResult Pipeline::writeText(llvm::StringRef text) {
  if (options.output.empty() || options.output == "-") {
    llvm::outs() << text;
    return success();
  }
  std::error_code code;
  llvm::raw_fd_ostream out(options.output, code);
  if (!code) {
    out << text;
    out.flush();
    code = out.error();
    out.clear_error();
  }
  return code ? LogicalResult(emitError(UnknownLoc::get(context))
                              << options.output << ": cannot be written: " << code.message())
              : success();
}

LogicalResult Pipeline::writeReport() {
  if (options.report.empty()) {
    return success();
  }
  std::error_code code;
  llvm::raw_fd_ostream out(options.report, code);
  if (code) {
    return emitError(UnknownLoc::get(context))
           << options.report << ": cannot be written: " << code.message();
  }
  out << llvm::formatv("{0:2}", report.toJson()) << "\n";
  out.flush();
  code = out.error();
  out.clear_error();
  return code ? fail(llvm::createStringError(options.report +
                                             ": cannot be written: " + code.message()))
              : success();
}

} // namespace sluicec
