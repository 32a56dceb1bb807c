#!/usr/bin/env bash
# Tokenise, learn and apply joint BPE, binarise: $WORK/edit_prepared and $WORK/bin/edit. Source and
# target share one dictionary, which input-guided drafting (iad) needs. EDIT_MERGES=4000.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/lib/prepare.sh
source "$LIB/prepare.sh"
find_python
need fairseq-preprocess subword-nmt

raw=("$WORK"/edit/{train,valid,test}.{src,tgt})
bin=$WORK/bin/edit
finished "$bin/provenance.json" "${raw[@]}" && exit
mkdir -p "$WORK/bin"
prepare "$WORK/edit" "$WORK/edit_prepared" "$bin" src tgt en en "${EDIT_MERGES:-4000}"
record "$bin/provenance.json" "${raw[@]}" -- "$WORK/edit_prepared/codes" "$bin"
