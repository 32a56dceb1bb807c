#!/usr/bin/env bash
# Train the verifier (6+6 layers, 256 wide) and average its last checkpoints: $WORK/verifier/verifier.pt.
# UPDATES=4000, SAVE_EVERY=400, AVERAGE=4. Stop it at any time; the same command resumes.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
find_python
need fairseq-train

bin=$WORK/bin/ende
dir=$WORK/verifier
updates=${UPDATES:-4000}
every=${SAVE_EVERY:-400}
average=${AVERAGE:-4}
finished "$dir/provenance.json" "$bin/dict.en.txt" "$bin/train.en-de.en.bin" \
    "$bin/train.en-de.de.bin" && exit
use_device
run fairseq-train "$bin" "${DEVICE_FLAGS[@]}" --user-dir "$REPO/fairseq_specdec" --seed "$SEED" \
    --task translation -s en -t de --arch transformer --share-all-embeddings --dropout 0.0 \
    --encoder-layers 6 --encoder-embed-dim 256 --encoder-ffn-embed-dim 512 \
    --encoder-attention-heads 4 --encoder-normalize-before \
    --decoder-layers 6 --decoder-embed-dim 256 --decoder-ffn-embed-dim 512 \
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
record "$dir/provenance.json" "$bin/dict.en.txt" "$bin/train.en-de.en.bin" \
    "$bin/train.en-de.de.bin" -- "$dir/verifier.pt"
