#!/usr/bin/env python3
"""runtime_alone.py SOURCE BUILD: the runtime configures, builds and passes its tests with g++ and without any LLVM or MLIR to be found."""
import os
import subprocess
import sys


def main():
    source, build = sys.argv[1:3]
    run = lambda *command: subprocess.run(command, check=True)
    run("cmake", "-S", source, "-B", build, "-G", "Ninja", "-DSLUICE_BUILD_COMPILER=OFF", "-DCMAKE_C_COMPILER=gcc", "-DCMAKE_CXX_COMPILER=g++",
        "-DCMAKE_DISABLE_FIND_PACKAGE_LLVM=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_MLIR=ON", "-DCMAKE_DISABLE_FIND_PACKAGE_Protobuf=ON")
    run("ninja", "-C", build, "--quiet")
    with open(os.path.join(build, "build.ninja"), encoding="utf-8") as f:
        assert "llvm-22/include" not in f.read(), "the runtime's build looks into LLVM's headers"
    run("ctest", "--test-dir", build, "--output-on-failure")
    return 0


if __name__ == "__main__":
    sys.exit(main())
