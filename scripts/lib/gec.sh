# The engine of the error correction benchmarks (scripts/gec_conll14, gec_conll14_bart, gec_nlpcc18): that of
# translation, with corpora of its own, several stages of training, synthetic errors, and M2 in place of BLEU.
# A benchmark's settings.sh sets BENCHMARK, TRAIN_DATA, FINETUNE_DATA, VALID_DATA, TEST_DATA (names of
# sources.tsv), then sources this file; models.tsv, systems.tsv and paper.tsv are as in translation.sh.
# Settings: each name of sources.tsv holds a path: an .m2 file, or the prefix of a .src and a .tgt file,
# tokenised; CLEAN is plain text. NOISE_FLAGS (more flags of specdec-noise), VERIFIER_MODEL (whose output
# the drafter learns), METRIC=m2|errant|both, M2SCORER (command of the official scorer), SEGMENTER
# (command from the output's lines to the words that are scored), SAMPLE (smoke: prefix of .src and .tgt),
# and those of translation.sh but RAW and TOKENISED. With SUBWORDS=gpt2 there are GPT-2's subwords and BART's
# dictionary: BART holds a folder with model.pt and dict.txt, GPT2 one with encoder.json and vocab.bpe; KEEP=2
# decoder layers are kept.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the libraries read what is set here

LANGUAGES=(src tgt) DIRECTION=src-tgt DISTILL_BEAM=1 TEACHER=$VERIFIER_MODEL
DECODE_SETS="conll13 conll13_synthetic conll14 conll14_staged nlpcc18" MEMORY_SETS="" MEMORY_SIZES=1
: "${M2SCORER:=}" "${SEGMENTER:=}" "${NOISE_FLAGS:=}" "${CHARACTERS:=}" "${SUBWORDS:=bpe}"
: "${MERGES:=32000}" "${KEEP:=2}"
# shellcheck source=scripts/lib/translation.sh
source "$(dirname "${BASH_SOURCE[0]}")/translation.sh"

# A set called NAME_cpuN is measured on N threads of the CPU, whatever else is at hand.
eval "measure_$(declare -f bench_set)"
bench_set() {
    if [[ $1 =~ _cpu([0-9]+)$ ]]; then
        local ON_CPU=true BENCH_FLAGS="$BENCH_FLAGS --threads ${BASH_REMATCH[1]}"
    fi
    measure_bench_set "$@"
}

corpus_path() {
    case $1 in
        raw) printf '%s\n' "$BIN" ;;
        synthetic | finetune) printf '%s\n' "$HOME_OF/bin_$1" ;;
        distilled) printf '%s\n' "$DISTILLED" ;;
    esac
}

# need_data NAME...: the paths that these names of sources.tsv hold, in DATA.
need_data() {
    local name
    DATA=()
    for name in "$@"; do
        if [[ -z ${!name:-} ]]; then
            log "$name: set it to the path of your copy:"
            fail "$(awk -F '\t' -v name="$name" '$1 == name {print $4 "; see " $2}' "$SOURCES")"
        fi
        if [[ ! -e ${!name} && ! -e ${!name}.src ]]; then
            fail "$name: neither ${!name} nor ${!name}.src exists"
        fi
        DATA+=("${!name}")
    done
}

# files_of PATH...: what lies behind an .m2 file or a prefix, for the record.
files_of() {
    local path
    for path in "$@"; do
        if [[ -f $path ]]; then printf '%s\n' "$path"; else printf '%s\n' "$path.src" "$path.tgt"; fi
    done
}

# sample_data: real sentence pairs in place of all corpora, the settings set accordingly.
sample_data() {
    local folder=$HOME_OF/sample side part
    : "${SAMPLE:=$REPO/data-bin/demo_edit/heldout}"
    log "a small sample in place of the corpora: $SAMPLE.{src,tgt}"
    [[ $PROFILE == smoke && $BENCHMARK == gec_nlpcc18 ]] &&
        log "warning: the sample is English (SAMPLE: your own)"
    for side in src tgt; do split_sample "$SAMPLE.$side" "$folder" "$side" 20; done
    for part in $TRAIN_DATA $FINETUNE_DATA; do printf -v "$part" '%s' "$folder/train"; done
    TRAIN_DATA=${TRAIN_DATA%% *} FINETUNE_DATA=${FINETUNE_DATA%% *}
    printf -v "$VALID_DATA" '%s' "$folder/valid"
    printf -v "$TEST_DATA" '%s' "$folder/test"
    CLEAN=$folder/train.tgt
    if [[ -z $NOISE_FLAGS ]]; then # so that no spell-checker is needed
        NOISE_FLAGS="--confusion-sets $REPO/scripts/gec_conll14/smoke_sets.tsv"
    fi
    if [[ $SUBWORDS == gpt2 ]]; then
        BART=$HOME_OF/bytes GPT2=$HOME_OF/bytes
        [[ -e $BART/dict.txt ]] || run "$PYTHON" "$LIB/gec_bytes.py" "$BART"
    fi
}

