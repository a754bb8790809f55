#!/usr/bin/env python3
"""Checks that the README's commands are those that CI runs, that both READMEs state them, and that top-level names are as designed."""
import os
import re
import sys

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
ALLOWED = {"CMakeLists.txt", "README.md", "README.zh.md", "LICENSE", "compiler", "dialects", "runtime", "tools", "test", "examples", "demo", "check"}


def read(name):
    with open(os.path.join(TOP, name), encoding="utf-8") as f:
        return f.read()


def main():
    faults = []
    for name in os.listdir(TOP):
        if name not in ALLOWED and not name.startswith((".", "build")):
            faults.append(f"{name}: not a top-level name of design.md")
    if "/check\"" not in read(".ci/run"):
        faults.append(".ci/run does not call ./check")
    for script in ("demo", "check"):
        if not os.access(os.path.join(TOP, script), os.X_OK):
            faults.append(f"{script} is not executable")
        if ".ci/build" not in read(script):
            faults.append(f"{script} does not build through .ci/build")
        for readme in ("README.md", "README.zh.md"):
            if not re.search(rf"^\s+\./{script}\b", read(readme), re.M):
                faults.append(f"{readme} does not show ./{script} as a command")
    host = re.compile(r"(https?://)?[a-z0-9.-]*(pypi|pythonhosted|debian)\.(org|io)", re.I)
    for name in (".ci/setup", ".ci/build", ".ci/run", "demo", "check", "CMakeLists.txt"):
        if host.search(read(name)):
            faults.append(f"{name}: names a registry's host")
    print("\n".join(faults) or "readme: commands and names agree")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
