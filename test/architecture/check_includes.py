#!/usr/bin/env python3
"""Checks who includes whom (design.md 1): the order of the rooms, MLIR only where it may be, at most two slashes."""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

# folder -> folders of the project that it may include, beside itself
COMPILER = {
    "compiler/support": ["dialects"],
    "compiler/import": ["dialects", "compiler/support"],
    "compiler/raise": ["dialects", "compiler/support"],
    "compiler/optimize": ["dialects", "compiler/support"],
    "compiler/lower": ["dialects", "compiler/support"],
    "compiler/codegen": ["dialects", "compiler/support", "runtime/device/KernelAbi.h"],
    "compiler/package": ["dialects", "compiler/support", "runtime/package"],
    "compiler/reference": ["dialects", "compiler/support"],
    "compiler/pipeline": ["dialects", "compiler"],
}
RUNTIME_ORDER = ["base", "package", "device", "program", "tokenizer", "sampling", "engine", "server"]
OUTSIDE = re.compile(r'#\s*include\s*[<"]((?:mlir|llvm|lld|clang|onnx|google/protobuf)/[^">]+)[">]')
OWN = re.compile(r'#\s*include\s*"((?:compiler|dialects|runtime|tools|test|examples)/[^"]+)"')


def allowed(path):
    """Prefixes of includes that the file at `path` may use, or None where all are."""
    if path.startswith("dialects/"):
        return ["dialects"]
    for folder, more in COMPILER.items():
        if path.startswith(folder + "/"):
            return [folder] + more
    if path.startswith("runtime/"):
        parts = path.split("/")
        if parts[1] in RUNTIME_ORDER:
            return ["runtime/" + r for r in RUNTIME_ORDER[: RUNTIME_ORDER.index(parts[1]) + 1]] + ["runtime/sluice.h"]
        return ["runtime"]
    if path.startswith("tools/"):
        return ["tools", "compiler", "runtime"]
    return None


def sources():
    for folder in ("compiler", "dialects", "runtime", "tools", "test", "examples"):
        for base, _, names in os.walk(os.path.join(TOP, folder)):
            for name in names:
                if name.endswith((".h", ".cpp", ".c", ".td")):
                    yield os.path.relpath(os.path.join(base, name), TOP)


def main():
    faults = []
    for path in sources():
        with open(os.path.join(TOP, path), encoding="utf-8") as f:
            text = f.read()
        may = allowed(path)
        for include in OWN.findall(text):
            if include.count("/") > 2 and not include.startswith("compiler/codegen/"):
                faults.append(f"{path}: include \"{include}\" has more than two slashes")
            if may is not None and not any(include == m or include.startswith(m + "/") for m in may):
                faults.append(f"{path}: includes \"{include}\"; allowed are {', '.join(may)}")
        if path.startswith("runtime/"):
            for include in OUTSIDE.findall(text):
                faults.append(f"{path}: the runtime includes <{include}>")
        if path.startswith("compiler/") and not path.startswith("compiler/import/"):
            for include in OUTSIDE.findall(text):
                if include.startswith(("onnx/", "google/protobuf/")):
                    faults.append(f"{path}: includes <{include}>; the ONNX schema stays in compiler/import")
    print("\n".join(faults) or "includes: in order")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
