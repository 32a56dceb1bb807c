# Gather a trained pair in a folder of its own. Source it after demo.sh.
# shellcheck shell=bash

# What the repository holds in all: every pair together.
: "${MAX_PACK_BYTES:=45000000}"

# begin_pack DEST CODES BIN SRC TGT: start a new folder, PACK, beside DEST.
begin_pack() {
    PACK=$(dirname "$1")/.$(basename "$1").partial
    rm -rf "$PACK"
    mkdir -p "$PACK"
    cp "$2" "$PACK/codes"
    cp "$3/dict.$4.txt" "$3/dict.$5.txt" "$PACK"
}

# pack_checkpoint FILE NAME: store it in fp16.
pack_checkpoint() {
    run "$PYTHON" "$LIB/average_checkpoints.py" "$1" --half --output "$PACK/$2"
}

# pack_heldout FOLDER SRC TGT SRC_LANGUAGE TGT_LANGUAGE: raw text, and a test set for fairseq-generate.
pack_heldout() {
    local folder=$1 src=$2 tgt=$3 scratch suffix language
    scratch=$(mktemp -d)
    cp "$folder/heldout.$src" "$folder/heldout.$tgt" "$folder/origins.tsv" "$PACK"
    for suffix in "$src:$4" "$tgt:$5"; do
        language=${suffix#*:}
        suffix=${suffix%%:*}
        "$PYTHON" "$LIB/tokenise.py" --lang "$language" "$folder/heldout.$suffix" "$scratch/tok"
        subword-nmt apply-bpe -c "$PACK/codes" -i "$scratch/tok" -o "$scratch/heldout.bpe.$suffix"
    done
    fairseq-preprocess -s "$src" -t "$tgt" --testpref "$scratch/heldout.bpe" \
        --srcdict "$PACK/dict.$src.txt" --tgtdict "$PACK/dict.$tgt.txt" \
        --destdir "$scratch/bin" > "$scratch/log" 2>&1 || {
        cat "$scratch/log" >&2
        fail "fairseq-preprocess failed on the held-out sentences of $folder"
    }
    cp "$scratch/bin/test.$src-$tgt".* "$PACK"
    rm -r "$scratch"
}

# pack_history FILE...: join the provenance of the steps before; of a step run by hand there is none.
pack_history() {
    mkdir -p "$PACK/history"
    local file
    for file in "$@"; do
        if [[ ! -f $file ]]; then
            log "warning: $file is missing; the pack will not say how that step was run"
            continue
        fi
        cp "$file" "$PACK/history/$("$PYTHON" -c \
            'import json, sys; print(json.load(open(sys.argv[1]))["step"])' "$file").json"
    done
}

# end_pack DEST INPUT...: check the size of all packed pairs, put the folder in place.
end_pack() {
    local dest=$1 parent total
    shift
    parent=$(dirname "$dest")
    NAMES+=(--name "PACKED=$parent")
    rm -rf "$dest"
    mv "$PACK" "$dest"
    record "$dest/provenance.json" "$@" -- "$dest"
    total=$(find "$parent"/demo_* -type f -exec cat {} + | wc -c)
    log "the packed pairs in $parent hold $total bytes of at most $MAX_PACK_BYTES"
    [[ $total -le $MAX_PACK_BYTES ]] ||
        fail "the packed pairs in $parent hold $total bytes, more than MAX_PACK_BYTES" \
            "($MAX_PACK_BYTES): train a smaller drafter or verifier"
}