# gather PREFIX INPUT... [FLAG...]: PREFIX.tok.src and .tgt out of corpora.
gather() {
    local prefix=$1
    shift
    mkdir -p "$(dirname "$prefix")"
    run "$PYTHON" "$LIB/gec_corpus.py" "$prefix.tok" "$@" ${CHARACTERS:+$CHARACTERS} ||
        fail "the corpora cannot be read: see above"
}

# subwords PREFIX: PREFIX.bpe.src and .tgt out of PREFIX.tok.*.
subwords() {
    local side
    for side in src tgt; do
        if [[ $SUBWORDS == bpe ]]; then
            produce "$1.bpe.$side" subword-nmt apply-bpe -c "$HOME_OF/prepared/codes" -i "$1.tok.$side"
        elif [[ ! -e $1.bpe.$side ]]; then
            run "$PYTHON" "$LIB/gpt2_subwords.py" "$1.tok.$side" "$1.bpe.$side" --workers "$THREADS" \
                --encoder-json "$GPT2/encoder.json" --vocab-bpe "$GPT2/vocab.bpe" ||
                fail "GPT2: $GPT2 cannot be used: see above"
        fi
    done
}

# binarise_gpt2 DIR: BIN, with the dictionary of BART.
binarise_gpt2() {
    local split
    for split in train valid test; do subwords "$1/$split"; done
    log "binarising"
    rm -rf "$BIN.partial" "$BIN"
    run fairseq-preprocess -s src -t tgt --srcdict "$BART/dict.txt" --tgtdict "$BART/dict.txt" \
        --trainpref "$1/train.bpe" --validpref "$1/valid.bpe" --testpref "$1/test.bpe" \
        --destdir "$BIN.partial" --workers "$THREADS" > "$1/preprocess.log" 2>&1 ||
        fail "fairseq-preprocess failed: see $1/preprocess.log"
    mv "$BIN.partial" "$BIN"
}

# binarise_more NAME PREFIX: $HOME_OF/bin_NAME with the dictionary of BIN and its validation and test sets.
binarise_more() {
    local bin=$HOME_OF/bin_$1 prefix=$2 file
    subwords "$prefix"
    rm -rf "$bin.partial" "$bin"
    run fairseq-preprocess -s src -t tgt --srcdict "$BIN/dict.src.txt" --tgtdict "$BIN/dict.tgt.txt" \
        --trainpref "$prefix.bpe" --destdir "$bin.partial" --workers "$THREADS" \
        > "$prefix.preprocess.log" 2>&1 || fail "fairseq-preprocess failed: see $prefix.preprocess.log"
    for file in "$BIN"/valid.* "$BIN"/test.*; do ln "$file" "$bin.partial" || cp "$file" "$bin.partial"; done
    mv "$bin.partial" "$bin"
}

prepare_step() {
    local names inputs dir=$HOME_OF/prepared
    need fairseq-preprocess subword-nmt
    if [[ $PROFILE == smoke ]]; then sample_data; fi
    if [[ $SUBWORDS == gpt2 ]]; then need_data BART GPT2; fi
    # shellcheck disable=SC2086  # names
    need_data $TRAIN_DATA $FINETUNE_DATA "$VALID_DATA" "$TEST_DATA"
    mapfile -t inputs < <(files_of "${DATA[@]}" | sort -u)
    finished "$BIN/provenance.json" "${inputs[@]}" && return
    # shellcheck disable=SC2086
    need_data $TRAIN_DATA
    gather "$dir/train" "${DATA[@]}"
    gather "$dir/valid" "${!VALID_DATA}" --gold "$HOME_OF/gold/valid.m2"
    gather "$dir/test" "${!TEST_DATA}" --gold "$HOME_OF/gold/test.m2"
    if [[ $SUBWORDS == gpt2 ]]; then
        binarise_gpt2 "$dir"
    else
        prepare "$dir" "$dir" "$BIN" src tgt en en "$MERGES"
    fi
    if [[ -n $FINETUNE_DATA ]]; then
        # shellcheck disable=SC2086
        need_data $FINETUNE_DATA
        gather "$dir/finetune" "${DATA[@]}"
        binarise_more finetune "$dir/finetune"
    fi
    record "$BIN/provenance.json" "${inputs[@]}" -- "$BIN" "$HOME_OF/gold"
}

