#!/usr/bin/env bash
# Put blockwise heads on the verifier, which stays as it is: scripts/blockwise/01_heads.sh, whose settings
# hold (HEAD_UPDATES, TOKENS). It resumes.
set -euo pipefail
# shellcheck source=scripts/ende_small/settings.sh
source "$(dirname "$0")/settings.sh"
check_models
folder=$OUT/models/blockwise
while IFS='|' read -r name step _ corpus _ <&3; do
    if [[ $step != heads ]] || ! chosen "$name"; then continue; fi
    [[ $name =~ ^heads_([0-9]+) ]]
    case $corpus in raw) model=original ;; *) model=distilled ;; esac
    model+=/frozen_${BASH_REMATCH[1]}
    log "$name: $model"
    BIN=$BIN DISTILLED=$DISTILLED VERIFIER=$(model_path verifier) OUT=$folder MODELS=$model \
        PROFILE=$PROFILE SRC=$SRC TGT=$TGT bash "$REPO/scripts/blockwise/01_heads.sh"
    mkdir -p "$OUT/models/$name"
    ln -sfn "$folder/$model/model.pt" "$(model_path "$name")"
done 3< <(rows models.tsv)
