#!/usr/bin/env bash
# Make the editing corpus, English with errors -> corrected English: $WORK/edit/{train,valid,test}.{src,tgt},
# and held-out sentences from LibreOffice help in $WORK/edit_heldout (needs 01_corpus.sh).
# HELDOUT=500; EDIT_EN_FILE: clean English of your own; MISSPELLINGS: wrong->right lines of your own.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
find_python

corpus=$WORK/edit
inputs=("$WORK/ende/origin.tsv")
options=()
if [[ -n ${EDIT_EN_FILE:-} ]]; then
    [[ -f $EDIT_EN_FILE ]] || fail "EDIT_EN_FILE: $EDIT_EN_FILE is no file"
    inputs+=("$EDIT_EN_FILE")
    options+=(--own "$EDIT_EN_FILE")
fi
if [[ -n ${MISSPELLINGS:-} ]]; then
    [[ -f $MISSPELLINGS ]] || fail "MISSPELLINGS: $MISSPELLINGS is no file"
    inputs+=("$MISSPELLINGS")
    options+=(--misspellings "$MISSPELLINGS")
fi
finished "$corpus/provenance.json" "${inputs[@]}" && exit

if [[ ! -e $corpus/test.tgt ]]; then
    run "$PYTHON" -m corpus.build_edit --out "$corpus" --work "$WORK/edit_packages" \
        --seed "$SEED" ${options[@]+"${options[@]}"}
fi
run "$PYTHON" -m corpus.pick_heldout edit --corpus "$WORK/ende" --edit-corpus "$corpus" \
    --out "$WORK/edit_heldout" --count "${HELDOUT:-500}"
record "$corpus/provenance.json" "${inputs[@]}" -- "$corpus" "$WORK/edit_heldout"
