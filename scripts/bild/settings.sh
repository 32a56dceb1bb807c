# What the steps of scripts/bild share. Source it after scripts/lib/demo.sh.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the steps read what is set here

: "${BIN:=$WORK/bin/ende}"                    # binarised corpus, with the verifier's dictionaries
: "${VERIFIER:=$WORK/verifier/verifier.pt}"   # the big model
: "${SRC:=en}" "${TGT:=de}"
: "${OUT:=$WORK/bild}"
# Shape of the big model, for the early exit, which is the same model: as 03_verifier.sh of the demo.
: "${VERIFIER_FLAGS:=--share-all-embeddings --encoder-layers 6 --encoder-embed-dim 256
    --encoder-ffn-embed-dim 512 --encoder-attention-heads 4 --encoder-normalize-before
    --decoder-layers 6 --decoder-embed-dim 256 --decoder-ffn-embed-dim 512
    --decoder-attention-heads 4 --decoder-normalize-before
    --max-source-positions 256 --max-target-positions 256}"
# The small model: a decoder with about a twentieth of the parameters, as in the paper (Table 2).
: "${SMALL_FLAGS:=--share-all-embeddings --encoder-layers 4 --encoder-embed-dim 128
    --encoder-ffn-embed-dim 256 --encoder-attention-heads 4 --encoder-normalize-before
    --decoder-layers 1 --decoder-embed-dim 128 --decoder-ffn-embed-dim 256
    --decoder-attention-heads 4 --decoder-normalize-before
    --max-source-positions 256 --max-target-positions 256}"
case ${PROFILE:=full} in
    full) : "${SMALL_UPDATES:=12000}" "${ALIGN_UPDATES:=6000}" "${EXIT_UPDATES:=3000}" \
        "${LIMIT:=0}" "${TOKENS:=4096}" ;;
    # Minutes: shows that every step runs, not how well the models do.
    smoke) : "${SMALL_UPDATES:=20}" "${ALIGN_UPDATES:=10}" "${EXIT_UPDATES:=10}" \
        "${LIMIT:=40}" "${TOKENS:=1024}" ;;
    *) fail "PROFILE: $PROFILE is neither full nor smoke" ;;
esac
CORPUS=("$BIN/dict.$SRC.txt" "$BIN/train.$SRC-$TGT.$SRC.bin" "$BIN/train.$SRC-$TGT.$TGT.bin")
mkdir -p "$OUT"

# train_model CORPUS DIR UPDATES LR FLAG...: fairseq-train, then DIR/model.pt; it resumes.
train_model() {
    local corpus=$1 dir=$2 updates=$3 rate=$4 log=$2.log
    shift 4
    mkdir -p "$dir"
    run fairseq-train "$corpus" "${DEVICE_FLAGS[@]}" --user-dir "$REPO/fairseq_specdec" \
        --seed "$SEED" --task translation -s "$SRC" -t "$TGT" --dropout 0.0 "$@" \
        --optimizer adam --adam-betas '(0.9,0.98)' --clip-norm 1.0 \
        --lr "$rate" --lr-scheduler polynomial_decay --warmup-updates "$((updates / 10))" \
        --total-num-update "$updates" --max-update "$updates" --max-tokens "$TOKENS" \
        --skip-invalid-size-inputs-valid-test --save-dir "$dir" --no-epoch-checkpoints \
        --save-interval-updates "$(((updates + 9) / 10))" --keep-interval-updates 1 \
        --validate-interval-updates "$updates" \
        --no-progress-bar --log-format simple --log-interval 20 --num-workers 0 >> "$log" 2>&1 ||
        fail "fairseq-train failed: see $log"
    run "$PYTHON" "$LIB/average_checkpoints.py" "$dir" --last 1 --output "$dir/model.pt"
}
