#!/usr/bin/env bash
# Decode the test faces with each model, exactly and approximately: $OUT/decoded/COLUMN_k.{out,log},
# then Table 2 of the paper, $OUT/table.{json,md}, and the pictures side by side, $OUT/pictures.png.
# KS="1 2 4 6 8 10", EPSILON=2, SHOWN=8 (pictures); PROFILE=smoke for minutes.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/superresolution/settings.sh
source "$REPO/scripts/superresolution/settings.sh"
# shellcheck source=scripts/lib/decode.sh
source "$LIB/decode.sh"
find_python
need fairseq-generate

DECODED=$OUT/decoded
SUBSET=test LENGTH_FLAGS=
# A picture has exactly $LENGTH pixels.
DECODE_FLAGS=(--max-len-a 0 --max-len-b "$LENGTH" --min-len "$LENGTH")
inputs=("$OUT/base/model.pt" "$BIN/test.low-high.low.bin")
for k in $KS; do
    [[ $k == 1 ]] || inputs+=("$OUT/heads/frozen_$k/model.pt" "$OUT/heads/tuned_$k/model.pt")
done
finished "$OUT/provenance.json" "${inputs[@]}" && exit
use_device
decode regular_1 "$OUT/base/model.pt" --strategy greedy
for k in $KS; do
    [[ $k == 1 ]] && continue
    frozen=$OUT/heads/frozen_$k/model.pt
    tuned=$OUT/heads/tuned_$k/model.pt
    decode "regular_$k" "$frozen" --strategy blockwise
    decode "approximate_$k" "$frozen" --strategy blockwise --accept-epsilon "$EPSILON"
    decode "fine_tuned_$k" "$tuned" --strategy blockwise
    decode "both_$k" "$tuned" --strategy blockwise --accept-epsilon "$EPSILON"
done
run "$PYTHON" "$REPO/scripts/superresolution/results.py" "$DECODED" --table "$OUT/table" \
    --pictures "$OUT/pictures.png" --shown "${SHOWN:-8}"
record "$OUT/provenance.json" "${inputs[@]}" -- "$DECODED" "$OUT/table.json" "$OUT/pictures.png"
