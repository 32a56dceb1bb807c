#!/usr/bin/env bash
# Let the verifier rewrite the training targets (sequence-level distillation): $WORK/bin/ende_distilled.
# BEAM=5, TOKENS=4096 (a batch), LIMIT=N for a random subset. Stop it at any time; it resumes.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
find_python
need specdec-distill

bin=$WORK/bin/ende
verifier=$WORK/verifier/verifier.pt
out=$WORK/bin/ende_distilled
record=$WORK/bin/ende_distilled.provenance.json
inputs=("$verifier" "$bin/dict.en.txt" "$bin/train.en-de.en.bin")
finished "$record" "${inputs[@]}" && exit
use_device
flags=(--beam "${BEAM:-5}" --max-tokens "${TOKENS:-4096}" --seed "$SEED")
if [[ -n ${LIMIT:-} ]]; then flags+=(--limit "$LIMIT"); fi
case ${DEVICE_FLAGS[0]} in
    --cpu) flags+=(--cpu) ;; # fp32: the targets are then those that the verifier decodes
    *) flags+=("${DEVICE_FLAGS[@]}") ;;
esac
run specdec-distill "$bin" --user-dir "$REPO/fairseq_specdec" --path "$verifier" --dest "$out" \
    -s en -t de --skip-invalid-size-inputs-valid-test "${flags[@]}" >> "$out.log" 2>&1 ||
    fail "specdec-distill failed: see $out.log"
record "$record" "${inputs[@]}" -- "$out"
