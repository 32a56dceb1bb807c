# The engine of the summarisation benchmarks (scripts/cnndm, xsum): that of translation, with corpora of
# its own, BART's subwords and weights, and ROUGE in place of BLEU. A benchmark's settings.sh sets
# BENCHMARK, DISTILL_BEAM, DECODE_SETS, MEMORY_SETS, FULL_LENGTHS, FULL_DISTILL and RECIPE_NOTE, then
# sources this file; its tables are as in translation.sh, and one more lies beside them:
#   pretrained.tsv  what models of models.tsv start from, {NAME} there: as sources.tsv, with checkpoint
#                   and dictionary within the archive
# Settings of its own: SAMPLE (smoke: apt, python, or the prefix of a .source and a .target file, a text a
# line), MAX_SOURCE=1000 (subwords; what is longer is cut off), and those of translation.sh but TOKENISED;
# RAW holds {train,valid,test}.{source,target}, a text a line.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2153  # the libraries read what is set here, settings.sh sets the rest

LANGUAGES=(source target) DIRECTION=source-target MERGES=unused TEXT_FLAGS=""
: "${MAX_SOURCE:=1000}" "${SAMPLE:=apt}"
if [[ ${PROFILE:-full} == full ]]; then : "${LENGTH_FLAGS:=$FULL_LENGTHS}" "${DISTILL_FLAGS:=$FULL_DISTILL}"; fi
# shellcheck source=scripts/lib/translation.sh
source "$(dirname "${BASH_SOURCE[0]}")/translation.sh"

GPT2=("$HOME_OF/subwords/encoder.json" "$HOME_OF/subwords/vocab.bpe")

# sample_corpus FOLDER: a small real corpus in place of the full one.
sample_corpus() {
    local side
    log "a small sample in place of the corpus: SAMPLE=$SAMPLE"
    case $SAMPLE in
        apt | python)
            run "$PYTHON" "$LIB/summary_sample.py" "$SAMPLE" "$1" --work "$WORK/descriptions" ||
                fail "the sample could not be made: see above"
            ;;
        *) for side in source target; do split_sample "$SAMPLE.$side" "$1" "$side"; done ;;
    esac
}

# raw_corpus: set RAW to a folder of raw text, fetching it if need be.
raw_corpus() {
    local split side all=true
    if [[ -n ${RAW:-} ]]; then return; fi
    RAW=$HOME_OF/raw
    for split in train valid test; do
        for side in source target; do [[ -e $RAW/$split.$side ]] || all=false; done
    done
    if $all; then return; fi
    if [[ $PROFILE == smoke ]]; then
        sample_corpus "$RAW"
        return
    fi
    fetch_sources "$SOURCES" "RAW takes a copy of your own"
    run "$PYTHON" "$LIB/summary_corpus.py" "$BENCHMARK" "$SOURCES" "$HOME_OF/downloads" "$RAW"
}

