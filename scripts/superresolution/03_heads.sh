#!/usr/bin/env bash
# Put k heads on the base model, for each k: $OUT/heads/{frozen,tuned}_k/model.pt (section 6.1).
# HEAD_UPDATES=300, KS="1 2 4 6 8 10", FIRST_HEAD=learned; PROFILE=smoke for minutes. It resumes.
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
        flags=(--block-size "$k" --first-head "$FIRST_HEAD" --init-from "$OUT/base/model.pt")
        if [[ $way == frozen ]]; then flags+=(--freeze-base); fi
        log "k = $k, base $way"
        train_model "$BIN" "$dir" "$HEAD_UPDATES" 1e-3 --arch blockwise_transformer "${flags[@]}" \
            --criterion blockwise_loss --label-smoothing 0
        record "$dir/provenance.json" "${CORPUS[@]}" "$OUT/base/model.pt" -- "$dir/model.pt"
    done
done
