# Raw parallel text -> tokens -> joint BPE -> binarised corpus. Source it after demo.sh. DICTIONARY: a
# file to binarise with, in place of the training text's own dictionary.
# shellcheck shell=bash

SPLITS="train valid test"

# tokenise_split RAW DIR SPLIT SRC TGT SRC_LANGUAGE TGT_LANGUAGE
tokenise_split() {
    local raw=$1 dir=$2 split=$3 suffix language
    for suffix in "$4:$6" "$5:$7"; do
        language=${suffix#*:}
        suffix=${suffix%%:*}
        [[ -e $dir/$split.tok.$suffix ]] ||
            run "$PYTHON" "$LIB/tokenise.py" --lang "$language" "$raw/$split.$suffix" \
                "$dir/$split.tok.$suffix"
    done
}

# apply_codes DIR SPLIT SUFFIX...
apply_codes() {
    local dir=$1 split=$2 suffix
    shift 2
    for suffix in "$@"; do
        produce "$dir/$split.bpe.$suffix" \
            subword-nmt apply-bpe -c "$dir/codes" -i "$dir/$split.tok.$suffix"
    done
}

# prepare RAW DIR BIN SRC TGT SRC_LANGUAGE TGT_LANGUAGE MERGES: every file is made once.
prepare() {
    local raw=$1 dir=$2 bin=$3 src=$4 tgt=$5 merges=$8 split
    mkdir -p "$dir"
    for split in $SPLITS; do
        tokenise_split "$raw" "$dir" "$split" "$src" "$tgt" "$6" "$7"
    done
    if [[ ! -e $dir/codes ]]; then
        log "learning $merges merges"
        cat "$dir/train.tok.$src" "$dir/train.tok.$tgt" > "$dir/both.partial"
        produce "$dir/codes" subword-nmt learn-bpe -s "$merges" -i "$dir/both.partial" 2> "$dir/learn.log" ||
            fail "subword-nmt learn-bpe failed: see $dir/learn.log"
        rm "$dir/both.partial"
    fi
    for split in $SPLITS; do
        apply_codes "$dir" "$split" "$src" "$tgt"
    done
    if [[ ! -e $bin/dict.$tgt.txt ]]; then
        log "binarising"
        rm -rf "$bin.partial"
        run fairseq-preprocess -s "$src" -t "$tgt" --joined-dictionary --seed "$SEED" \
            --trainpref "$dir/train.bpe" --validpref "$dir/valid.bpe" --testpref "$dir/test.bpe" \
            ${DICTIONARY:+--srcdict "$DICTIONARY"} \
            --destdir "$bin.partial" --workers "$THREADS" > "$dir/preprocess.log" 2>&1 ||
            fail "fairseq-preprocess failed: see $dir/preprocess.log"
        rm -rf "$bin"
        mv "$bin.partial" "$bin"
    fi
}
