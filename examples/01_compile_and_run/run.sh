#!/usr/bin/env bash
# Compiles a model folder and answers one prompt: run.sh MODEL_FOLDER PROMPT. Needs build/ (./check or ./demo make it).
set -euo pipefail
bin=$(cd "$(dirname "$0")/../../build/bin" && pwd)
package=$(mktemp --suffix=.sluice)
trap 'rm -f "$package"' EXIT
"$bin/sluicec" "$1" -o "$package" --weights=bf16
"$bin/sluice" run "$package" -p "$2" --temperature 0
