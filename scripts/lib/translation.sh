# The engine of the translation benchmarks (scripts/wmt14_ende, wmt16_enro, iwslt17_deen). A benchmark's
# settings.sh sets BENCHMARK, LANGUAGES, DIRECTION and what else is its own, then sources this file; its
# tables lie beside it:
#   sources.tsv  what is fetched: see scripts/lib/fetch.py
#   models.tsv   what is trained: model, step (teacher, train, drafter), YAML of configs/, corpus (raw,
#                distilled), overrides, where {model} stands for the checkpoint of that model
#   systems.tsv  what is measured: direction or *, set, split, verifier, system, models needed, flags
#   paper.tsv    what the papers report: see scripts/lib/paper_table.py
#   claims.tsv   what they claim, where the recipe tests it: see scripts/lib/claims.py
# Settings of all: PROFILE=full|smoke, MODELS (names of models.tsv, or all), RAW (a folder with your own
# {train,valid,test}.LANGUAGE), TOKENISED (the same with subwords: {split}.bpe.LANGUAGE), SAMPLE (smoke:
# prefix of two raw files, or apt), and those of launch.sh and hydra.sh.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the libraries read what is set here

RECIPE=$(cd "$(dirname "$0")" && pwd)
: "${SOURCES:=$RECIPE/sources.tsv}" "${PAPER:=$RECIPE/paper.tsv}"
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "${BASH_SOURCE[0]}")/demo.sh"
# shellcheck source=scripts/lib/prepare.sh
source "$LIB/prepare.sh"
# shellcheck source=scripts/lib/decode.sh
source "$LIB/decode.sh"
# shellcheck source=scripts/lib/launch.sh
source "$LIB/launch.sh"
# shellcheck source=scripts/lib/hydra.sh
source "$LIB/hydra.sh"

ONE=${LANGUAGES[0]} OTHER=${LANGUAGES[1]} PAIR=${LANGUAGES[0]}-${LANGUAGES[1]}
# shellcheck disable=SC2153  # settings.sh sets it
case $DIRECTION in
    "$ONE-$OTHER" | "$OTHER-$ONE") SRC=${DIRECTION%-*} TGT=${DIRECTION#*-} ;;
    *) fail "DIRECTION: $DIRECTION is neither $ONE-$OTHER nor $OTHER-$ONE" ;;
esac
case ${PROFILE:=full} in
    full) HOME_OF=$WORK/$BENCHMARK ;;
    # Minutes: shows that every step runs, not how well the models do.
    smoke)
        HOME_OF=$WORK/$BENCHMARK.smoke MERGES=${SMOKE_MERGES:-1000}
        : "${SENTENCES:=10}" "${LENGTH_FLAGS:=--max-len-b 40}"
        : "${DISTILL_FLAGS:=--on-length-limit keep --max-len-a 0 --max-len-b 40}"
        BENCH_FLAGS="--warmup 1 ${BENCH_FLAGS:-}"
        ;;
    *) fail "PROFILE: $PROFILE is neither full nor smoke" ;;
esac
: "${SENTENCES:=0}" "${BENCH_FLAGS=}" "${DISTILL_FLAGS=}" "${LENGTH_FLAGS=}" "${COMET=}"
BIN=$HOME_OF/bin
OUT=$HOME_OF/$DIRECTION
DISTILLED=$OUT/distilled
find_python

# rows FILE FIELDS: its lines without comments, fields separated by bars (tabs would swallow empty ones).
rows() { grep -v '^#' "$RECIPE/$1" | tr '\t' '|'; }

# corpus_files FOLDER: what training reads.
corpus_files() {
    printf '%s\n' "$1/dict.$SRC.txt" "$1/train.$PAIR.$ONE.bin" "$1/train.$PAIR.$OTHER.bin"
}

# corpus_path NAME: where a corpus of models.tsv lies.
corpus_path() { case $1 in raw) printf '%s\n' "$BIN" ;; *) printf '%s\n' "$DISTILLED" ;; esac }

