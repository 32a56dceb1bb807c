#!/usr/bin/env bash
# Train the small model of Big Little Decoder on the corpus of the big one: $OUT/small/model.pt.
# SMALL_UPDATES=12000, SMALL_FLAGS (its shape), TOKENS=4096; PROFILE=smoke for minutes. It resumes.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/bild/settings.sh
source "$REPO/scripts/bild/settings.sh"
find_python
need fairseq-train

dir=$OUT/small
finished "$dir/provenance.json" "${CORPUS[@]}" && exit
use_device
read -rd '' -a shape <<< "$SMALL_FLAGS" || true
train_model "$BIN" "$dir" "$SMALL_UPDATES" 2e-3 --arch transformer "${shape[@]}" \
    --criterion cross_entropy
record "$dir/provenance.json" "${CORPUS[@]}" -- "$dir/model.pt"
