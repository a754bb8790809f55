#!/usr/bin/env python3
"""Checks that no one has to hold too much at once (style.md 5, test 4) and what each file must open with."""
import os
import re
import statistics
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
FOLDERS = ("compiler", "dialects", "runtime", "tools", "test", "examples")
FORBIDDEN_STEMS = re.compile(r"(Utils|Helper|Common|Misc|Manager)")
MODEL_NAMES = re.compile(r"mixtral|qwen|olmoe|gptoss|gpt_oss|deepseek|granite|phimoe|wordmoe", re.I)
MACHINE_PATH = re.compile(r"(^|[^A-Za-z0-9_.])/(work|farm|root|home)/[A-Za-z]")


def functions(lines):
    """(name line, length) of each top-level brace block that opens a function, by a plain brace count at file level."""
    depth = 0
    start = None
    for number, line in enumerate(lines):
        code = re.sub(r'"(\\.|[^"\\])*"|\'(\\.|[^\'\\])*\'|//.*', "", line)
        opens, closes = code.count("{"), code.count("}")
        is_scope = re.match(r"\s*(namespace|class|struct|enum|union|extern|template|using)\b", code)
        if start is None and opens > closes and not is_scope and "(" in "".join(lines[max(0, number - 4): number + 1]):
            start, level = number, depth
        depth += opens - closes
        if start is not None and depth <= level:
            yield start, number - start + 1
            start = None


def check(path, faults, lengths):
    with open(os.path.join(TOP, path), encoding="utf-8") as f:
        text = f.read()
    lines = text.split("\n")
    if path.endswith((".cpp", ".h", ".td", ".py", ".c")):
        lengths.append(len(lines))
        if len(lines) >= 1000:
            faults.append(f"{path}: {len(lines)} lines; split it by what it is about (limit 999)")
    if path.startswith("tools/") and path.endswith(".cpp") and len(lines) > 150:
        faults.append(f"{path}: {len(lines)} lines; tools are thin (limit 150)")
    if path.endswith((".cpp", ".h", ".td")) and "SPDX-License-Identifier" not in lines[0]:
        faults.append(f"{path}: does not open with its SPDX line")
    if path.endswith((".cpp", ".h")):
        for start, length in functions(lines):
            if length > 100:
                faults.append(f"{path}:{start + 1}: a function of {length} lines (limit 100)")
        stem = os.path.splitext(os.path.basename(path))[0]
        if FORBIDDEN_STEMS.search(stem):
            faults.append(f"{path}: a name that says nothing; say what it holds")
        if re.search(r"\b(TODO|FIXME|XXX)\b(?!\(#\d+\))", text):
            faults.append(f"{path}: a TODO without an issue number")
        own = len(re.findall(r'#\s*include', text))
        if path.endswith(".h") and not path.endswith(".pch.h") and own > 15:
            faults.append(f"{path}: {own} includes in a header (limit 15)")
    if path.startswith(("compiler/", "dialects/", "runtime/")) and path.endswith((".cpp", ".h", ".td")):
        for number, line in enumerate(lines):
            if MODEL_NAMES.search(line) and not line.lstrip().startswith(("//", "#")):
                faults.append(f"{path}:{number + 1}: a model's name; structure decides, never a name")
    for number, line in enumerate(lines):
        if MACHINE_PATH.search(line):
            faults.append(f"{path}:{number + 1}: a path of a developer's machine")


def main():
    faults, lengths = [], []
    for folder in FOLDERS:
        for base, _, names in os.walk(os.path.join(TOP, folder)):
            if "models" in base.split(os.sep) or "__pycache__" in base:
                continue
            for name in names:
                if name.endswith((".cpp", ".h", ".td", ".py", ".c", ".mlir", ".txt", ".cmake", ".fbs")):
                    check(os.path.relpath(os.path.join(base, name), TOP), faults, lengths)
    for name in ("demo", "check", ".ci/run", ".ci/setup", ".ci/build", "README.md", "README.zh.md", "CMakeLists.txt"):
        if os.path.exists(os.path.join(TOP, name)):
            check(name, faults, lengths)
    if lengths and statistics.median(lengths) >= 250:
        faults.append(f"the median file has {statistics.median(lengths)} lines (limit 249)")
    print("\n".join(faults) or f"sizes: {len(lengths)} files, median {statistics.median(lengths):.0f} lines, longest {max(lengths)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
