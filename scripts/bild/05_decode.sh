#!/usr/bin/env bash
# Decode with each system, batch size 1: $OUT/decoded/{greedy,unaligned,aligned,early_exit}.out, whose
# last lines hold BLEU, and .log, whose last line holds the times, Tok. and Iter.
# ALPHA_FB=0.6, ALPHA_RB=2.0, EXIT_ALPHA_FB=0.5, EXIT_ALPHA_RB=1.0, SUBSET=test,
# LENGTH_FLAGS (as --max-len-b 60).
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/bild/settings.sh
source "$REPO/scripts/bild/settings.sh"
# shellcheck source=scripts/lib/decode.sh
source "$LIB/decode.sh"
find_python
need fairseq-generate

DECODED=$OUT/decoded
DECODE_FLAGS=(--remove-bpe --skip-invalid-size-inputs-valid-test)
: "${SUBSET:=test}"
inputs=("$VERIFIER" "$OUT/small/model.pt" "$OUT/aligned/model.pt" "$OUT/early_exit/model.pt"
    "$BIN/$SUBSET.$SRC-$TGT.$SRC.bin")
finished "$DECODED/provenance.json" "${inputs[@]}" && exit
use_device
thresholds=(--alpha-fb "${ALPHA_FB:-0.6}" --alpha-rb "${ALPHA_RB:-2.0}")
decode greedy "$VERIFIER" --strategy greedy
decode unaligned "$VERIFIER" --strategy bild --drafter-path "$OUT/small/model.pt" "${thresholds[@]}"
decode aligned "$VERIFIER" --strategy bild --drafter-path "$OUT/aligned/model.pt" "${thresholds[@]}"
decode early_exit "$OUT/early_exit/model.pt" --strategy bild-early-exit \
    --alpha-fb "${EXIT_ALPHA_FB:-0.5}" --alpha-rb "${EXIT_ALPHA_RB:-1.0}"
record "$DECODED/provenance.json" "${inputs[@]}" -- "$DECODED"
