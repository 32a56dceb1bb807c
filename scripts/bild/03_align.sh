#!/usr/bin/env bash
# Fine-tune the small model on the calibration set (Kim et al. 2023, section 3.5.1), so that it
# predicts what the big model would: $OUT/aligned/model.pt. ALIGN_UPDATES=6000. It resumes.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/bild/settings.sh
source "$REPO/scripts/bild/settings.sh"
find_python
need fairseq-train

dir=$OUT/aligned
set_of=$OUT/calibration
inputs=("$OUT/small/model.pt" "$set_of/train.$SRC-$TGT.$SRC.bin" "$set_of/train.$SRC-$TGT.$TGT.bin")
finished "$dir/provenance.json" "${inputs[@]}" && exit
use_device
read -rd '' -a shape <<< "$SMALL_FLAGS" || true
train_model "$set_of" "$dir" "$ALIGN_UPDATES" 1e-3 --arch transformer "${shape[@]}" \
    --criterion cross_entropy --finetune-from-model "$OUT/small/model.pt"
record "$dir/provenance.json" "${inputs[@]}" -- "$dir/model.pt"