model_path() { printf '%s\n' "$OUT/models/$1/model.pt"; }

chosen() { [[ $MODELS == all || " $MODELS " == *" $1 "* ]]; }

check_models() {
    local name
    for name in $MODELS; do
        [[ $name == all ]] || grep -q "^$name|" <<< "$(rows models.tsv)" ||
            fail "MODELS: $name is no model of $RECIPE/models.tsv"
    done
}

# split_sample FILE FOLDER NAME [EVERY]: FOLDER/{train,valid,test}.NAME out of a file: of 10 lines 8 to
# train on, of EVERY lines (default: 10) one each to validate and to test.
split_sample() {
    local split keep every=${4:-10}
    [[ -f $1 ]] || fail "SAMPLE: no file $1"
    for split in train valid test; do
        case $split in
            train) keep="NR % 10 > 1" ;;
            valid) keep="NR % $every == 1" ;;
            test) keep="NR % $every == $((10 % every))" ;;
        esac
        produce "$2/$split.$3" awk "$keep" "$1"
    done
}

# fetch_sources FILE [REMEDY]: what a sources.tsv names, in $HOME_OF/downloads.
fetch_sources() {
    run "$PYTHON" "$LIB/fetch.py" "$1" "$HOME_OF/downloads" || fail "it cannot be had: see above${2:+; $2}"
}

# sample_corpus FOLDER: a small real corpus in place of the full one.
sample_corpus() {
    local raw=$1 sides=(en de) i
    [[ $ONE-$OTHER == de-en ]] && sides=(de en)
    [[ $ONE$OTHER == *en* && $ONE$OTHER == *de* ]] ||
        log "warning: the sample is English-German; its German stands in for $OTHER (RAW: your own)"
    log "a small sample in place of the corpus: $SAMPLE.{${sides[0]},${sides[1]}}"
    for i in 0 1; do split_sample "$SAMPLE.${sides[i]}" "$raw" "${LANGUAGES[i]}"; done
}

# raw_corpus: set RAW to a folder of raw text, fetching it if need be.
raw_corpus() {
    if [[ -n ${RAW:-} ]]; then return; fi
    RAW=$HOME_OF/raw
    if [[ $PROFILE == smoke ]]; then
        : "${SAMPLE:=$REPO/data-bin/demo_ende/heldout}"
        if [[ $SAMPLE == apt ]]; then
            TIER=${TIER:-mini} bash "$REPO/scripts/demo/01_corpus.sh"
            RAW=$WORK/ende
        else
            sample_corpus "$RAW"
        fi
        return
    fi
    fetch_sources "$SOURCES" "RAW or TOKENISED takes a copy of your own"
    run "$PYTHON" "$LIB/parallel_text.py" "$SOURCES" "$HOME_OF/downloads" "$RAW" \
        --pair "$ONE" "$OTHER" ${TEXT_FLAGS:+$TEXT_FLAGS} ||
        fail "the corpus cannot be read: see above"
}

prepare_step() {
    local inputs=() split side
    need fairseq-preprocess subword-nmt
    if [[ -n ${TOKENISED:-} ]]; then
        for split in train valid test; do
            for side in "$ONE" "$OTHER"; do inputs+=("$TOKENISED/$split.bpe.$side"); done
        done
        finished "$BIN/provenance.json" "${inputs[@]}" && return
        mkdir -p "$HOME_OF/prepared"
        cp "${inputs[@]}" "$HOME_OF/prepared"
        for split in "${inputs[@]}"; do # what prepare makes before is not asked for
            touch "$HOME_OF/prepared/$(basename "${split/.bpe./.tok.}")"
        done
        touch "$HOME_OF/prepared/codes"
        RAW=${RAW:-$TOKENISED}
    else
        inputs=("$SOURCES")
        if [[ -n ${RAW:-} ]]; then inputs+=("$RAW"); fi
        finished "$BIN/provenance.json" "${inputs[@]}" && return
        raw_corpus
    fi
    prepare "$RAW" "$HOME_OF/prepared" "$BIN" "$ONE" "$OTHER" "$ONE" "$OTHER" "$MERGES"
    mkdir -p "$HOME_OF/raw"
    for side in "$ONE" "$OTHER"; do # what the scores are computed on
        [[ $RAW -ef $HOME_OF/raw || ! -e $RAW/test.$side ]] ||
            cp "$RAW/test.$side" "$HOME_OF/raw/test.$side"
    done
    record "$BIN/provenance.json" "${inputs[@]}" -- "$BIN"
}

