# What the steps of scripts/superresolution share. Source it after scripts/lib/demo.sh.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the steps read what is set here

: "${OUT:=$WORK/superresolution}"
: "${KS:=1 2 4 6 8 10}"      # k of Table 2; 1 is the base model alone
: "${EPSILON:=2}"            # of approximate decoding (section 5.2)
: "${FIRST_HEAD:=learned}"   # as in the paper; identity keeps the base model's output
case ${PROFILE:=full} in
    full)
        : "${SIDE:=24}" "${PATCHES:=12000}" "${BASE_UPDATES:=4000}" "${HEAD_UPDATES:=1000}"
        : "${WIDTH:=256}" "${LAYERS:=4}" "${TOKENS:=6000}" "${TEST:=24}"
        ;;
    # Minutes: shows that every step runs, not how well the models do.
    smoke)
        : "${SIDE:=8}" "${PATCHES:=100}" "${BASE_UPDATES:=20}" "${HEAD_UPDATES:=10}"
        : "${WIDTH:=32}" "${LAYERS:=1}" "${TOKENS:=2000}" "${TEST:=4}"
        ;;
    *) fail "PROFILE: $PROFILE is neither full nor smoke" ;;
esac
BIN=$OUT/bin
LENGTH=$((SIDE * SIDE))
CORPUS=("$BIN/dict.low.txt" "$BIN/train.low-high.low.bin" "$BIN/train.low-high.high.bin")
export PYTHONPATH=$REPO/scripts/superresolution${PYTHONPATH:+:$PYTHONPATH}
mkdir -p "$OUT"

# train_model DIR UPDATES LR FLAG...: fairseq-train, then DIR/model.pt; it resumes.
train_model() {
    local dir=$1 updates=$2 rate=$3 log=$1.log
    shift 3
    mkdir -p "$dir"
    run fairseq-train "$BIN" "${DEVICE_FLAGS[@]}" --user-dir "$REPO/fairseq_specdec" \
        --seed "$SEED" --task translation -s low -t high --dropout 0.0 "$@" \
        --optimizer adam --adam-betas '(0.9,0.98)' --clip-norm 1.0 \
        --lr "$rate" --lr-scheduler polynomial_decay --warmup-updates "$((updates / 10))" \
        --total-num-update "$updates" --max-update "$updates" --max-tokens "$TOKENS" \
        --save-dir "$dir" --no-epoch-checkpoints \
        --save-interval-updates "$(((updates + 9) / 10))" --keep-interval-updates 1 \
        --validate-interval-updates "$updates" \
        --no-progress-bar --log-format simple --log-interval 20 --num-workers 0 >> "$log" 2>&1 ||
        fail "fairseq-train failed: see $log"
    run "$PYTHON" "$LIB/average_checkpoints.py" "$dir" --last 1 --output "$dir/model.pt"
}
