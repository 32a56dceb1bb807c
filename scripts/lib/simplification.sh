# The engine of the simplification benchmark (scripts/wikilarge): that of translation, with a corpus that
# is tokenised, several references, and SARI and BLEU. settings.sh sets BENCHMARK, DECODE_SETS and
# RECIPE_NOTE, then sources this file; its tables are as in translation.sh.
# Settings of its own: TOKENISED (a folder with your own {train,valid,test}.tok.{source,target} and
# reference.0, reference.1 ... of the test set), SAMPLE (smoke: prefix of a .src and a .tgt file, raw text),
# and those of translation.sh but RAW and COMET.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2153  # the libraries read what is set here, settings.sh sets the rest

LANGUAGES=(source target) DIRECTION=source-target TEACHER=verifier TEXT_FLAGS=""
MEMORY_SETS="" MEMORY_SIZES=1
: "${MERGES:=32000}" "${DISTILL_BEAM:=1}"
# shellcheck source=scripts/lib/translation.sh
source "$(dirname "${BASH_SOURCE[0]}")/translation.sh"

# sample_corpus FOLDER: real sentence pairs in place of the corpus, raw text.
sample_corpus() {
    : "${SAMPLE:=$REPO/data-bin/demo_edit/heldout}"
    log "a small sample in place of the corpus, edits that do not simplify: $SAMPLE.{src,tgt}"
    split_sample "$SAMPLE.src" "$1" source 20
    split_sample "$SAMPLE.tgt" "$1" target 20
}

prepare_step() {
    local inputs=("$SOURCES") dir=$HOME_OF/prepared
    need fairseq-preprocess subword-nmt
    if [[ -n ${TOKENISED:-} ]]; then
        [[ -f $TOKENISED/reference.0 ]] ||
            fail "TOKENISED: no file $TOKENISED/reference.0; give {train,valid,test}.tok.{source,target} too"
        inputs+=("$TOKENISED")
    fi
    finished "$BIN/provenance.json" "${inputs[@]}" && return
    mkdir -p "$dir"
    if [[ -n ${TOKENISED:-} ]]; then
        cp "$TOKENISED"/{train,valid,test}.tok.{source,target} "$TOKENISED"/reference.* "$dir" ||
            fail "TOKENISED: $TOKENISED lacks one of {train,valid,test}.tok.{source,target}: see above"
    elif [[ $PROFILE == full && ! -e $dir/reference.0 ]]; then
        fetch_sources "$SOURCES" "TOKENISED takes a copy of your own"
        run "$PYTHON" "$LIB/simplification_corpus.py" "$SOURCES" "$HOME_OF/downloads" "$dir"
    elif [[ $PROFILE == smoke ]]; then
        sample_corpus "$HOME_OF/raw"
    fi
    prepare "$HOME_OF/raw" "$dir" "$BIN" source target en en "$MERGES"
    [[ -e $dir/reference.0 ]] || cp "$dir/test.tok.target" "$dir/reference.0"
    record "$BIN/provenance.json" "${inputs[@]}" -- "$BIN" "$dir"/reference.*
}

score_outputs() {
    local options=() reference
    for reference in "$HOME_OF/prepared"/reference.*; do options+=(--reference "$reference"); done
    run "$PYTHON" "$LIB/simplification_scores.py" "$@" \
        --source "$HOME_OF/prepared/test.tok.source" "${options[@]}" --json "$DECODED/scores.json"
}
