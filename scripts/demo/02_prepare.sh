#!/usr/bin/env bash
# Tokenise, learn and apply joint BPE, binarise: $WORK/prepared and $WORK/bin/ende. MERGES=8000.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/lib/prepare.sh
source "$LIB/prepare.sh"
find_python
need fairseq-preprocess subword-nmt

raw=("$WORK"/ende/{train,valid,test}.{en,de})
bin=$WORK/bin/ende
finished "$bin/provenance.json" "${raw[@]}" && exit
mkdir -p "$WORK/bin"
prepare "$WORK/ende" "$WORK/prepared" "$bin" en de en de "${MERGES:-8000}"
record "$bin/provenance.json" "${raw[@]}" -- "$WORK/prepared/codes" "$bin"
