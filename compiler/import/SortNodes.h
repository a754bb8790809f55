// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The order in which nodes of a graph can be imported: operands before uses. ONNX asks for sorted
// files; not every writer keeps it.
#pragma once

#include "llvm/ADT/ArrayRef.h"
#include "llvm/ADT/STLFunctionalExtras.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringRef.h"

#include <string>

namespace onnx {
class NodeProto;
}

namespace sluicec {

struct NodeOrder {
  llvm::SmallVector<unsigned>
      order; // indices into the nodes; the file's order where that is already sorted
  enum class Fault { None, UndefinedInput, Cycle } fault = Fault::None;
  unsigned faultyNode = 0; // where the fault is
  std::string faultyInput; // the name that is undefined or closes the cycle
};

/// Sorts; `isDefined` tells whether a name exists before any node (inputs, initializers, names of
/// enclosing graphs).
NodeOrder sortNodes(llvm::ArrayRef<const ::onnx::NodeProto *> nodes,
                    llvm::function_ref<bool(llvm::StringRef)> isDefined);

} // namespace sluicec
