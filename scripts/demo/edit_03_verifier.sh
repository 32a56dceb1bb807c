#!/usr/bin/env bash
# Train the editing verifier (4+4 layers, 128 wide) and average its last checkpoints:
# $WORK/edit_verifier/verifier.pt. EDIT_UPDATES=6000, SAVE_EVERY=400, AVERAGE=4. It resumes.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
find_python
need fairseq-train

bin=$WORK/bin/edit
dir=$WORK/edit_verifier
updates=${EDIT_UPDATES:-6000}
every=${SAVE_EVERY:-400}
average=${AVERAGE:-4}
inputs=("$bin/dict.src.txt" "$bin/train.src-tgt.src.bin" "$bin/train.src-tgt.tgt.bin")
finished "$dir/provenance.json" "${inputs[@]}" && exit
use_device
run fairseq-train "$bin" "${DEVICE_FLAGS[@]}" --user-dir "$REPO/fairseq_specdec" --seed "$SEED" \
    --task translation -s src -t tgt --arch transformer --share-all-embeddings --dropout 0.0 \
    --encoder-layers 4 --encoder-embed-dim 128 --encoder-ffn-embed-dim 512 \
    --encoder-attention-heads 4 --encoder-normalize-before \
    --decoder-layers 4 --decoder-embed-dim 128 --decoder-ffn-embed-dim 512 \
    --decoder-attention-heads 4 --decoder-normalize-before \
    --criterion cross_entropy --optimizer adam --adam-betas '(0.9,0.98)' --clip-norm 1.0 \
    --lr 2e-3 --lr-scheduler polynomial_decay --warmup-updates 400 \
    --total-num-update "$updates" --max-update "$updates" --max-tokens 4096 \
    --max-source-positions 256 --max-target-positions 256 --skip-invalid-size-inputs-valid-test \
    --save-dir "$dir" --save-interval-updates "$every" --keep-interval-updates "$average" \
    --validate-interval-updates "$every" --no-epoch-checkpoints \
    --no-progress-bar --log-format simple --log-interval 20 --num-workers 0 >> "$dir.log" 2>&1 ||
    fail "fairseq-train failed: see $dir.log"
run "$PYTHON" "$LIB/average_checkpoints.py" "$dir" --last "$average" --output "$dir/verifier.pt"
record "$dir/provenance.json" "${inputs[@]}" -- "$dir/verifier.pt"
