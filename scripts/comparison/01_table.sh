#!/usr/bin/env bash
# Measure every strategy on one verifier, in turns, batch size 1: $OUT/comparison.{json,md}.
# SUBSET=test, SENTENCES=0 (all; or about so many), MODELS (of scripts/blockwise), DRAFTER (empty: no
# gad, no gad++), GAD_FLAGS="--draft-confidence 0.05" (more flags of both), TOP_BETA=3, TAU=1.0,
# ALPHA_FB=0.6, ALPHA_RB=2.0, EXIT_ALPHA_FB=0.5, EXIT_ALPHA_RB=1.0, SPS_BLOCK=4, LENGTH_FLAGS (as
# --max-len-b 60), BENCH_FLAGS (more flags of specdec-bench).
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/comparison/settings.sh
source "$REPO/scripts/comparison/settings.sh"
find_python
need specdec-bench

: "${SUBSET:=test}"
inputs=("$VERIFIER" "$BILD/small/model.pt" "$BILD/aligned/model.pt" "$BILD/early_exit/model.pt"
    "$BIN/$SUBSET.$SRC-$TGT.$SRC.bin" "$BIN/$SUBSET.$SRC-$TGT.$TGT.bin")
for model in $MODELS; do inputs+=("$BLOCKWISE/$model/model.pt"); done
if [[ -n $DRAFTER ]]; then inputs+=("$DRAFTER"); fi
finished "$OUT/provenance.json" "${inputs[@]}" && exit
use_device

systems=()

# system NAME FLAG...: a row of the table.
system() {
    local name=$1
    shift
    systems+=(--system "$name:$(printf ' %q' "$@")")
}

system greedy --strategy greedy
for model in $MODELS; do
    describe "$model"
    name="blockwise k=$K $WAY"
    if [[ $CORPUS_NAME == distilled ]]; then name+=" distilled"; fi
    system "$name" --strategy blockwise --path "$BLOCKWISE/$model/model.pt"
done
thresholds=(--alpha-fb "${ALPHA_FB:-0.6}" --alpha-rb "${ALPHA_RB:-2.0}")
for small in small aligned; do
    case $small in small) name="bild unaligned" ;; *) name="bild aligned" ;; esac
    system "$name" --strategy bild --drafter-path "$BILD/$small/model.pt" "${thresholds[@]}"
done
system bild-early-exit --strategy bild-early-exit --path "$BILD/early_exit/model.pt" \
    --alpha-fb "${EXIT_ALPHA_FB:-0.5}" --alpha-rb "${EXIT_ALPHA_RB:-1.0}"
system sps --strategy sps --drafter-path "$BILD/aligned/model.pt" --block-size "${SPS_BLOCK:-4}"
if [[ -n $DRAFTER ]]; then
    read -ra gad <<< "$GAD_FLAGS"
    gad+=(--drafter-path "$DRAFTER")
    system gad --strategy gad "${gad[@]}"
    system gad++ --strategy gad++ --top-beta "${TOP_BETA:-3}" --tau "${TAU:-1.0}" "${gad[@]}"
fi

flags=()
if [[ $SENTENCES != 0 ]]; then flags+=(--limit "$SENTENCES"); fi
case ${DEVICE_FLAGS[0]} in --cpu) flags+=(--cpu) ;; esac
read -ra lengths <<< "${LENGTH_FLAGS:-}"
read -ra more <<< "$BENCH_FLAGS"
run specdec-bench "$BIN" --path "$VERIFIER" -s "$SRC" -t "$TGT" --gen-subset "$SUBSET" \
    --batch-size 1 --remove-bpe --skip-invalid-size-inputs-valid-test ${flags[@]+"${flags[@]}"} \
    ${lengths[@]+"${lengths[@]}"} ${more[@]+"${more[@]}"} "${systems[@]}" \
    --json "$OUT/comparison.json" --markdown "$OUT/comparison.md" > "$OUT/comparison.log" 2>&1 ||
    fail "specdec-bench failed: see $OUT/comparison.log"
cat "$OUT/comparison.md" >&2
record "$OUT/provenance.json" "${inputs[@]}" -- "$OUT/comparison.json" "$OUT/comparison.md"
