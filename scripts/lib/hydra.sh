# Train what a YAML of configs/ describes, on the devices at hand. Source it after demo.sh and launch.sh.
# MAX_TOKENS (what fits into a GPU; default: the YAML's), AVERAGE=10, SMOKE_UPDATES=12, HYDRA_FLAGS (more
# overrides, as optimization.max_update=1000), SMOKE_SHAPES=tiny (own: PROFILE=smoke keeps the shapes).
# shellcheck shell=bash

: "${AVERAGE:=10}" "${SMOKE_UPDATES:=12}" "${SMOKE_SHAPES:=tiny}"

# train_config DIR CORPUS SRC TGT CONFIG OVERRIDE...: DIR/model.pt, the average of the last AVERAGE
# checkpoints; it resumes. With FROZEN=FILE the parameters of that checkpoint are put back.
train_config() {
    local dir=$1 corpus=$2 src=$3 tgt=$4 yaml=$REPO/configs/$5.yaml overrides=() options=() more
    local name=$5
    shift 5
    mkdir -p "$dir"
    [[ $PROFILE == smoke && $SMOKE_SHAPES == tiny ]] && options+=(--smoke "$SMOKE_UPDATES")
    [[ -n ${MAX_TOKENS:-} ]] && options+=(--max-tokens "$MAX_TOKENS")
    "$PYTHON" "$LIB/recipe_config.py" "$yaml" --gpus "$WORLD" ${options[@]+"${options[@]}"} \
        > "$dir/overrides" || fail "configs/$name.yaml cannot be used: see above"
    while read -r more; do overrides+=("$more"); done < "$dir/overrides"
    if $ON_CPU; then overrides+=(common.cpu=true); fi
    case $PRECISION in
        fp32) overrides+=(common.fp16=false) ;;
        bf16) overrides+=(common.fp16=false common.bf16=true) ;;
    esac
    read -ra more <<< "${HYDRA_FLAGS:-}"
    "$PYTHON" "$LIB/mend_checkpoint.py" "$dir/checkpoints" || fail "the training cannot go on: see above"
    launch "$LIB/hydra_train.py" --config-dir "$REPO/configs" --config-name "$name" \
        "common.user_dir='$REPO/fairseq_specdec'" "common.seed=$SEED" "task.data='$corpus'" \
        "task.source_lang=$src" "task.target_lang=$tgt" \
        "checkpoint.save_dir='$dir/checkpoints'" "hydra.run.dir='$dir/hydra'" "${overrides[@]}" \
        "$@" ${more[@]+"${more[@]}"} >> "$dir/train.log" 2>&1 ||
        fail "fairseq-hydra-train failed: see $dir/train.log"
    [[ $NODE_RANK == 0 ]] || return 0
    options=()
    [[ -n ${FROZEN:-} ]] && options+=(--frozen "$FROZEN")
    run "$PYTHON" "$LIB/average_checkpoints.py" "$dir/checkpoints" --last "$AVERAGE" \
        ${options[@]+"${options[@]}"} --output "$dir/model.pt"
}
