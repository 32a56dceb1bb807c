#!/usr/bin/env bash
# Train the base model, pixel after pixel: $OUT/base/model.pt.
# BASE_UPDATES=5000, WIDTH=64, LAYERS=2, TOKENS=4000; PROFILE=smoke for minutes. It resumes.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/superresolution/settings.sh
source "$REPO/scripts/superresolution/settings.sh"
find_python
need fairseq-train

dir=$OUT/base
finished "$dir/provenance.json" "${CORPUS[@]}" && exit
use_device
shape=()
for side in encoder decoder; do
    shape+=("--$side-layers" "$LAYERS" "--$side-embed-dim" "$WIDTH"
        "--$side-ffn-embed-dim" "$((2 * WIDTH))" "--$side-attention-heads" 4
        "--$side-normalize-before")
done
train_model "$BIN" "$dir" "$BASE_UPDATES" 1e-3 --arch transformer "${shape[@]}" \
    --share-all-embeddings --max-source-positions "$((LENGTH + 2))" \
    --max-target-positions "$((LENGTH + 2))" --criterion cross_entropy
record "$dir/provenance.json" "${CORPUS[@]}" -- "$dir/model.pt"
