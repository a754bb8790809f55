# How lit runs test/**/*.mlir: sluice-opt and FileCheck on IR text. site values come from lit.site.cfg.py.in.
import os

import lit.formats

config.name = "sluice"
config.test_format = lit.formats.ShTest(execute_external=False)
config.suffixes = [".mlir", ".test"]
config.excludes = ["inputs", "data"]
config.test_source_root = os.path.dirname(__file__)
config.test_exec_root = os.path.join(config.sluice_build, "test", "lit")
config.environment["PATH"] = os.pathsep.join([config.sluice_bin, config.llvm_bin, os.environ["PATH"]])
config.environment["FILECHECK_OPTS"] = "--enable-var-scope"
for name in ("SLUICE_FIXTURES", "ASAN_OPTIONS"):
    if name in os.environ:
        config.environment[name] = os.environ[name]
config.substitutions.append(("%models", os.path.join(config.sluice_source, "examples", "models")))
