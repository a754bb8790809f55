#!/usr/bin/env python3
"""pull_a_brick.py BIN PACKAGES: each optional pass off alone and all off, and IR stopped behind each stage and fed back: the numbers stay right."""
import os
import subprocess
import sys
import tempfile

import models

NAME = "mixtral-torch-kv"
PASSES = ["share-kv-heads", "sparsify-attention", "fuse-experts", "fuse-epilogues", "fuse-norms"]


def main():
    folder, binaries = models.model_folder(NAME), sys.argv[1]

    def run(tool, *args):
        done = subprocess.run([os.path.join(binaries, tool), *args], capture_output=True, text=True, check=False)
        assert done.returncode == 0, (tool, args, done.returncode, done.stdout, done.stderr)
        return done.stdout

    with tempfile.TemporaryDirectory() as work:
        package = os.path.join(work, "a.sluice")
        for off in [[p] for p in PASSES] + [PASSES]:
            run("sluicec", folder, "-o", package, *[f"--disable-pass={p}" for p in off])
            run("sluice", "eval", package, "--golden", models.golden_file(NAME))
            print("without", ", ".join(off), "within tolerance")
        for stage in ("import", "raise", "optimize", "lower"):
            text = os.path.join(work, stage + ".mlir")
            run("sluicec", folder, f"--stop-after={stage}", "-o", text)
            run("sluicec", text, "--weights-from", folder, "-o", package)
            run("sluice", "eval", package, "--golden", models.golden_file(NAME))
            print("stopped behind", stage, "and fed back: within tolerance")
    return 0


if __name__ == "__main__":
    sys.exit(main())
