// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Lowers emitted kernels to LLVM IR and compiles them: the one file of codegen/cpu with LLVM's and
// MLIR's pass headers.
#include "compiler/codegen/cpu/CompileObject.h"

#include "llvm/IR/LLVMContext.h"
#include "llvm/IR/LegacyPassManager.h"
#include "llvm/IR/Module.h"
#include "llvm/MC/TargetRegistry.h"
#include "llvm/Passes/PassBuilder.h"
#include "llvm/Support/TargetSelect.h"
#include "llvm/Support/ThreadPool.h"
#include "llvm/Target/TargetMachine.h"
#include "mlir/Conversion/ArithToLLVM/ArithToLLVM.h"
#include "mlir/Conversion/ControlFlowToLLVM/ControlFlowToLLVM.h"
#include "mlir/Conversion/MathToLLVM/MathToLLVM.h"
#include "mlir/Conversion/ReconcileUnrealizedCasts/ReconcileUnrealizedCasts.h"
#include "mlir/Conversion/SCFToControlFlow/SCFToControlFlow.h"
#include "mlir/Conversion/VectorToLLVM/ConvertVectorToLLVMPass.h"
#include "mlir/Dialect/ControlFlow/IR/ControlFlow.h"
#include "mlir/Dialect/Math/Transforms/Passes.h"
#include "mlir/Target/LLVMIR/Dialect/Builtin/BuiltinToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Dialect/LLVMIR/LLVMToLLVMIRTranslation.h"
#include "mlir/Target/LLVMIR/Export.h"

using namespace mlir;

namespace sluicec::cpu {

void prepareContext(MLIRContext &context) {
  DialectRegistry registry;
  registerBuiltinDialectTranslation(registry);
  registerLLVMDialectTranslation(registry);
  context.appendDialectRegistry(registry);
  context.loadDialect<arith::ArithDialect, math::MathDialect, scf::SCFDialect,
                      cf::ControlFlowDialect, vector::VectorDialect, LLVM::LLVMDialect>();
}

LogicalResult expandMath(ModuleOp module) {
  static constexpr StringLiteral kByPolynomial[] = {
      "exp", "expm1", "log", "log2", "log1p", "erfc", "atan", "atan2", "asin", "acos", "cbrt"};
  RewritePatternSet patterns(module.getContext());
  populateMathAlgebraicSimplificationPatterns(patterns);
  math::populateExpansionPatterns(patterns, {"powf", "fpowi", "exp2", "sinh", "cosh", "tan",
                                             "asinh", "acosh", "atanh", "rsqrt", "clampf"});
  populateMathPolynomialApproximationPatterns(patterns, [](StringRef name) {
    return llvm::is_contained(kByPolynomial, name.split('.').second);
  });
  return applyPatternsGreedily(module, std::move(patterns));
}

namespace {

LogicalResult lowerToLlvmDialect(ModuleOp modules) {
  PassManager manager(modules.getContext());
  OpPassManager &nested = manager.nest<ModuleOp>();
  nested.addPass(createSCFToControlFlowPass());
  nested.addPass(createConvertVectorToLLVMPass());
  nested.addPass(createConvertMathToLLVMPass());
  nested.addPass(createArithToLLVMConversionPass());
  nested.addPass(createConvertControlFlowToLLVMPass());
  nested.addPass(createReconcileUnrealizedCastsPass());
  return manager.run(modules);
}

/// Compiles LLVM modules for one target. One object per thread.
class ObjectCompiler {
public:
  ObjectCompiler(const CpuTarget &target, bool wantsIr) : target(target), wantsIr(wantsIr) {
    llvm::TargetOptions options;
    // Contraction is never the backend's choice: what is fused was written as an fma.
    options.AllowFPOpFusion = llvm::FPOpFusion::Strict;
    std::string error;
    llvm::Triple triple(target.triple);
    const llvm::Target *found = llvm::TargetRegistry::lookupTarget(triple, error);
    assert(found && "both targets are in every LLVM that Sluice links");
    machine.reset(found->createTargetMachine(triple, target.cpu, target.features, options,
                                             llvm::Reloc::PIC_, llvm::CodeModel::Small,
                                             llvm::CodeGenOptLevel::Default));
  }

  CompiledModule compile(llvm::Module &module) {
    module.setTargetTriple(machine->getTargetTriple());
    module.setDataLayout(machine->createDataLayout());
    module.setSourceFileName("");
    for (llvm::Function &function : module) {
      if (!function.isDeclaration()) {
        setAttributes(function);
      }
    }
    optimize(module);
    CompiledModule result;
    if (wantsIr) {
      llvm::raw_string_ostream stream(result.llvmIr);
      module.print(stream, nullptr);
    }
    emit(module, result);
    return result;
  }

private:
  const CpuTarget &target;
  bool wantsIr;
  std::unique_ptr<llvm::TargetMachine> machine;

