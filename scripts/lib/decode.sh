# Decode a test set, one sentence at a time. Source it after demo.sh; it reads BIN, SRC, TGT, SUBSET,
# DECODED (a folder), LENGTH_FLAGS (as --max-len-b 60) and, for flags of a whole recipe, DECODE_FLAGS.
# shellcheck shell=bash

# decode NAME MODEL FLAG...: $DECODED/NAME.out, whose last line may hold BLEU, and NAME.log, whose
# last line holds the times, Tok. and Iter.
decode() {
    local name=$1 model=$2 flags
    shift 2
    read -ra flags <<< "${LENGTH_FLAGS:-}"
    case ${DEVICE_FLAGS[0]} in --cpu) flags+=(--cpu) ;; esac
    mkdir -p "$DECODED"
    run fairseq-generate "$BIN" --user-dir "$REPO/fairseq_specdec" --gen-subset "$SUBSET" \
        -s "$SRC" -t "$TGT" --path "$model" --task translation_specdec "$@" \
        ${flags[@]+"${flags[@]}"} --batch-size 1 --beam 1 \
        ${DECODE_FLAGS[@]+"${DECODE_FLAGS[@]}"} --no-progress-bar --num-workers 0 \
        > "$DECODED/$name.out" 2> "$DECODED/$name.log" ||
        fail "fairseq-generate failed: see $DECODED/$name.log"
    log "$name: $(grep -o 'strategy .*' "$DECODED/$name.log" | tail -n 1)"
}