# gpt2_subwords: numbers of GPT-2's subwords, $HOME_OF/prepared/*.bpe.*, binarised with BART's dictionary.
gpt2_subwords() {
    local split side dir=$HOME_OF/prepared
    mkdir -p "$dir" "$HOME_OF/subwords"
    grep '^subwords' "$SOURCES" > "$HOME_OF/subwords/sources.tsv"
    fetch_sources "$HOME_OF/subwords/sources.tsv"
    for side in encoder.json vocab.bpe dict.txt; do
        cp "$HOME_OF/downloads"/*gpt2_bpe_"$side" "$HOME_OF/subwords/$side"
    done
    for split in train valid test; do
        for side in source target; do
            [[ -e $dir/$split.bpe.$side ]] || run "$PYTHON" "$LIB/gpt2_subwords.py" \
                "$RAW/$split.$side" "$dir/$split.bpe.$side" --encoder-json "${GPT2[0]}" \
                --vocab-bpe "${GPT2[1]}" --max-subwords "$MAX_SOURCE" --workers "$THREADS"
        done
    done
    log "binarising"
    rm -rf "$BIN.partial"
    run fairseq-preprocess -s source -t target --srcdict "$HOME_OF/subwords/dict.txt" \
        --tgtdict "$HOME_OF/subwords/dict.txt" --trainpref "$dir/train.bpe" \
        --validpref "$dir/valid.bpe" --testpref "$dir/test.bpe" --destdir "$BIN.partial" \
        --workers "$THREADS" > "$dir/preprocess.log" 2>&1 ||
        fail "fairseq-preprocess failed: see $dir/preprocess.log"
    rm -rf "$BIN"
    mv "$BIN.partial" "$BIN"
}

# need_rouge: better to hear of it now than after the training.
need_rouge() { "$PYTHON" "$LIB/summary_scores.py" --check || fail "ROUGE cannot be computed: see above"; }

# prepare_step: the corpus, and what the chosen models of models.tsv start from.
prepare_step() {
    need fairseq-preprocess subword-nmt
    need_rouge
    check_models
    prepare_corpus
    pretrained_models
}

prepare_corpus() {
    local inputs=("$SOURCES")
    if [[ -n ${RAW:-} ]]; then inputs+=("$RAW"); fi
    finished "$BIN/provenance.json" "${inputs[@]}" && return
    raw_corpus
    if [[ $PROFILE == full ]]; then
        gpt2_subwords
    else
        prepare "$RAW" "$HOME_OF/prepared" "$BIN" source target en en "${SMOKE_MERGES:-1000}"
    fi
    mkdir -p "$HOME_OF/raw"
    # what the scores are computed on
    [[ $RAW -ef $HOME_OF/raw ]] || cp "$RAW/test.source" "$RAW/test.target" "$HOME_OF/raw"
    record "$BIN/provenance.json" "${inputs[@]}" -- "$BIN"
}

# pretrained NAME CONFIG: $OUT/models/NAME/model.pt, what others start from. In the smoke profile it is a
# tiny model of CONFIG after two updates.
pretrained() {
    local dir=$OUT/models/$1 from=() inputs=("$RECIPE/pretrained.tsv" "$BIN/dict.source.txt") FROZEN=""
    COMMANDS=()
    finished "$dir/provenance.json" "${inputs[@]}" && return
    mkdir -p "$dir"
    if [[ $PROFILE == full ]]; then
        grep "^$1	" "$RECIPE/pretrained.tsv" > "$dir/source.tsv"
        fetch_sources "$dir/source.tsv"
        from=(--archive "$dir/source.tsv" "$1" "$HOME_OF/downloads")
    else
        log "$1: a tiny stand-in of configs/$2.yaml"
        use_devices
        SMOKE_UPDATES=2 AVERAGE=1 train_config "$dir/stand_in" "$BIN" source target "$2" \
            checkpoint.finetune_from_model=null
        from=(--checkpoint "$dir/stand_in/model.pt" --checkpoint-dict "$BIN/dict.source.txt")
    fi
    run "$PYTHON" "$LIB/pretrained.py" "${from[@]}" --dict "$BIN/dict.source.txt" \
        --output "$dir/model.pt" || fail "$1 cannot be used: see above"
    record "$dir/provenance.json" "${inputs[@]}" -- "$dir/model.pt"
}

pretrained_models() {
    local name config overrides start
    while IFS='|' read -r name _ config _ overrides <&5; do
        chosen "$name" || continue
        while IFS='|' read -r start _ <&6; do
            if [[ $overrides == *"{$start}"* ]]; then pretrained "$start" "$config"; fi
        done 6< <(rows pretrained.tsv)
    done 5< <(rows models.tsv)
}

score_outputs() {
    local options=()
    if [[ $PROFILE == full ]]; then options+=(--gpt2 "${GPT2[@]}"); fi
    run "$PYTHON" "$LIB/summary_scores.py" "$@" --raw "$HOME_OF/raw/test.target" \
        ${options[@]+"${options[@]}"} --json "$DECODED/scores.json"
}
