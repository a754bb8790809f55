// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Builds kernel.program and shares kernels between equal launches.
#include "compiler/lower/ProgramBuilder.h"

#include "compiler/lower/KernelChoices.h"

using namespace mlir;

namespace sluicec::lower {

using namespace kernel;

std::optional<int64_t> checkedProduct(std::optional<int64_t> a, std::optional<int64_t> b) {
  int64_t r = 0;
  if (!a || !b || *a < 0 || *b < 0 || __builtin_mul_overflow(*a, *b, &r)) {
    return std::nullopt;
  }
  return r;
}

ProgramBuilder::ProgramBuilder(ModuleOp module) : module(module) {
  auto b = OpBuilder::atBlockEnd(module.getBody());
  programOp = ProgramOp::create(b, module.getLoc(), "step", OffsetAttr());
  programOp.getBody().emplaceBlock();
}

BufferType ProgramBuilder::bufferType(Unit unit, int64_t perUnit, int64_t fixed,
                                      Type element) const {
  return BufferType::get(context(), unit, perUnit, fixed, element);
}

OpBuilder ProgramBuilder::declarations() {
  if (firstLaunch) {
    return OpBuilder(firstLaunch);
  }
  return launches();
}

OpBuilder ProgramBuilder::launches() { return OpBuilder::atBlockEnd(&programOp.getBody().front()); }

Value ProgramBuilder::input(InputKind kind, int64_t group) {
  Value &known = inputs[{static_cast<int>(kind), group}];
  if (known) {
    return known;
  }
  BufferType type = bufferType(Unit::Tokens, 1, 0, i32());
  switch (kind) {
  case InputKind::TokenIds:
  case InputKind::Positions:
    break;
  case InputKind::SeqStart:
    type = bufferType(Unit::Seqs, 1, 1, i32());
    break;
  case InputKind::KvLength:
    type = bufferType(Unit::Seqs, 1, 0, i32());
    break;
  case InputKind::BlockTable:
    type = bufferType(Unit::Table, 1, 0, i32());
    break;
  case InputKind::LogitRows:
    type = bufferType(Unit::LogitRows, 1, 0, i32());
    break;
  }
  OpBuilder b = declarations();
  known = InputOp::create(b, programOp.getLoc(), type, InputKindAttr::get(context(), kind),
                          b.getI64IntegerAttr(group));
  return known;
}

Value ProgramBuilder::output(Location loc, StringRef name, BufferType type) {
  OpBuilder b = declarations();
  return OutputOp::create(b, loc, type, b.getStringAttr(name));
}

Value ProgramBuilder::cache(Location loc, int64_t group, lm::CacheType layout, int64_t blockTokens,
                            int64_t blockElements) {
  OpBuilder b = declarations();
  return CacheOp::create(b, loc, bufferType(Unit::Blocks, blockElements, 0, layout.getElement()),
                         b.getI64IntegerAttr(group), TypeAttr::get(layout),
                         b.getI64IntegerAttr(blockTokens));
}

Value ProgramBuilder::workspace(Location loc, BufferType type) {
  OpBuilder b = declarations();
  return WorkspaceOp::create(b, loc, type, OffsetAttr());
}

Value ProgramBuilder::moveRecipe(Value recipe) {
  if (Value known = recipes.lookupOrNull(recipe)) {
    return known;
  }
  // Operands first; a worklist, since a recipe may be a long chain.
  SmallVector<Operation *> pending{recipe.getDefiningOp()};
  while (!pending.empty()) {
    Operation *op = pending.back();
    assert(isa<lm::WeightOpInterface>(op) && "a recipe is made of recipe operations");
    size_t before = pending.size();
    for (Value operand : op->getOperands()) {
      if (!recipes.contains(operand)) {
        pending.push_back(operand.getDefiningOp());
      }
    }
    if (pending.size() == before) {
      pending.pop_back();
      if (!recipes.contains(op->getResult(0))) {
        OpBuilder b = declarations();
        b.clone(*op, recipes);
      }
    }
  }
  return recipes.lookup(recipe);
}

Value ProgramBuilder::declareWeight(Value movedRecipe, LayoutAttr layout, int64_t elements) {
  Value &known = weights[{movedRecipe, layout}];
  if (!known) {
    OpBuilder b = declarations();
    Type element = cast<RankedTensorType>(movedRecipe.getType()).getElementType();
    known = kernel::WeightOp::create(b, movedRecipe.getLoc(),
                                     bufferType(Unit::Fixed, 0, elements, element), movedRecipe,
                                     layout);
  }
  return known;
}

Value ProgramBuilder::weight(Value recipe, LayoutAttr layout, int64_t elements) {
  return declareWeight(moveRecipe(recipe), layout, elements);
}

Value ProgramBuilder::plainWeight(Value recipe, bool keepType) {
  auto type = cast<RankedTensorType>(recipe.getType());
  Value moved = moveRecipe(recipe);
  if (!keepType && isa<FloatType>(type.getElementType()) && !type.getElementType().isF32()) {
    Value &converted = convertedRecipes[moved];
    if (!converted) {
      OpBuilder b = declarations();
      converted = lm::WeightConvertOp::create(b, recipe.getLoc(), type.clone(f32()), moved);
    }
    moved = converted;
  }
  return declareWeight(moved, LayoutAttr::get(context(), LayoutKind::Plain, 0),
                       type.getNumElements());
}

FailureOr<Value> ProgramBuilder::panelWeight(Value recipe, LayoutAttr layout) {
  auto type = cast<RankedTensorType>(recipe.getType());
  int64_t rank = type.getRank(), n = type.getDimSize(rank - 2), k = type.getDimSize(rank - 1);
  int64_t columns = layout.getWidth();
  if (layout.getKind() == LayoutKind::GatedPanel) {
    n /= 2;
    columns /= 2;
  }
  std::optional<int64_t> elements = checkedProduct(n / columns + (n % columns != 0), k);
  elements = checkedProduct(elements, layout.getWidth());
  for (int64_t d : type.getShape().drop_back(2)) {
    elements = checkedProduct(elements, d);
  }
  // Eight bytes are the widest element: the size in bytes must fit, too.
  if (!checkedProduct(elements, 8)) {
    return emitError(recipe.getLoc())
           << "weight of type " << type << " is larger than any machine can address";
  }
  return weight(recipe, layout, *elements);
}

Value ProgramBuilder::constantWeight(Location loc, DenseElementsAttr values) {
  OpBuilder b = declarations();
  Value recipe =
      lm::WeightOp::create(b, loc, values.getType(), b.getStringAttr("constant"), values);
  recipes.map(recipe, recipe);
  return plainWeight(recipe);
}

LayoutAttr ProgramBuilder::panelLayout(bool gated) const {
  return LayoutAttr::get(context(), gated ? LayoutKind::GatedPanel : LayoutKind::Panel,
                         kPanelWidth);
}

GridDimAttr ProgramBuilder::gridDim(Unit unit, int64_t perUnit, int64_t fixed, int64_t tile) const {
  return GridDimAttr::get(context(), unit, perUnit, fixed, tile);
}

GridDimAttr ProgramBuilder::rowGrid(Value buffer) const {
  return gridDim(cast<BufferType>(buffer.getType()).getUnit(), 1, 0, 1);
}

void ProgramBuilder::launch(Location loc, StringRef name, ArrayRef<GridDimAttr> grid,
                            ValueRange buffers,
                            llvm::function_ref<void(OpBuilder &, ValueRange)> emit) {
  OpBuilder b(programOp);
  SmallVector<Attribute> dims(grid.begin(), grid.end());
  auto func = FuncOp::create(b, loc, "candidate", b.getArrayAttr(dims));
  Block &body = func.getBody().emplaceBlock();
  for (Value buffer : buffers) {
    body.addArgument(buffer.getType(), loc);
  }
  auto inside = OpBuilder::atBlockEnd(&body);
  emit(inside, body.getArguments());

  // The text without locations is the identity: equal text is an equal kernel.
  std::string text;
  llvm::raw_string_ostream os(text);
  func->print(os, OpPrintingFlags().useLocalScope().skipRegions(false));
  std::string &symbol = kernels[text];
  if (symbol.empty()) {
    symbol = (name + "_" + Twine(namesTaken[name]++)).str();
    func.setSymName(symbol);
  } else {
    func.erase();
  }
  OpBuilder at = launches();
  auto launchOp = LaunchOp::create(at, loc, symbol, buffers, FlatSymbolRefAttr(), 0);
  if (!firstLaunch) {
    firstLaunch = launchOp;
  }
}

void ProgramBuilder::probe(Location loc, Value buffer, StringRef name, int64_t layer) {
  OpBuilder b = launches();
  auto op = ProbeOp::create(b, loc, buffer, b.getStringAttr(name), b.getI64IntegerAttr(layer));
  if (!firstLaunch) {
    firstLaunch = op;
  }
}

} // namespace sluicec::lower