# train_step STEP: the chosen models of models.tsv that this step makes.
train_step() {
    local name step config corpus overrides words word inputs path any=false dir FROZEN
    check_models
    use_devices
    while IFS='|' read -r name step config corpus overrides <&3; do
        if [[ $step != "$1" ]] || ! chosen "$name"; then continue; fi
        any=true dir=$OUT/models/$name FROZEN="" COMMANDS=() words=()
        path=$(corpus_path "$corpus")
        mapfile -t inputs < <(corpus_files "$path")
        inputs+=("$REPO/configs/$config.yaml")
        for word in $overrides; do
            if [[ $word =~ \{([a-z0-9_]+)\} ]]; then
                inputs+=("$(model_path "${BASH_REMATCH[1]}")")
                word=${word%%=*}="'${inputs[-1]}'"
                case $word in model.init_from=*) FROZEN=${inputs[-1]} ;; esac
            fi
            [[ $word != model.freeze_base=false ]] || FROZEN=""
            words+=("$word")
        done
        finished "$dir/provenance.json" "${inputs[@]}" && continue
        log "$name: configs/$config.yaml on $path"
        train_config "$dir" "$path" "$SRC" "$TGT" "$config" ${words[@]+"${words[@]}"}
        if [[ $NODE_RANK != 0 ]]; then # what follows may build on this model
            await "$dir/provenance.json"
            continue
        fi
        record "$dir/provenance.json" "${inputs[@]}" -- "$dir/model.pt"
    done 3< <(rows models.tsv)
    $any || log "none of MODELS ($MODELS) belongs to this step"
}

# distill_step: the teacher rewrites the training targets; processes share the work under torchrun or
# as the elements of a Slurm array, and whoever finishes last publishes.
distill_step() {
    local inputs flags=() more teacher
    grep -q distilled <<< "$(rows models.tsv | cut -d '|' -f 4)" || return 0
    teacher=$(model_path "${TEACHER:-teacher}")
    mapfile -t inputs < <(corpus_files "$BIN")
    inputs+=("$teacher")
    finished "$DISTILLED.provenance.json" "${inputs[@]}" && return
    use_devices
    if $ON_CPU; then flags+=(--cpu); elif [[ $PRECISION == fp16 ]]; then flags+=(--fp16); fi
    if [[ $DISTILL_BEAM == 1 ]]; then
        flags+=(--task translation_specdec --strategy greedy)
    fi
    read -ra more <<< "--max-len-a 1.5 --max-len-b 20 $DISTILL_FLAGS"
    launch -m fairseq_specdec.data.distill "$BIN" --user-dir "$REPO/fairseq_specdec" \
        --path "$teacher" --dest "$DISTILLED" -s "$SRC" -t "$TGT" --beam "$DISTILL_BEAM" \
        --seed "$SEED" --max-tokens "${DISTILL_TOKENS:-8192}" \
        --skip-invalid-size-inputs-valid-test ${flags[@]+"${flags[@]}"} "${more[@]}" \
        >> "$DISTILLED.log" 2>&1 || fail "specdec-distill failed: see $DISTILLED.log"
    if [[ ! -e $DISTILLED/dict.$SRC.txt ]]; then
        log "this share is done; the process that finishes last publishes $DISTILLED"
        return
    fi
    [[ $NODE_RANK == 0 ]] || return 0
    record "$DISTILLED.provenance.json" "${inputs[@]}" -- "$DISTILLED"
}
# shellcheck source=scripts/lib/translation_measure.sh
source "$LIB/translation_measure.sh"
