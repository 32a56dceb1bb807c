# Train a model the way all recipes do. Source it after demo.sh; it reads SRC, TGT, TOKENS and, for
# flags of a whole recipe, TRAIN_FLAGS.
# shellcheck shell=bash

# train_model CORPUS DIR UPDATES LR FLAG...: fairseq-train, then DIR/model.pt; it resumes.
train_model() {
    local corpus=$1 dir=$2 updates=$3 rate=$4 log=$2.log
    shift 4
    mkdir -p "$dir"
    "$PYTHON" "$LIB/mend_checkpoint.py" "$dir" || fail "the training cannot go on: see above"
    run fairseq-train "$corpus" "${DEVICE_FLAGS[@]}" --user-dir "$REPO/fairseq_specdec" \
        --seed "$SEED" --task translation -s "$SRC" -t "$TGT" --dropout 0.0 "$@" \
        --optimizer adam --adam-betas '(0.9,0.98)' --clip-norm 1.0 \
        --lr "$rate" --lr-scheduler polynomial_decay --warmup-updates "$((updates / 10))" \
        --total-num-update "$updates" --max-update "$updates" --max-tokens "$TOKENS" \
        ${TRAIN_FLAGS[@]+"${TRAIN_FLAGS[@]}"} --save-dir "$dir" --no-epoch-checkpoints \
        --save-interval-updates "$(((updates + 9) / 10))" --keep-interval-updates 1 \
        --validate-interval-updates "$updates" \
        --no-progress-bar --log-format simple --log-interval 20 --num-workers 0 >> "$log" 2>&1 ||
        fail "fairseq-train failed: see $log"
    run "$PYTHON" "$LIB/average_checkpoints.py" "$dir" --last 1 --output "$dir/model.pt"
}
