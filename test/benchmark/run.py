#!/usr/bin/env python3
"""Prints prefill and decode tokens/s of Sluice beside llama.cpp on equal weights in the same run, and the share of the read bandwidth.

  run.py [--model NAME=ONNX_FOLDER[,GGUF] ...] [--llama-bench PATH] [--weights bf16] [--runs 5] [--out FILE.jsonl]

Without --model it measures the example model. Each model is compiled first. The machine, the commit and every figure go to
--out as JSON lines. The peers' scripts tell how to make smol-moe and llama-bench.
"""
import argparse
import json
import os
import platform
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUILD = os.path.join(TOP, "build")


def sh(*command):
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def machine():
    cpu = next((l.split(":")[1].strip() for l in open("/proc/cpuinfo", encoding="utf-8") if l.startswith("model name")), platform.machine())
    return {"cpu": cpu, "cores": os.cpu_count(), "commit": sh("git", "-C", TOP, "rev-parse", "--short", "HEAD").strip()}


def sluice(folder, weights, runs, golden):
    with tempfile.TemporaryDirectory() as work:
        package = os.path.join(work, "model.sluice")
        subprocess.run([os.path.join(BUILD, "bin", "sluicec"), folder, "-o", package, f"--weights={weights}"], check=True)
        return json.loads(sh(os.path.join(BUILD, "test", "step_benchmark"), package, golden, str(runs)))


def llama(bench, gguf, runs):
    """512 prompt tokens; 64 tokens after 128, as step_benchmark does."""
    out = {}
    threads = str(os.cpu_count())
    for name, args in (("prefill_512", ["-p", "512", "-n", "0"]), ("decode_128", ["-p", "0", "-n", "64", "-d", "128"])):
        rows = json.loads(sh(bench, "-m", gguf, "-t", threads, "-r", str(runs), "-o", "json", *args))
        samples = sorted(rows[-1]["samples_ts"])
        out[name] = {"median": samples[len(samples) // 2], "min": samples[0], "max": samples[-1]}
    return out


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--model", action="append", default=[])
    ap.add_argument("--llama-bench")
    ap.add_argument("--weights", default="bf16")
    ap.add_argument("--runs", type=int, default=5)
    ap.add_argument("--out")
    a = ap.parse_args()
    example = os.path.join(TOP, "examples", "models", "wordmoe")
    lines = []
    for spec in a.model or [f"wordmoe={example}"]:
        name, paths = spec.split("=", 1)
        folder, _, gguf = paths.partition(",")
        golden = os.path.join(folder, "golden.safetensors")
        ours = sluice(folder, a.weights, a.runs, golden if os.path.exists(golden) else "")
        line = {"model": name, "weights": a.weights, **machine(), "sluice": ours}
        if a.llama_bench and gguf:
            line["llama.cpp"] = llama(a.llama_bench, gguf, a.runs)
        lines.append(line)
        for what in ("prefill_512", "decode_128"):
            mine = ours[what]
            text = f"{name} {a.weights} {what}: {mine['median']:.1f} tokens/s ({mine['min']:.1f} to {mine['max']:.1f})"
            if "llama.cpp" in line:
                peer = line["llama.cpp"][what]["median"]
                text += f", llama.cpp {peer:.1f}, ratio {mine['median'] / peer:.2f}"
            if what == "decode_128":
                text += f", {100 * ours['decode_bandwidth_share']:.0f} % of {ours['read_gbps']:.1f} GB/s read bandwidth"
            print(text, flush=True)
    if a.out:
        with open(a.out, "a", encoding="utf-8") as f:
            f.writelines(json.dumps(line) + "\n" for line in lines)


if __name__ == "__main__":
    sys.exit(main())
