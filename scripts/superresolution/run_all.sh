#!/usr/bin/env bash
# Image super-resolution with blockwise decoding: pictures, base model, heads, table and picture.
# Stop it at any time; the same command resumes. PROFILE=smoke takes minutes. STEPS runs some steps only.
set -euo pipefail

folder=$(cd "$(dirname "$0")" && pwd)
steps=${STEPS:-01_images 02_base 03_heads 04_decode}
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
