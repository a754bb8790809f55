// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// CodeModule and CpuDevice: objects from memory, several at once, and what is refused.
#include "runtime/device/CodeModule.h"

#include "runtime/device/CpuDevice.h"
#include "test/runtime/PackageBuilder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace sluice {
namespace {

using testing::HasSubstr;

fake::Bytes kernels() { return fake::readFile(SLUICE_FAKE_KERNELS); }

std::span<const std::byte> asBytes(const fake::Bytes &bytes) {
  return std::as_bytes(std::span(bytes));
}

TEST(CodeModule, LoadsSeveralObjectsAtOnce) {
  const fake::Bytes bytes = kernels();
  // The same descriptor number is free again after the first is gone; two that live at once are
  // apart.
  void *first = nullptr;
  {
    auto a = CodeModule::load(asBytes(bytes));
    ASSERT_TRUE(a) << a.error().message();
    auto b = CodeModule::load(asBytes(bytes));
    ASSERT_TRUE(b);
    first = *a->symbol("fake_mark");
    EXPECT_NE(first, *b->symbol("fake_mark"));
    CodeModule moved = std::move(*a);
    EXPECT_EQ(*moved.symbol("fake_mark"), first);
  }
  for (int i = 0; i < 20; ++i) {
    auto again = CodeModule::load(asBytes(bytes));
    ASSERT_TRUE(again);
    EXPECT_NE(*again->symbol("fake_rows"), nullptr);
  }
}

TEST(CodeModule, RefusesWhatIsNoSharedObject) {
  fake::Bytes bytes = kernels();
  EXPECT_THAT(CodeModule::load({}).error().message(), HasSubstr("not an ELF object"));
  EXPECT_THAT(CodeModule::load(asBytes(fake::Bytes(1000, 7))).error().message(),
              HasSubstr("not an ELF object"));
  bytes[18] = 0xf3; // e_machine: RISC-V
  const auto foreign = CodeModule::load(asBytes(bytes));
  EXPECT_EQ(foreign.error().code(), Code::Corrupt);
  EXPECT_THAT(foreign.error().message(), HasSubstr("shared object for this machine"));
  bytes = kernels();
  bytes.resize(200); // the loader finds nothing of what the header promises
  EXPECT_EQ(CodeModule::load(asBytes(bytes)).error().code(), Code::Unsupported);
}

TEST(CodeModule, NamesAMissingSymbol) {
  const auto module = CodeModule::load(asBytes(kernels()));
  ASSERT_TRUE(module);
  const auto symbol = module->symbol("fake_absent");
  EXPECT_EQ(symbol.error().code(), Code::Corrupt);
  EXPECT_THAT(symbol.error().message(), HasSubstr("does not export 'fake_absent'"));
}

TEST(CpuDevice, LaunchesWithScratchOfEachWorker) {
  CpuDevice device(4);
  const fake::Bytes bytes = kernels();
  ASSERT_TRUE(device.loadCode(asBytes(bytes), {{"fake_attend", 4}, {"fake_mark", 0}}));
  constexpr int32_t kRows = 1000;
  auto memory = device.allocate(kRows * 8);
  ASSERT_TRUE(memory);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % 64, 0U);
  sluice_step_counts counts = {};
  void *buffers[] = {memory->data()};
  ASSERT_TRUE(device.launch({1, &counts, buffers, kRows}));
  ASSERT_TRUE(device.launch({1, &counts, buffers, 0}));
  std::vector<int32_t> marks(kRows * 2);
  ASSERT_TRUE(device.copyToHost(marks.data(), memory->data(), kRows * 8));
  for (int32_t r = 0; r < kRows; ++r) {
    ASSERT_EQ(marks[static_cast<size_t>(r) * 2], 1);
    ASSERT_EQ(marks[static_cast<size_t>(r) * 2 + 1], r);
  }
  EXPECT_EQ(device.launch({2, &counts, buffers, 1}).code(), Code::Internal);
  EXPECT_EQ(device.loadCode(asBytes(bytes), {{"fake_absent", 0}}).code(), Code::Corrupt);
}

TEST(CpuDevice, MemoryIsZeroedAlignedAndRefusedWhenImpossible) {
  CpuDevice device(1);
  for (const uint64_t bytes : {uint64_t{1}, uint64_t{4096}, uint64_t{5} << 20}) {
    auto memory = device.allocate(bytes);
    ASSERT_TRUE(memory);
    EXPECT_EQ(memory->data()[0], std::byte{0});
    EXPECT_EQ(memory->data()[bytes - 1], std::byte{0});
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory->data()) % 4096, 0U);
    memory->data()[bytes - 1] = std::byte{1};
  }
  EXPECT_EQ(device.allocate(0)->data(), nullptr);
  for (const uint64_t bytes : {UINT64_MAX, UINT64_MAX / 2, uint64_t{1} << 62}) {
    const auto refused = device.allocate(bytes);
    EXPECT_EQ(refused.error().code(), Code::OutOfMemory);
    EXPECT_THAT(refused.error().message(), HasSubstr("can't allocate " + std::to_string(bytes)));
  }
}

} // namespace
} // namespace sluice
