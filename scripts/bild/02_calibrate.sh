#!/usr/bin/env bash
# Let the big model translate the training sources greedily, which makes the calibration set of
# prediction alignment (Kim et al. 2023, section 3.5.1): $OUT/calibration.
# LIMIT=0 (all; else a random subset), DISTILL_TOKENS=8192 (a batch), DISTILL_FLAGS. It resumes.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/bild/settings.sh
source "$REPO/scripts/bild/settings.sh"
find_python
need specdec-distill

out=$OUT/calibration
record=$OUT/calibration.provenance.json
inputs=("$VERIFIER" "${CORPUS[@]}")
finished "$record" "${inputs[@]}" && exit
use_device
flags=()
[[ $LIMIT == 0 ]] || flags+=(--limit "$LIMIT")
case ${DEVICE_FLAGS[0]} in
    --cpu) flags+=(--cpu) ;; # fp32: the targets are then those that the big model decodes
    *) flags+=("${DEVICE_FLAGS[@]}") ;;
esac
read -ra more <<< "${DISTILL_FLAGS:-}"
run specdec-distill "$BIN" --user-dir "$REPO/fairseq_specdec" --path "$VERIFIER" --dest "$out" \
    -s "$SRC" -t "$TGT" --task translation_specdec --strategy greedy --beam 1 --seed "$SEED" \
    --max-tokens "${DISTILL_TOKENS:-8192}" --max-len-a 1.5 --max-len-b 20 \
    --skip-invalid-size-inputs-valid-test "${flags[@]}" ${more[@]+"${more[@]}"} \
    >> "$out.log" 2>&1 || fail "specdec-distill failed: see $out.log"
record "$record" "${inputs[@]}" -- "$out"
