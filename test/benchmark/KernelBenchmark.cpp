// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Speed of single CPU kernels: compiles a matmul or attention of given sizes and prints its rate,
// one JSON line each. Run: kernel_benchmark [--target=T] [--threads=N]. Peaks of the machine to
// compare with come from `sluice bench`.
#include "compiler/codegen/cpu/CpuCodegen.h"
#include "dialects/kernel/KernelDialect.h"
#include "runtime/device/KernelAbi.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/Parser/Parser.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <sys/mman.h>
#include <thread>

namespace {

using Clock = std::chrono::steady_clock;

/// Page-aligned memory of huge pages where the machine gives them, filled so that no page is
/// shared.
void *fill(size_t bytes, uint32_t pattern) {
  void *p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (p == MAP_FAILED) {
    std::perror("mmap");
    std::exit(1);
  }
  madvise(p, bytes, MADV_HUGEPAGE);
  std::fill_n(static_cast<uint32_t *>(p), bytes / 4, pattern);
  return p;
}

struct Kernel {
  sluice_kernel entry = nullptr;
  uint64_t scratchBytes = 0;
  double compileSeconds = 0;
};

Kernel compile(const std::string &text, const std::string &targetName) {
  llvm::Expected<sluicec::cpu::CpuTarget> target = sluicec::cpu::CpuTarget::parse(targetName);
  if (!target) {
    std::fprintf(stderr, "%s\n", llvm::toString(target.takeError()).c_str());
    std::exit(1);
  }
  mlir::MLIRContext context;
  context.loadDialect<sluicec::kernel::KernelDialect>();
  auto module = mlir::parseSourceString<mlir::ModuleOp>(text, &context);
  auto start = Clock::now();
  auto code = module ? sluicec::cpu::generateCpuCode(*module, *target, {})
                     : mlir::FailureOr<sluicec::cpu::CpuCode>(mlir::failure());
  if (mlir::failed(code)) {
    std::exit(2);
  }
  Kernel kernel;
  kernel.compileSeconds = std::chrono::duration<double>(Clock::now() - start).count();
  kernel.scratchBytes = code->functions[0].scratchBytes;
  llvm::SmallString<128> path;
  int file = -1;
  if (llvm::sys::fs::createTemporaryFile("kernel", "so", file, path)) {
    std::exit(2);
  }
  llvm::raw_fd_ostream(file, true).write(code->sharedObject.data(), code->sharedObject.size());
  void *handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (std::getenv("KEEP_KERNEL")) {
    std::fprintf(stderr, "%s\n", path.c_str());
  } else {
    llvm::sys::fs::remove(path);
  }
  kernel.entry = reinterpret_cast<sluice_kernel>(dlsym(handle, "f"));
  return kernel;
}

/// Median seconds of one run of all cells, `threads` taking one cell at a time.
double seconds(const Kernel &kernel, const sluice_step_counts &counts, std::vector<void *> buffers,
               int64_t cells, int threads) {
  std::vector<void *> scratch;
  for (int t = 0; t < threads; ++t) {
    scratch.push_back(fill(kernel.scratchBytes + 64, 0));
  }
  auto once = [&] {
    std::atomic<int64_t> next = 0;
    auto work = [&](int t) {
      for (int64_t c = next++; c < cells; c = next++) {
        kernel.entry(&counts, buffers.data(), c, c + 1, scratch[t]);
      }
    };
    auto start = Clock::now();
    std::vector<std::thread> others;
    for (int t = 1; t < threads; ++t) {
      others.emplace_back(work, t);
    }
    work(0);
    for (std::thread &t : others) {
      t.join();
    }
    return std::chrono::duration<double>(Clock::now() - start).count();
  };
  std::vector<double> times;
  for (double total = 0; total < 1.0 || times.size() < 5;) {
    times.push_back(once());
    total += times.back();
  }
  std::sort(times.begin(), times.end());
  for (void *p : scratch) {
    munmap(p, kernel.scratchBytes + 64);
  }
  return times[times.size() / 2];
}

std::string buffer(const std::string &unit, int64_t perUnit, int64_t fixed,
                   const std::string &element) {
  return "!kernel.buffer<" + unit + " * " + std::to_string(perUnit) + " + " +
         std::to_string(fixed) + " x " + element + ">";
}

void matmul(const std::string &target, int threads, int64_t rows, int64_t n, int64_t k,
            const std::string &element) {
  int64_t width = element == "f32" ? 4 : 2, weightBytes = n * k * width;
  std::string x = buffer("tokens", k, 0, "f32"), w = buffer("fixed", 0, n * k, element),
              o = buffer("tokens", n, 0, "f32");
  std::string text = "kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 48>, "
                     "#kernel.grid_dim<fixed * 0 + " +
                     std::to_string(n / 64) + " tile 1>] {\n^bb0(%x: " + x + ", %w: " + w +
                     ", %o: " + o + "):\n kernel.matmul %x, %w, %o {n = " + std::to_string(n) +
                     " : i64, k = " + std::to_string(k) +
                     " : i64, layout = #kernel.layout<panel, 64>} : " + x + ", " + w + ", " + o +
                     "\n}\n";
  Kernel kernel = compile(text, target);
  std::vector<void *> buffers{fill(rows * k * 4, 0x3F000000), fill(weightBytes, 0x3C003C00),
                              fill(rows * n * 4, 0)};
  sluice_step_counts counts{static_cast<int32_t>(rows), 1, 1, 1, 1, 0};
  double s = seconds(kernel, counts, buffers, (rows + 47) / 48 * (n / 64), threads);
  std::printf("{\"kernel\":\"matmul\",\"target\":\"%s\",\"weights\":\"%s\",\"rows\":%lld,\"n\":%"
              "lld,\"k\":%lld,"
              "\"threads\":%d,\"GBps\":%.1f,\"GFLOPs\":%.1f,\"compile_s\":%.2f}\n",
              target.c_str(), element.c_str(), static_cast<long long>(rows),
              static_cast<long long>(n), static_cast<long long>(k), threads,
              static_cast<double>(weightBytes) / s / 1e9,
              2.0 * static_cast<double>(rows * n * k) / s / 1e9, kernel.compileSeconds);
  std::fflush(stdout);
  munmap(buffers[0], rows * k * 4);
  munmap(buffers[1], weightBytes);
  munmap(buffers[2], rows * n * 4);
}

/// Rows of one sequence at its end: each reads the whole cache before it.
void attention(const std::string &target, int threads, int64_t rows, int64_t length,
               const std::string &element) {
  constexpr int64_t kHeads = 32, kKvHeads = 8, kHead = 128, kBlock = 16;
  int64_t blocks = (length + kBlock - 1) / kBlock, blockElements = kKvHeads * 2 * kHead * kBlock;
  std::string q = buffer("tokens", kHeads * kHead, 0, "f32"), i = buffer("tokens", 1, 0, "i32");
  std::string t = buffer("table", 1, 0, "i32"), c = buffer("blocks", blockElements, 0, element);
  std::string text =
      "kernel.func @f grid [#kernel.grid_dim<tokens * 1 + 0 tile 1>, #kernel.grid_dim<fixed * 0 + "
      "8 tile 1>] {\n^bb0(%q: " +
      q + ", %s: " + i + ", %i: " + i + ", %t: " + t + ", %c: " + c + ", %o: " + q +
      "):\n kernel.attention %q, %s, %i, %t, %c, %o {layout = !lm.cache<window = 0, element = " +
      element +
      ", kvHeads = 8, keyHead = 128, valueHead = 128, layers = 1>, block_tokens = 16 : i64, layer "
      "= 0 : i64, heads = 32 : i64, "
      "scale = 0.1 : f64, window = 0 : i64, mask_window = 0 : i64, soft_cap = 0.0 : f64, span = 64 "
      ": i64, chunk = 1024 : i64} : " +
      q + ", " + i + ", " + i + ", " + t + ", " + c + ", " + q + "\n}\n";
  Kernel kernel = compile(text, target);
  int64_t width = element == "f32" ? 4 : 2, poolBytes = blocks * blockElements * width;
  std::vector<void *> buffers{fill(rows * kHeads * kHead * 4, 0x3C000000),
                              fill(rows * 4, 0),
                              fill(rows * 4, 0),
                              fill(blocks * 4, 0),
                              fill(poolBytes, 0x3C003C00),
                              fill(rows * kHeads * kHead * 4, 0)};
  for (int64_t r = 0; r < rows; ++r) {
    static_cast<int32_t *>(buffers[2])[r] = static_cast<int32_t>(length - rows + r);
  }
  for (int64_t b = 0; b < blocks; ++b) {
    static_cast<int32_t *>(buffers[3])[b] = static_cast<int32_t>(b);
  }
  sluice_step_counts counts{static_cast<int32_t>(rows),   1, 1, static_cast<int32_t>(length),
                            static_cast<int32_t>(blocks), 0};
  double s = seconds(kernel, counts, buffers, rows * kKvHeads, threads);
  std::printf("{\"kernel\":\"attention\",\"target\":\"%s\",\"cache\":\"%s\",\"rows\":%lld,"
              "\"length\":%lld,\"threads\":%d,"
              "\"GBps\":%.1f,\"GFLOPs\":%.1f,\"compile_s\":%.2f}\n",
              target.c_str(), element.c_str(), static_cast<long long>(rows),
              static_cast<long long>(length), threads, static_cast<double>(poolBytes) / s / 1e9,
              4.0 * static_cast<double>(rows * length * kHeads * kHead) / s / 1e9,
              kernel.compileSeconds);
  std::fflush(stdout);
}

} // namespace

int main(int argc, char **argv) {
  std::string target = "native";
  int threads = static_cast<int>(std::thread::hardware_concurrency());
  for (int i = 1; i < argc; ++i) {
    std::string arg = argv[i];
    if (arg.rfind("--target=", 0) == 0) {
      target = arg.substr(9);
    } else if (arg.rfind("--threads=", 0) == 0) {
      threads = std::max(1, std::atoi(arg.c_str() + 10));
    } else {
      std::fprintf(stderr, "usage: kernel_benchmark [--target=T] [--threads=N]\n");
      return 1;
    }
  }
  for (const char *element : {"f32", "bf16", "f16"}) {
    for (int64_t rows : {1, 2, 4, 6, 12, 48, 480}) {
      matmul(target, threads, rows, 8192, 4096, element);
    }
    attention(target, threads, 1, 16384, element);
    attention(target, threads, 64, 2048, element);
  }
  return 0;
}
