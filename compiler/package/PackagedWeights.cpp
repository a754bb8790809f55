// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Finds equal recipes, names and counts weights, and gives each its place.
#include "compiler/package/PackagedWeights.h"

#include "compiler/package/ManifestWriter.h"
#include "compiler/support/WeightRecipe.h"
#include "runtime/package/PackageFormat.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringMap.h"
#include "llvm/ADT/StringSet.h"

#include <map>

using namespace mlir;

namespace sluicec::package {

using namespace kernel;

namespace {

/// What uses a weight: its part in the model, and the share of it that one token reads.
struct WeightUse {
  std::string role = "vector";
  double activeShare = 1;
};

/// Which argument of a kernel is which operand of its template.
std::optional<unsigned> argumentOf(Value operand) {
  auto arg = dyn_cast_or_null<BlockArgument>(operand);
  return arg ? std::optional<unsigned>(arg.getArgNumber()) : std::nullopt;
}

class UseFinder {
public:
  explicit UseFinder(ProgramOp program) {
    auto module = program->getParentOfType<ModuleOp>();
    llvm::StringMap<kernel::FuncOp> kernels;
    for (auto func : module.getOps<kernel::FuncOp>()) {
      kernels[func.getSymName()] = func;
    }
    SmallVector<std::pair<LaunchOp, Operation *>> launches;
    for (auto launch : program.getOps<LaunchOp>()) {
      launches.push_back({launch, &kernels.lookup(launch.getCallee()).getBody().front().front()});
    }
    for (auto [launch, templateOp] : launches) {
      if (auto route = dyn_cast<RouteOp>(templateOp)) {
        routerLogits.insert(launch.getBuffers()[*argumentOf(route.getLogits())]);
      }
    }
    for (auto [launch, templateOp] : launches) {
      record(launch, templateOp);
    }
  }

  WeightUse of(Value weight) const { return uses.lookup(weight); }

private:
  llvm::DenseMap<Value, WeightUse> uses;
  llvm::DenseSet<Value> routerLogits;

  void record(LaunchOp launch, Operation *templateOp) {
    auto set = [&](Value operand, StringRef role, double share = 1) {
      if (std::optional<unsigned> arg = argumentOf(operand)) {
        uses[launch.getBuffers()[*arg]] = {role.str(), share};
      }
    };
    if (auto op = dyn_cast<EmbeddingOp>(templateOp)) {
      set(op.getTable(), "embedding");
    } else if (auto matmul = dyn_cast<MatmulOp>(templateOp)) {
      bool routes = routerLogits.contains(launch.getBuffers()[*argumentOf(matmul.getOut())]);
      set(matmul.getWeight(), routes ? "router" : "linear");
    } else if (auto grouped = dyn_cast<GroupedMatmulOp>(templateOp)) {
      double share = static_cast<double>(grouped.getTopK()) / grouped.getExperts();
      set(grouped.getWeight(), "experts", share);
      set(grouped.getBias(), "vector", share);
    } else if (auto rms = dyn_cast<RmsNormOp>(templateOp)) {
      set(rms.getWeight(), "norm");
    } else if (auto layer = dyn_cast<LayerNormOp>(templateOp)) {
      set(layer.getWeight(), "norm");
      set(layer.getBias(), "norm");
    }
  }
};

/// Sources of a recipe, in order, at most a few.
std::string nameOf(Value recipe) {
  constexpr size_t kMaxSources = 4;
  llvm::SetVector<StringRef> sources;
  llvm::SetVector<Operation *> ops;
  ops.insert(recipe.getDefiningOp());
  for (size_t i = 0; i < ops.size(); ++i) {
    if (auto weight = dyn_cast<lm::WeightOp>(ops[i])) {
      sources.insert(weight.getSource());
    }
    for (Value operand : ops[i]->getOperands()) {
      ops.insert(operand.getDefiningOp());
    }
  }
  std::string name = llvm::join(sources.getArrayRef().take_front(kMaxSources), " + ");
  if (sources.size() > kMaxSources) {
    name += " + " + std::to_string(sources.size() - kMaxSources) + " more";
  }
  return name;
}

} // namespace

llvm::Expected<WeightPlan> planWeights(ProgramOp program) {
  WeightPlan plan;
  UseFinder uses(program);
  std::map<std::pair<std::string, const void *>, uint32_t> known; // recipe and layout -> weight
  llvm::StringSet<> counted;
  double active = 0;
  uint64_t end = 0; // of the section so far
  for (Operation &op : program.getBody().front()) {
    auto weightOp = dyn_cast<kernel::WeightOp>(op);
    if (!weightOp) {
      continue;
    }
    Value recipe = weightOp.getRecipe();
    std::string key = support::recipeKey(recipe);
    WeightUse use = uses.of(weightOp.getResult());
    if (counted.insert(key).second) {
      int64_t elements = cast<RankedTensorType>(recipe.getType()).getNumElements();
      plan.parameters += static_cast<uint64_t>(elements);
      active += static_cast<double>(elements) * use.activeShare;
    }
    auto [at, fresh] = known.try_emplace({key, weightOp.getLayout().getAsOpaquePointer()},
                                         static_cast<uint32_t>(plan.weights.size()));
    plan.indexOf[weightOp.getResult()] = at->second;
    if (!fresh) {
      continue;
    }
    PackagedWeight weight;
    weight.recipe = recipe;
    weight.layout = weightOp.getLayout();
    weight.name = nameOf(recipe);
    weight.role = use.role;
    BufferType buffer = weightOp.getResult().getType();
    llvm::Expected<sluice::manifest::ElementType> element = elementTypeOf(buffer.getElement());
    if (!element) {
      return element.takeError();
    }
    weight.elements = static_cast<uint64_t>(buffer.getFixed());
    weight.elementBytes = (buffer.getElement().getIntOrFloatBitWidth() + 7) / 8;
    uint64_t begin = 0, next = 0;
    if (__builtin_mul_overflow(weight.elements, weight.elementBytes, &weight.bytes) ||
        __builtin_add_overflow(end, sluice::kSectionAlignment - 1, &begin) ||
        __builtin_add_overflow(begin, weight.bytes, &next) || next > uint64_t(INT64_MAX)) {
      return llvm::createStringError("weight '" + weight.name + "' makes the package too large");
    }
    weight.offset = begin / sluice::kSectionAlignment * sluice::kSectionAlignment;
    end = weight.offset + weight.bytes;
    plan.weights.push_back(std::move(weight));
  }
  plan.sectionBytes = end;
  plan.activeParameters = static_cast<uint64_t>(active + 0.5);
  return plan;
}

} // namespace sluicec::package
