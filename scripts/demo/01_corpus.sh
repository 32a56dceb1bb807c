#!/usr/bin/env bash
# Fetch and extract the English-German corpus: $WORK/ende/{train,valid,test}.{en,de}, origin.tsv, and
# held-out sentences with a named licence in $WORK/heldout.
# TIER=core|mini, HELDOUT=500; EN_FILE and DE_FILE: use your own text, one sentence a line.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
find_python

corpus=$WORK/ende
inputs=()
if [[ -n ${EN_FILE:-}${DE_FILE:-} ]]; then
    for name in EN_FILE DE_FILE; do
        [[ -f ${!name:-} ]] || fail "$name: '${!name:-}' is no file; set both EN_FILE and DE_FILE"
        inputs+=("${!name}")
    done
fi
finished "$corpus/provenance.json" "${inputs[@]}" && exit

if [[ ! -e $corpus/test.de ]]; then
    if [[ ${#inputs[@]} -gt 0 ]]; then
        run "$PYTHON" -m corpus.build_ende --out "$corpus" --own "${inputs[@]}"
    else
        run "$PYTHON" -m corpus.build_ende --out "$corpus" --work "$WORK/packages" \
            --tier "${TIER:-core}"
    fi
fi
run "$PYTHON" -m corpus.pick_heldout ende --corpus "$corpus" --out "$WORK/heldout" \
    --count "${HELDOUT:-500}"
record "$corpus/provenance.json" "${inputs[@]}" -- "$corpus" "$WORK/heldout"
