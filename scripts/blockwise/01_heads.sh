#!/usr/bin/env bash
# Put k heads on a trained verifier (Stern et al. 2018, section 6), which stays as it is (frozen) or is
# tuned with them, on the original corpus or the distilled one: $OUT/CORPUS/WAY_K/model.pt.
# MODELS="original/frozen_4 distilled/tuned_8" (default: see models.sh), HEAD_UPDATES=1500, TOKENS=4096,
# FROZEN_LR=1e-3, TUNED_LR=1e-4; PROFILE=smoke for minutes. It resumes. A tuned model starts from the
# frozen one of the same corpus and K where MODELS names it first: heads that know nothing yet would
# spoil the base (at 5e-4 the demo verifier fell from 37 to 10 BLEU in 300 updates).
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/blockwise/settings.sh
source "$REPO/scripts/blockwise/settings.sh"
find_python
need fairseq-train

use_device
for model in $MODELS; do
    describe "$model"
    dir=$OUT/$model
    case $CORPUS_NAME in original) corpus=$BIN ;; distilled) corpus=$DISTILLED ;; esac
    inputs=("$VERIFIER" "$corpus/dict.$SRC.txt" "$corpus/train.$SRC-$TGT.$SRC.bin"
        "$corpus/train.$SRC-$TGT.$TGT.bin")
    COMMANDS=()
    start=$OUT/$CORPUS_NAME/frozen_$K/model.pt
    if [[ $WAY == tuned && -e $start ]]; then inputs+=("$start"); fi
    finished "$dir/provenance.json" "${inputs[@]}" && continue
    case $WAY in
        frozen) rate=${FROZEN_LR:-1e-3} base=(--freeze-base) ;;
        tuned) rate=${TUNED_LR:-1e-4} base=() ;;
    esac
    if [[ $WAY == tuned && -e $start ]]; then base=(--finetune-from-model "$start"); fi
    log "$model"
    train_model "$corpus" "$dir" "$HEAD_UPDATES" "$rate" --arch blockwise_transformer \
        --init-from "$VERIFIER" --block-size "$K" --first-head identity ${base[@]+"${base[@]}"} \
        --criterion blockwise_loss --label-smoothing 0
    if [[ $WAY == frozen ]]; then
        # Training in half precision rounds the base too: put it back, so that the output stays.
        run "$PYTHON" "$LIB/average_checkpoints.py" "$dir/model.pt" --frozen "$VERIFIER" \
            --output "$dir/model.pt"
    fi
    record "$dir/provenance.json" "${inputs[@]}" -- "$dir/model.pt"
done
