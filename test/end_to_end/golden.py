#!/usr/bin/env python3
"""golden.py SLUICE NAME PACKAGES alone|batch [eval arguments]: sluice eval --golden must pass, and its JSON must say what it ran."""
import json
import subprocess
import sys

import models


def main():
    sluice, name, packages, mode = sys.argv[1:5]
    command = [sluice, "eval", models.package(packages, name), "--golden", models.golden_file(name), "--json"]
    command += ["--batch"] * (mode == "batch") + sys.argv[5:]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout, done.stderr)
    if done.returncode != 0:
        return 1
    out = json.loads(done.stdout)
    assert out["pass"] is True and len(out["prompts"]) >= 4, "eval passed without prompts"
    for prompt in out["prompts"]:
        assert prompt["rows"] >= prompt["greedy_total"] > 0, "no rows were compared"
        if not sys.argv[5:]:  # f32: routing is never a tie within rounding, so every set of experts is the golden one
            assert prompt["experts_matched"] == prompt["experts_total"], "another set of experts"
    return 0


if __name__ == "__main__":
    sys.exit(main())
