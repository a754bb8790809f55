// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Joins ELF objects with lld: the last step of codegen/cpu.
#pragma once

#include "compiler/codegen/cpu/CpuCodegen.h"

namespace sluicec::cpu {

enum class LinkKind { SharedObject, Relocatable };

/// Links `objects` (ELF, in memory) into one file's bytes. Equal objects give equal bytes. An
/// undefined symbol is an error: kernels call nothing. Errors carry lld's words.
llvm::Expected<std::vector<char>> linkObjects(llvm::ArrayRef<std::vector<char>> objects,
                                              LinkKind kind, const CpuTarget &target);

} // namespace sluicec::cpu
