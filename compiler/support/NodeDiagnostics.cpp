// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
// The diagnostic handler that names ONNX nodes.
#include "compiler/support/NodeDiagnostics.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace sluicec::support;

// A position in an ONNX file has as column the kind of thing that the line counts
// (onnx::LocationKind; this folder may not include dialects/onnx, and test/compiler/import proves
// the two equal).
static std::string describeNamed(llvm::StringRef name, FileLineColLoc position) {
  std::string text = position.getFilename().str() + ": ";
  switch (position.getColumn()) {
  case 0:
    return text + "node '" + name.str() + "' (#" + llvm::utostr(position.getLine()) + ")";
  case 1:
    return text + "tensor '" + name.str() + "'";
  case 2:
    return text + "input '" + name.str() + "'";
  case 3:
    return text + "output '" + name.str() + "'";
  default:
    return position.getFilename().str();
  }
}

std::string sluicec::support::describeLocation(Location location) {
  return llvm::TypeSwitch<LocationAttr, std::string>(location)
      .Case<NameLoc>([](NameLoc named) {
        auto position = dyn_cast<FileLineColLoc>(named.getChildLoc());
        if (position) {
          return describeNamed(named.getName().getValue(), position);
        }
        std::string child = describeLocation(named.getChildLoc());
        return child.empty() ? ("'" + named.getName().getValue() + "'").str() : child;
      })
      .Case<FileLineColLoc>([](FileLineColLoc position) {
        return position.getFilename().str() + ":" + llvm::utostr(position.getLine()) + ":" +
               llvm::utostr(position.getColumn());
      })
      .Case<FusedLoc>([](FusedLoc fused) {
        std::string first;
        for (Location part : fused.getLocations()) {
          std::string text = describeLocation(part);
          if (text.find('\'') != std::string::npos) {
            return text;
          }
          first = first.empty() ? text : first;
        }
        return first;
      })
      .Case<CallSiteLoc>([](CallSiteLoc call) {
        std::string callee = describeLocation(call.getCallee());
        return callee.empty() ? describeLocation(call.getCaller()) : callee;
      })
      .Case<OpaqueLoc>(
          [](OpaqueLoc opaque) { return describeLocation(opaque.getFallbackLocation()); })
      .Default([](LocationAttr) { return std::string(); });
}

// A name in the file may hold anything: control characters would break the line or speak to the
// terminal, and a long one would hide the message.
static std::string printable(llvm::StringRef text) {
  constexpr size_t kMaxLength = 2000;
  std::string result;
  for (char c : text.take_front(kMaxLength)) {
    auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte == 0x7f) {
      result += "\\x" + llvm::utohexstr(byte, true, 2);
    } else {
      result += c;
    }
  }
  return text.size() > kMaxLength ? result + "…" : result;
}

NodeDiagnostics::NodeDiagnostics(MLIRContext *context, llvm::raw_ostream &stream)
    : ScopedDiagnosticHandler(context), out(stream) {
  setHandler([this](Diagnostic &diagnostic) { print(diagnostic); });
}

void NodeDiagnostics::print(Diagnostic &diagnostic) {
  auto write = [&](Diagnostic &part, llvm::StringRef severity, llvm::StringRef indent) {
    std::string place = describeLocation(part.getLocation());
    out << indent << printable(place) << (place.empty() ? "" : ": ") << severity << ": "
        << printable(part.str()) << "\n";
  };
  switch (diagnostic.getSeverity()) {
  case DiagnosticSeverity::Error:
    ++errors;
    write(diagnostic, "error", "");
    break;
  case DiagnosticSeverity::Warning:
    ++warnings;
    write(diagnostic, "warning", "");
    break;
  default:
    write(diagnostic, "note", "");
  }
  for (Diagnostic &note : diagnostic.getNotes()) {
    write(note, "note", "  ");
  }
}
