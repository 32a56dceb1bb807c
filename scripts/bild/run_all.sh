#!/usr/bin/env bash
# Big Little Decoder beside a trained verifier: small model, prediction alignment, early exit, decoding.
# Stop it at any time; the same command resumes. PROFILE=smoke takes minutes. STEPS runs some steps only.
set -euo pipefail

folder=$(cd "$(dirname "$0")" && pwd)
steps=${STEPS:-01_small 02_calibrate 03_align 04_early_exit 05_decode}
for step in $steps; do
    [[ -f $folder/$step.sh ]] || {
        printf 'run_all: STEPS: %s is no step of %s\n' "$step" "$folder" >&2
        exit 1
    }
done
for step in $steps; do
    printf '== %s\n' "$step" >&2
    bash "$folder/$step.sh"
done
