#!/usr/bin/env bash
# Teach the big model's first decoder layers to predict (Kim et al. 2023, section 4.4):
# $OUT/early_exit/model.pt. EXIT_LAYER=1, EXIT_UPDATES=3000, VERIFIER_FLAGS (its shape). It resumes.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/bild/settings.sh
source "$REPO/scripts/bild/settings.sh"
find_python
need fairseq-train

dir=$OUT/early_exit
inputs=("$VERIFIER" "${CORPUS[@]}")
finished "$dir/provenance.json" "${inputs[@]}" && exit
use_device
read -rd '' -a shape <<< "$VERIFIER_FLAGS" || true
train_model "$BIN" "$dir" "$EXIT_UPDATES" 5e-4 --arch early_exit_transformer "${shape[@]}" \
    --exit-layer "${EXIT_LAYER:-1}" --criterion early_exit_loss --finetune-from-model "$VERIFIER"
record "$dir/provenance.json" "${inputs[@]}" -- "$dir/model.pt"
