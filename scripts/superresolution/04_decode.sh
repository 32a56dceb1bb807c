#!/usr/bin/env bash
# Decode the test faces with each model, exactly and approximately: $OUT/decoded/COLUMN_k.{out,log},
# then Table 2 of the paper, $OUT/table.{json,md}, and the pictures side by side, $OUT/pictures.png.
# KS="1 2 4 6 8 10", EPSILON=2, SHOWN=8 (pictures); PROFILE=smoke for minutes.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/superresolution/settings.sh
source "$REPO/scripts/superresolution/settings.sh"
find_python
need fairseq-generate

dir=$OUT/decoded
inputs=("$OUT/base/model.pt" "$BIN/test.low-high.low.bin")
for k in $KS; do
    [[ $k == 1 ]] || inputs+=("$OUT/heads/frozen_$k/model.pt" "$OUT/heads/tuned_$k/model.pt")
done
finished "$OUT/provenance.json" "${inputs[@]}" && exit
use_device
mkdir -p "$dir"
device=()
case ${DEVICE_FLAGS[0]} in --cpu) device+=(--cpu) ;; esac

# decode COLUMN K MODEL FLAG...: a picture has exactly $LENGTH pixels.
decode() {
    local name=$1_$2 model=$3
    shift 3
    run fairseq-generate "$BIN" --user-dir "$REPO/fairseq_specdec" --gen-subset test \
        -s low -t high --path "$model" --task translation_specdec "$@" \
        ${device[@]+"${device[@]}"} --batch-size 1 --beam 1 \
        --max-len-a 0 --max-len-b "$LENGTH" --min-len "$LENGTH" \
        --no-progress-bar --num-workers 0 \
        > "$dir/$name.out" 2> "$dir/$name.log" || fail "fairseq-generate failed: see $dir/$name.log"
    log "$name: $(grep -o 'strategy .*' "$dir/$name.log" | tail -n 1)"
}

decode regular 1 "$OUT/base/model.pt" --strategy greedy
for k in $KS; do
    [[ $k == 1 ]] && continue
    frozen=$OUT/heads/frozen_$k/model.pt
    tuned=$OUT/heads/tuned_$k/model.pt
    decode regular "$k" "$frozen" --strategy blockwise
    decode approximate "$k" "$frozen" --strategy blockwise --accept-epsilon "$EPSILON"
    decode fine_tuned "$k" "$tuned" --strategy blockwise
    decode both "$k" "$tuned" --strategy blockwise --accept-epsilon "$EPSILON"
done
run "$PYTHON" "$REPO/scripts/superresolution/results.py" "$dir" --table "$OUT/table" \
    --pictures "$OUT/pictures.png" --shown "${SHOWN:-8}"
record "$OUT/provenance.json" "${inputs[@]}" -- "$dir" "$OUT/table.json" "$OUT/pictures.png"
