// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// A loaded program: buffers allocated once at a stated capacity, and a walk over the launch list
// for each step. Fourth room of the runtime, between device and engine.
#pragma once

#include "runtime/base/Status.h"
#include "runtime/device/Device.h"
#include "runtime/package/PackageReader.h"
#include "runtime/program/ProgramPlan.h"
#include "runtime/program/StepRunner.h"

#include <memory>
#include <string_view>
#include <vector>

namespace sluice {

struct ProgramOptions {
  StepCapacity capacity;
  std::vector<uint32_t> numBlocks; ///< of each cache group's pool
  uint32_t code = 0;               ///< index into manifest.code(), from chooseCode
};

/// One thread at a time. `package` and `device` must outlive it.
class Program final : public StepRunner {
public:
  /// Loads the code, allocates all memory. Errors of ProgramPlan::make, Device::loadCode and
  /// Device::allocate; NotFound: no program of this name.
  static Result<std::unique_ptr<Program>> create(const PackageReader &package,
                                                 std::string_view name, Device &device,
                                                 const ProgramOptions &options);

  const StepFacts &facts() const override { return facts_; }
  /// Checks all of `input` against the contract in StepRunner.h before anything runs. Allocates
  /// nothing.
  Status run(const StepInput &input) override;
  std::span<const float> logits() const override;

  uint64_t workspaceBytes() const { return plan_.workspaceBytes; }

private:
  struct Entry {
    manifest::EntryKind kind = manifest::EntryKind::Kernel;
    uint32_t function = 0;
    uint32_t fewFunction = 0;
    uint32_t fewRows = 0; // 0: no function for few rows
    uint32_t neededFor = 0;
    uint32_t firstBuffer = 0; // into addresses_
    const manifest::Buffer *probe = nullptr;
    std::string_view name; // of a probe
    uint32_t layer = 0;
  };

  Program(const manifest::Program &program, Device &device, ProgramPlan plan)
      : program_(program), device_(device), plan_(std::move(plan)) {}
  Status allocate(const PackageReader &package, const ProgramOptions &options);
  Status resolveEntries();
  Status checkInput(const StepInput &input) const;
  Status checkTables(const StepInput &input) const;
  Status fillInputs(const StepInput &input);
  Status fillInput(manifest::InputKind kind, void *target, const StepInput &input, uint32_t group);
  Status runProbe(const Entry &entry, const ProbeSink &sink);
  UnitCounts stepCounts() const;

  const manifest::Program &program_;
  Device &device_;
  ProgramPlan plan_;
  StepFacts facts_;
  DeviceMemory inputs_;
  DeviceMemory outputs_;
  DeviceMemory workspace_;
  std::vector<DeviceMemory> weights_; // borrowed on a CPU
  std::vector<DeviceMemory> pools_;   // per cache group
  std::vector<void *> buffers_;       // address of each manifest buffer
  std::vector<void *> addresses_;     // buffers of all entries, one after the other
  std::vector<Entry> entries_;
  sluice_step_counts counts_ = {};
  std::vector<float>
      hostLogits_; // [logit_rows, vocab] f32; empty when the host reads the device's memory
  std::vector<std::byte> hostProbe_; // likewise
};

} // namespace sluice
