// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// JSON text as template values: the caller's variables (tools, switches) for ChatTemplate::render.
#pragma once

#include "runtime/tokenizer/TemplateValue.h"

#include <string_view>

namespace sluice {

/// Members keep their order, as in Python. Fails when `text` is no JSON, nests too deep or exceeds
/// the limits.
Value valueFromJson(TemplateRuntime &runtime, std::string_view text);

} // namespace sluice