  void setAttributes(llvm::Function &function) {
    function.addFnAttr("target-cpu", target.cpu);
    function.addFnAttr("tune-cpu", target.tuneCpu);
    function.addFnAttr("target-features", target.features);
    function.addFnAttr("prefer-vector-width", std::to_string(target.vectorBits));
    // A kernel calls nothing: no loop becomes memcpy or memset.
    function.addFnAttr("no-builtins");
    function.addFnAttr(llvm::Attribute::NoUnwind);
  }

  /// No library function exists for the optimiser.
  llvm::TargetLibraryInfoImpl noLibrary() {
    llvm::TargetLibraryInfoImpl library(machine->getTargetTriple());
    library.disableAllFunctions();
    return library;
  }

  void optimize(llvm::Module &module) {
    // Templates are written as vectors and unrolled where that pays; the optimiser cleans up.
    llvm::PipelineTuningOptions tuning;
    tuning.LoopVectorization = false;
    tuning.LoopInterleaving = false;
    tuning.SLPVectorization = false;
    tuning.LoopUnrolling = false;
    llvm::PassBuilder builder(machine.get(), tuning);
    llvm::LoopAnalysisManager loops;
    llvm::FunctionAnalysisManager functions;
    llvm::CGSCCAnalysisManager graphs;
    llvm::ModuleAnalysisManager modules;
    functions.registerPass([&] { return llvm::TargetLibraryAnalysis(noLibrary()); });
    builder.registerModuleAnalyses(modules);
    builder.registerCGSCCAnalyses(graphs);
    builder.registerFunctionAnalyses(functions);
    builder.registerLoopAnalyses(loops);
    builder.crossRegisterProxies(loops, functions, graphs, modules);
    builder.buildPerModuleDefaultPipeline(llvm::OptimizationLevel::O2).run(module, modules);
  }

  void emit(llvm::Module &module, CompiledModule &result) {
    llvm::SmallVector<char> bytes;
    llvm::raw_svector_ostream stream(bytes);
    llvm::legacy::PassManager manager;
    manager.add(new llvm::TargetLibraryInfoWrapperPass(noLibrary()));
    bool cannot =
        machine->addPassesToEmitFile(manager, stream, nullptr, llvm::CodeGenFileType::ObjectFile);
    assert(!cannot && "both targets emit objects");
    (void)cannot;
    manager.run(module);
    result.object.assign(bytes.begin(), bytes.end());
  }
};

void initializeTargets() {
  LLVMInitializeX86TargetInfo();
  LLVMInitializeX86Target();
  LLVMInitializeX86TargetMC();
  LLVMInitializeX86AsmPrinter();
  LLVMInitializeAArch64TargetInfo();
  LLVMInitializeAArch64Target();
  LLVMInitializeAArch64TargetMC();
  LLVMInitializeAArch64AsmPrinter();
}

} // namespace

FailureOr<std::vector<CompiledModule>> compileModules(ModuleOp modules, const CpuTarget &target,
                                                      const CpuCodegenOptions &options) {
  initializeTargets();
  if (failed(lowerToLlvmDialect(modules))) {
    return failure();
  }
  struct Unit {
    llvm::LLVMContext context;
    std::unique_ptr<llvm::Module> module;
  };
  std::vector<std::unique_ptr<Unit>> units;
  for (ModuleOp nested : modules.getOps<ModuleOp>()) {
    auto unit = std::make_unique<Unit>();
    unit->module = translateModuleToLLVMIR(nested, unit->context);
    if (!unit->module) {
      return failure();
    }
    units.push_back(std::move(unit));
  }
  std::vector<CompiledModule> results(units.size());
  std::atomic<size_t> next = 0;
  auto work = [&] {
    ObjectCompiler compiler(target, options.llvmIr);
    for (size_t i = next++; i < units.size(); i = next++) {
      results[i] = compiler.compile(*units[i]->module);
      units[i].reset();
    }
  };
  unsigned jobs = static_cast<unsigned>(std::max(1, options.jobs));
  llvm::StdThreadPool pool(llvm::hardware_concurrency(jobs));
  for (unsigned i = 0; i < jobs; ++i) {
    pool.async(work);
  }
  pool.wait();
  return results;
}

} // namespace sluicec::cpu
