#!/usr/bin/env python3
"""compile.py SLUICEC NAME PACKAGES: compiles a model into PACKAGES/NAME.sluice; a warning of the compiler is no failure."""
import os
import subprocess
import sys

import models


def main():
    sluicec, name, packages = sys.argv[1:4]
    os.makedirs(packages, exist_ok=True)
    command = [sluicec, models.model_folder(name), "-o", models.package(packages, name)]
    return subprocess.run(command, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
