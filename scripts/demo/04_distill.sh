#!/usr/bin/env bash
# Let the verifier rewrite the training targets (sequence-level distillation): $WORK/bin/ende_distilled.
# LIMIT=0 (all; or the size of a random subset), BEAM=1 (greedy, what the drafter must predict; the papers: 5),
# TOKENS=8192 (a batch), DISTILL_FLAGS (more flags of specdec-distill). Stop it at any time; it resumes.
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
flags=(--max-tokens "${TOKENS:-8192}" --max-len-a 1.5 --max-len-b 20 --seed "$SEED")
if [[ ${BEAM:-1} == 1 ]]; then
    flags+=(--task translation_specdec --strategy greedy --beam 1)
else
    flags+=(--beam "$BEAM")
fi
if [[ ${LIMIT:=0} != 0 ]]; then flags+=(--limit "$LIMIT"); fi
read -ra more <<< "${DISTILL_FLAGS:-}"
flags+=("${more[@]}")
case ${DEVICE_FLAGS[0]} in
    --cpu) flags+=(--cpu) ;; # fp32: the targets are then those that the verifier decodes
    *) flags+=("${DEVICE_FLAGS[@]}") ;;
esac
run specdec-distill "$bin" --user-dir "$REPO/fairseq_specdec" --path "$verifier" --dest "$out" \
    -s en -t de --skip-invalid-size-inputs-valid-test "${flags[@]}" >> "$out.log" 2>&1 ||
    fail "specdec-distill failed: see $out.log"
record "$record" "${inputs[@]}" -- "$out"
