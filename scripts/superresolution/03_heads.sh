#!/usr/bin/env bash
# Put k heads on the base model, for each k: $OUT/heads/{frozen,tuned}_k/model.pt (section 6.1).
# HEAD_UPDATES=300, TUNED_UPDATES=800, TUNED_LR=3e-4, KS="1 2 4 6 8 10", FIRST_HEAD=learned;
# PROFILE=smoke for minutes. It resumes. The base is tuned from where its heads were left, gently: with
# heads that know nothing yet, at 1e-3, pictures lost 1 to 8 dB.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/superresolution/settings.sh
source "$REPO/scripts/superresolution/settings.sh"
find_python
need fairseq-train

use_device
for k in $KS; do
    [[ $k == 1 ]] && continue # the base model alone
    for way in frozen tuned; do
        dir=$OUT/heads/${way}_$k
        COMMANDS=()
        finished "$dir/provenance.json" "${CORPUS[@]}" "$OUT/base/model.pt" && continue
        updates=$HEAD_UPDATES rate=1e-3
        flags=(--block-size "$k" --first-head "$FIRST_HEAD" --init-from "$OUT/base/model.pt")
        case $way in
            frozen) flags+=(--freeze-base) ;;
            tuned)
                updates=$TUNED_UPDATES rate=${TUNED_LR:-3e-4}
                flags+=(--finetune-from-model "$OUT/heads/frozen_$k/model.pt")
                ;;
        esac
        log "k = $k, base $way"
        train_model "$BIN" "$dir" "$updates" "$rate" --arch blockwise_transformer "${flags[@]}" \
            --criterion blockwise_loss --label-smoothing 0
        record "$dir/provenance.json" "${CORPUS[@]}" "$OUT/base/model.pt" -- "$dir/model.pt"
    done
done
