// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// Prints diagnostics with the ONNX node that an operation came from, which MLIR's own printer
// drops. The driver installs one.
#pragma once

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"
#include "mlir/IR/Diagnostics.h"
#include "mlir/IR/Location.h"

#include <string>

namespace sluicec::support {

/// The place that a location names: "model.onnx: node '/layers.3/moe/Gate' (#17)". Of a fused
/// location the first place that has a name; a plain file position reads "test.mlir:12:3"; "" for
/// an unknown location.
std::string describeLocation(mlir::Location location);

/// While alive, errors and warnings of the context go to `out`, one line each: "PLACE: error:
/// message"; notes are indented.
class NodeDiagnostics : public mlir::ScopedDiagnosticHandler {
public:
  NodeDiagnostics(mlir::MLIRContext *context, llvm::raw_ostream &out);

  unsigned numErrors() const { return errors; }
  unsigned numWarnings() const { return warnings; }

private:
  llvm::raw_ostream &out;
  unsigned errors = 0;
  unsigned warnings = 0;

  void print(mlir::Diagnostic &diagnostic);
};

} // namespace sluicec::support
