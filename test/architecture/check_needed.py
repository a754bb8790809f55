#!/usr/bin/env python3
"""Checks the runtime binary: under 10 MB stripped, and no LLVM, MLIR, ONNX or protobuf library among its NEEDED entries."""
import os
import re
import subprocess
import sys
import tempfile


def main():
    binary = sys.argv[1]
    out = subprocess.run(["readelf", "-d", binary], capture_output=True, text=True, check=True).stdout
    needed = re.findall(r"NEEDED.*\[(.*)\]", out)
    faults = [f"{binary} needs {n}" for n in needed if re.search(r"llvm|mlir|onnx|protobuf|lld", n, re.I)]
    if not needed:
        faults.append(f"{binary}: no NEEDED entries found; is it the right file?")
    with tempfile.TemporaryDirectory() as folder:
        stripped = os.path.join(folder, "sluice")
        subprocess.run(["strip", "-o", stripped, binary], check=True)
        size = os.path.getsize(stripped)
    if size >= 10_000_000:
        faults.append(f"{binary}: {size} bytes stripped (limit 10 MB)")
    print("\n".join(faults) or f"sluice: {size / 1e6:.2f} MB stripped, needs {', '.join(needed)}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
