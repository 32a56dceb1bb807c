#!/usr/bin/env bash
# Decode with the verifier and with each model, batch size 1: $OUT/decoded/{greedy,CORPUS_WAY_K}.out,
# whose last line holds BLEU, and .log, whose last line holds the times, Tok. and Iter.
# MODELS (default: see models.sh), SUBSET=test, LENGTH_FLAGS (as --max-len-b 60).
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/blockwise/settings.sh
source "$REPO/scripts/blockwise/settings.sh"
# shellcheck source=scripts/lib/decode.sh
source "$LIB/decode.sh"
find_python
need fairseq-generate

DECODED=$OUT/decoded
DECODE_FLAGS=(--remove-bpe --skip-invalid-size-inputs-valid-test)
: "${SUBSET:=test}"
inputs=("$VERIFIER" "$BIN/$SUBSET.$SRC-$TGT.$SRC.bin")
for model in $MODELS; do inputs+=("$OUT/$model/model.pt"); done
finished "$DECODED/provenance.json" "${inputs[@]}" && exit
use_device
decode greedy "$VERIFIER" --strategy greedy
for model in $MODELS; do
    decode "${model/\//_}" "$OUT/$model/model.pt" --strategy blockwise
done
record "$DECODED/provenance.json" "${inputs[@]}" -- "$DECODED"