# noise_step: processes share the work under torchrun or as the elements of a Slurm array, and whoever
# finishes last publishes.
noise_step() {
    local noise=$HOME_OF/noise words inputs
    need fairseq-preprocess subword-nmt
    if [[ $PROFILE == smoke ]]; then sample_data; fi
    need_data CLEAN
    if [[ $SUBWORDS == gpt2 ]]; then need_data GPT2; fi
    inputs=("$CLEAN" "$BIN/dict.src.txt")
    finished "$HOME_OF/bin_synthetic/provenance.json" "${inputs[@]}" && return
    use_devices
    read -ra words <<< "$NOISE_FLAGS"
    launch -m fairseq_specdec.noise.cli "$CLEAN" --dest "$noise" --seed "$SEED" \
        --name synthetic.tok ${words[@]+"${words[@]}"} >> "$noise.log" 2>&1 ||
        fail "specdec-noise failed: see $noise.log"
    if [[ ! -e $noise/noise.json ]]; then
        log "this share is done; the process that finishes last publishes $noise"
        return
    fi
    if [[ $NODE_RANK != 0 ]]; then # the pretraining reads what the first node makes of it
        await "$HOME_OF/bin_synthetic/provenance.json"
        return
    fi
    mkdir -p "$HOME_OF/noise_bpe"
    ln -sf "$noise"/synthetic.tok.* "$HOME_OF/noise_bpe"
    binarise_more synthetic "$HOME_OF/noise_bpe/synthetic"
    record "$HOME_OF/bin_synthetic/provenance.json" "${inputs[@]}" -- "$HOME_OF/bin_synthetic"
}

# start_step: the model "start", KEEP decoder layers and all else of BART (a tiny stand-in in smoke).
start_step() {
    local dir=$OUT/models/start bart inputs
    chosen start || return 0
    if [[ $PROFILE == smoke ]]; then sample_data; fi
    need_data BART
    bart=$BART/model.pt inputs=("$BIN/dict.src.txt")
    if [[ $PROFILE == full ]]; then inputs+=("$bart"); fi
    finished "$dir/provenance.json" "${inputs[@]}" && return
    if [[ $PROFILE == smoke ]]; then
        use_devices
        bart=$dir/stand_in/model.pt
        log "start: a tiny stand-in for BART"
        SMOKE_UPDATES=2 AVERAGE=1 train_config "$dir/stand_in" "$BIN" src tgt gec_finetune_12_2 \
            checkpoint.finetune_from_model=null model.decoder_layers=4
    fi
    if [[ $NODE_RANK != 0 ]]; then
        await "$dir/provenance.json"
        return
    fi
    mkdir -p "$dir"
    run "$PYTHON" -m fairseq_specdec.training.select_layers "$bart" "$dir/model.pt" --keep "$KEEP" \
        --dict "$BIN/dict.src.txt" --force || fail "BART: $BART cannot be used: see above"
    record "$dir/provenance.json" "${inputs[@]}" -- "$dir/model.pt"
}

score_outputs() {
    local options=()
    if [[ $SUBWORDS == gpt2 ]]; then
        if [[ $PROFILE == smoke ]]; then sample_data; fi
        need_data GPT2
        options+=(--gpt2 "$GPT2/encoder.json" "$GPT2/vocab.bpe")
    fi
    [[ -n $M2SCORER ]] && options+=(--m2scorer "$M2SCORER")
    [[ -n $SEGMENTER ]] && options+=(--segmenter "$SEGMENTER")
    [[ -n $CHARACTERS ]] && options+=("$CHARACTERS")
    run "$PYTHON" "$LIB/gec_scores.py" "$@" --systems "$RECIPE/systems.tsv" --gold "$HOME_OF/gold" \
        --metric "$METRIC" ${options[@]+"${options[@]}"} --json "$DECODED/scores.json"
}
