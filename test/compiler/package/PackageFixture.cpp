// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The small kernel module of the package writer's tests.
#include "PackageFixture.h"

#include "llvm/Support/Path.h"
#include "mlir/AsmParser/AsmParser.h"

#include <random>

using namespace mlir;

namespace sluicec::package {

/// An embedding, a router, gated experts and a tied head; one cache group.
static constexpr char kSmallModel[] = R"mlir(
!ids = !kernel.buffer<tokens * 1 + 0 x i32>
!rows = !kernel.buffer<tokens * 6 + 0 x f32>
!table = !kernel.buffer<fixed * 0 + 120 x bf16>
!router = !kernel.buffer<fixed * 0 + 384 x f32>
!scores = !kernel.buffer<tokens * 3 + 0 x f32>
!choice = !kernel.buffer<tokens * 2 + 0 x f32>
!chosen = !kernel.buffer<tokens * 2 + 0 x i32>
!starts = !kernel.buffer<fixed * 0 + 4 x i32>
!experts = !kernel.buffer<fixed * 0 + 2304 x f16>
!inner = !kernel.buffer<tokens * 80 + 0 x f32>
!norm = !kernel.buffer<fixed * 0 + 6 x f32>
!wanted = !kernel.buffer<logit_rows * 1 + 0 x i32>
!last = !kernel.buffer<logit_rows * 6 + 0 x f32>
!head = !kernel.buffer<fixed * 0 + 384 x bf16>
!logits = !kernel.buffer<logit_rows * 20 + 0 x f32>
!index = !kernel.buffer<tokens * 1 + 0 x i32>
!blocks = !kernel.buffer<table * 1 + 0 x i32>
!pool = !kernel.buffer<blocks * 192 + 0 x f16>
!starts_in = !kernel.buffer<seqs * 1 + 1 x i32>
!lengths = !kernel.buffer<seqs * 1 + 0 x i32>
#rows = #kernel.grid_dim<tokens * 1 + 0 tile 1>
#one = #kernel.grid_dim<fixed * 0 + 1 tile 1>
module attributes {lm.model = {context = 64 : i64, hidden = 6 : i64, layers = 1 : i64, vocab = 20 : i64}} {
  kernel.func @embedding_0 grid [#rows] {
  ^bb0(%i: !ids, %t: !table, %o: !rows):
    kernel.embedding %i, %t, %o {features = 6 : i64} : !ids, !table, !rows
  }
  kernel.func @row_index_0 grid [#kernel.grid_dim<seqs * 1 + 0 tile 1>] {
  ^bb0(%s: !starts_in, %l: !lengths, %q: !index, %x: !index):
    kernel.row_index %s, %l, %q, %x : !starts_in, !lengths, !index, !index
  }
  kernel.func @cache_append_0 grid [#rows] {
  ^bb0(%k: !rows, %v: !rows, %q: !index, %x: !index, %t: !blocks, %c: !pool):
    kernel.cache_append %k, %v, %q, %x, %t, %c {layer = 0 : i64, block_tokens = 16 : i64, layout = !lm.cache<window = 8, element = f16, kvHeads = 1, keyHead = 6, valueHead = 6, layers = 1>} : !rows, !rows, !index, !index, !blocks, !pool
  }
  kernel.func @matmul_0 grid [#kernel.grid_dim<tokens * 1 + 0 tile 48>, #one] {
  ^bb0(%x: !rows, %w: !router, %o: !scores):
    kernel.matmul %x, %w, %o {n = 3 : i64, k = 6 : i64, layout = #kernel.layout<panel, 64>} : !rows, !router, !scores
  }
  kernel.func @route_0 grid [#rows] {
  ^bb0(%l: !scores, %w: !choice, %i: !chosen):
    kernel.route %l, %w, %i {experts = 3 : i64, top_k = 2 : i64, score = #lm<score softmax_all>, scale = 1.0} : !scores, !choice, !chosen
  }
  kernel.func @expert_plan_0 grid [#one] {
  ^bb0(%i: !chosen, %o: !chosen, %s: !starts):
    kernel.expert_plan %i, %o, %s {experts = 3 : i64, top_k = 2 : i64} : !chosen, !chosen, !starts
  }
  kernel.func @grouped_matmul_0 grid [#kernel.grid_dim<tokens * 2 + 96 tile 32>, #kernel.grid_dim<fixed * 0 + 2 tile 1>] {
  ^bb0(%x: !rows, %w: !experts, %r: !chosen, %s: !starts, %o: !inner):
    kernel.grouped_matmul %x, %w, %r, %s, %o {experts = 3 : i64, top_k = 2 : i64, n = 40 : i64, k = 6 : i64, layout = #kernel.layout<gated_panel, 64>, gated = #lm.gated<kind = silu, alpha = 1.0 : f64, beta = 0.0 : f64, limit = 0x7FF0000000000000 : f64>} : !rows, !experts, !chosen, !starts, !inner
  }
  kernel.func @logit_rows_0 grid [#kernel.grid_dim<logit_rows * 1 + 0 tile 1>] {
  ^bb0(%x: !rows, %r: !wanted, %o: !last):
    kernel.logit_rows %x, %r, %o {features = 6 : i64} : !rows, !wanted, !last
  }
  kernel.func @matmul_1 grid [#kernel.grid_dim<logit_rows * 1 + 0 tile 48>, #one] {
  ^bb0(%x: !last, %w: !head, %o: !logits):
    kernel.matmul %x, %w, %o {n = 20 : i64, k = 6 : i64, layout = #kernel.layout<panel, 64>} : !last, !head, !logits
  }
  kernel.program @step attributes {workspace = #kernel.offset<fixed = 64, tokens = 896, seqs = 0, logitRows = 64>} {
    %ids = kernel.input token_ids : <tokens * 1 + 0 x i32>
    %seqs = kernel.input seq_start : <seqs * 1 + 1 x i32>
    %lengths = kernel.input kv_length : <seqs * 1 + 0 x i32>
    %wanted = kernel.input logit_rows : <logit_rows * 1 + 0 x i32>
    %table0 = kernel.input block_table {group = 0 : i64} : <table * 1 + 0 x i32>
    %pool0 = kernel.cache 0, !lm.cache<window = 8, element = f16, kvHeads = 1, keyHead = 6, valueHead = 6, layers = 1> {block_tokens = 16 : i64} : <blocks * 192 + 0 x f16>
    %embed = lm.weight "embed" : tensor<20x6xbf16>
    %plain = kernel.weight %embed <plain, 0> : tensor<20x6xbf16> -> <fixed * 0 + 120 x bf16>
    %embed2 = lm.weight "embed" : tensor<20x6xbf16>
    %again = kernel.weight %embed2 <plain, 0> : tensor<20x6xbf16> -> <fixed * 0 + 120 x bf16>
    %panels = kernel.weight %embed2 <panel, 64> : tensor<20x6xbf16> -> <fixed * 0 + 384 x bf16>
    %r = lm.weight "router" : tensor<3x6xf32>
    %router = kernel.weight %r <panel, 64> : tensor<3x6xf32> -> <fixed * 0 + 384 x f32>
    %g = lm.weight "gate_up" : tensor<3x80x6xf16>
    %experts = kernel.weight %g <gated_panel, 64> : tensor<3x80x6xf16> -> <fixed * 0 + 2304 x f16>
    %n = lm.weight "norm" : tensor<6xf32>
    %norm = kernel.weight %n <plain, 0> : tensor<6xf32> -> <fixed * 0 + 6 x f32>
    %x = kernel.workspace {offset = #kernel.offset<fixed = 64, tokens = 0, seqs = 0, logitRows = 0>} : <tokens * 6 + 0 x f32>
    %q = kernel.workspace {offset = #kernel.offset<fixed = 64, tokens = 64, seqs = 0, logitRows = 0>} : <tokens * 1 + 0 x i32>
    %at = kernel.workspace {offset = #kernel.offset<fixed = 64, tokens = 128, seqs = 0, logitRows = 0>} : <tokens * 1 + 0 x i32>
    %scores = kernel.workspace {offset = #kernel.offset<fixed = 64, tokens = 192, seqs = 0, logitRows = 0>} : <tokens * 3 + 0 x f32>
    %choice = kernel.workspace {offset = #kernel.offset<fixed = 64, tokens = 256, seqs = 0, logitRows = 0>} : <tokens * 2 + 0 x f32>
    %chosen = kernel.workspace {offset = #kernel.offset<fixed = 64, tokens = 320, seqs = 0, logitRows = 0>} : <tokens * 2 + 0 x i32>
    %order = kernel.workspace {offset = #kernel.offset<fixed = 64, tokens = 384, seqs = 0, logitRows = 0>} : <tokens * 2 + 0 x i32>
    %begin = kernel.workspace {offset = #kernel.offset<fixed = 0, tokens = 0, seqs = 0, logitRows = 0>} : <fixed * 0 + 4 x i32>
    %inner = kernel.workspace {offset = #kernel.offset<fixed = 64, tokens = 448, seqs = 0, logitRows = 0>} : <tokens * 80 + 0 x f32>
    %last = kernel.workspace {offset = #kernel.offset<fixed = 64, tokens = 896, seqs = 0, logitRows = 0>} : <logit_rows * 6 + 0 x f32>
    %logits = kernel.output "logits" : <logit_rows * 20 + 0 x f32>
    kernel.launch @embedding_0(%ids, %plain, %x) : !ids, !table, !rows
    kernel.launch @row_index_0(%seqs, %lengths, %q, %at) : !starts_in, !lengths, !index, !index
    kernel.launch @cache_append_0(%x, %x, %q, %at, %table0, %pool0) : !rows, !rows, !index, !index, !blocks, !pool
    kernel.launch @matmul_0(%x, %router, %scores) : !rows, !router, !scores
    kernel.launch @route_0(%scores, %choice, %chosen) : !scores, !choice, !chosen
    kernel.probe "router_ids" 0, %chosen : <tokens * 2 + 0 x i32>
    kernel.launch @expert_plan_0(%chosen, %order, %begin) : !chosen, !chosen, !starts
    kernel.launch @grouped_matmul_0(%x, %experts, %order, %begin, %inner) : !rows, !experts, !chosen, !starts, !inner
    kernel.launch @logit_rows_0(%x, %wanted, %last) : !rows, !wanted, !last
    kernel.launch @matmul_1(%last, %panels, %logits) : !last, !head, !logits
  }
}
)mlir";

PackageFixture::PackageFixture() {
  context.loadDialect<kernel::KernelDialect, lm::LmDialect>();
  llvm::SmallString<128> made;
  EXPECT_FALSE(llvm::sys::fs::createUniqueDirectory("sluice-package-test", made));
  folder = made.str().str();
}

PackageFixture::~PackageFixture() { llvm::sys::fs::remove_directories(folder); }

void PackageFixture::addWeight(StringRef name, ArrayRef<int64_t> shape, StringRef element) {
  support::WeightTensor tensor;
  tensor.elementType = mlir::parseType(element, &context);
  tensor.shape.assign(shape.begin(), shape.end());
  auto bytes =
      std::make_shared<std::vector<char>>(support::weightBytes(tensor.elementType, shape).value());
  std::minstd_rand random(static_cast<unsigned>(store.size() + 1));
  for (char &byte : *bytes) {
    byte = static_cast<char>(random() >> 8);
  }
  tensor.bytes = *bytes;
  EXPECT_FALSE(store.add(name, tensor, bytes));
}

void PackageFixture::parse(StringRef text) {
  module = parseSourceString<ModuleOp>(text, &context);
  ASSERT_TRUE(module);
}

void PackageFixture::parseSmallModel() {
  addWeight("embed", {20, 6}, "bf16");
  addWeight("router", {3, 6}, "f32");
  addWeight("gate_up", {3, 80, 6}, "f16"); // 40 gates, 40 ups
  addWeight("norm", {6}, "f32");
  parse(kSmallModel);
}

PackageInputs PackageFixture::smallInputs() {
  CodeVariant first{"x86-64-v3", "x86_64", "x86-64-v3", {"avx2", "fma"}, {}, {}};
  static constexpr char kFirst[] = "machine code of v3";
  static constexpr char kSecond[] = "machine code of v4, longer";
  first.sharedObject = llvm::ArrayRef<char>(kFirst, sizeof(kFirst));
  for (auto func : module->getOps<kernel::FuncOp>()) {
    first.scratchBytes.push_back({func.getSymName().str(), 64});
  }
  CodeVariant second = first;
  second.target = second.cpu = "x86-64-v4";
  second.features = {"avx512f"};
  second.sharedObject = llvm::ArrayRef<char>(kSecond, sizeof(kSecond));
  second.scratchBytes.back().second = 4096;
  code = {first, second};
  PackageInputs inputs;
  inputs.kernelModule = *module;
  inputs.code = code;
  inputs.weights = &store;
  inputs.facts.name = "test";
  inputs.facts.bosId = 1;
  inputs.facts.eosIds = {2, 19, 2};
  inputs.generation.temperature = 0.5;
  inputs.generation.topK = 7;
  inputs.texts.tokenizer = "{\"tokenizer\": 1}";
  inputs.texts.chatTemplate = "{{ messages }}";
  inputs.provenance = {"0.1.0", "model.onnx", "test", "--jobs=2"};
  return inputs;
}

StringRef PackageFixture::element(StringRef name, int64_t index) const {
  const support::WeightTensor *tensor = store.find(name);
  size_t bytes = tensor->elementType.getIntOrFloatBitWidth() / 8;
  return StringRef(tensor->bytes.data() + static_cast<size_t>(index) * bytes, bytes);
}

std::string PackageFixture::contentsOf(StringRef path) const {
  auto buffer = llvm::MemoryBuffer::getFile(path);
  return buffer ? (*buffer)->getBuffer().str() : "";
}

std::vector<std::string> PackageFixture::filesInFolder() const {
  std::vector<std::string> names;
  std::error_code failure;
  for (llvm::sys::fs::directory_iterator at(folder, failure), end; !failure && at != end;
       at.increment(failure)) {
    names.push_back(llvm::sys::path::filename(at->path()).str());
  }
  llvm::sort(names);
  return names;
}

} // namespace sluicec::package
