#!/usr/bin/env bash
# Get the corpus of scripts/demo, and put the verifier that all is built on, and a drafter that reads it,
# where the other steps look for them. See settings.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/ende_small/settings.sh
source "$(dirname "$0")/settings.sh"
need fairseq-preprocess subword-nmt

# full_corpus: scripts/demo's, as $BIN and $HOME_OF/raw.
full_corpus() {
    local step side
    for step in 01_corpus 02_prepare; do run bash "$REPO/scripts/demo/$step.sh"; done
    mkdir -p "$HOME_OF/raw"
    ln -sfn "$WORK/bin/ende" "$BIN"
    for side in en de; do cp "$WORK/ende/test.$side" "$HOME_OF/raw/test.$side"; done
}

# smoke_corpus: the sample, in the verifier's own subwords.
smoke_corpus() {
    : "${SAMPLE:=$PAIR_FOLDER/heldout}"
    [[ -f $DICTIONARIES/codes ]] || fail "DICTIONARIES: $DICTIONARIES has no codes (of subword-nmt)"
    sample_corpus "$HOME_OF/raw"
    mkdir -p "$HOME_OF/prepared"
    cp "$DICTIONARIES/codes" "$HOME_OF/prepared/codes"
    DICTIONARY=$DICTIONARIES/dict.en.txt \
        prepare "$HOME_OF/raw" "$HOME_OF/prepared" "$BIN" en de en de "$MERGES"
}

# place NAME FILE: a model that is not trained here.
place() {
    mkdir -p "$OUT/models/$1"
    ln -sfn "$(realpath "$2")" "$(model_path "$1")"
}

given=("$VERIFIER")
if [[ -n ${ATTACHED:-} ]]; then given+=("$ATTACHED"); fi
for file in "${given[@]}" "$DICTIONARIES"/dict.{en,de}.txt; do
    [[ -f $file ]] || fail "$file is missing: VERIFIER names a trained verifier, DICTIONARIES the" \
        "folder of its dict.en.txt and dict.de.txt, ATTACHED a drafter that reads it"
done
inputs=("${given[@]}" "$DICTIONARIES"/dict.{en,de}.txt)
finished "$HOME_OF/provenance.json" "${inputs[@]}" && exit
case $PROFILE in full) full_corpus ;; smoke) smoke_corpus ;; esac
for side in en de; do
    cmp -s "$DICTIONARIES/dict.$side.txt" "$BIN/dict.$side.txt" ||
        fail "VERIFIER: $VERIFIER knows other subwords than the corpus:" \
            "$DICTIONARIES/dict.$side.txt is not $BIN/dict.$side.txt. Train one on this corpus" \
            "(bash scripts/demo/03_verifier.sh), then set VERIFIER=$WORK/verifier/verifier.pt and" \
            "DICTIONARIES=$WORK/bin/ende"
done
place verifier "$VERIFIER"
if [[ -n ${ATTACHED:-} ]]; then place attached "$ATTACHED"; fi
record "$HOME_OF/provenance.json" "${inputs[@]}" -- "$BIN/dict.en.txt" "$BIN/dict.de.txt" "$OUT/models"
