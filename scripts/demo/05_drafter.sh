#!/usr/bin/env bash
# Train the drafter on the distilled corpus, starting from the verifier's layers, and average its
# last checkpoints: $WORK/drafter/drafter.pt.
# DRAFTER=attached (2 layers that read the verifier, with a chain head; 256 wide) or DRAFTER=spec (the
# papers' model of its own: 12+2 layers), DRAFTER_UPDATES=25000, DRAFTER_TOKENS=1800, BLOCK=10, CUTS=4,
# SAVE_EVERY=250, AVERAGE=4. It resumes.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
find_python
need fairseq-train

bin=$WORK/bin/ende_distilled
verifier=$WORK/verifier/verifier.pt
dir=$WORK/drafter
updates=${DRAFTER_UPDATES:-25000}
every=${SAVE_EVERY:-250}
average=${AVERAGE:-4}
inputs=("$verifier" "$bin/dict.en.txt" "$bin/train.en-de.en.bin" "$bin/train.en-de.de.bin")
finished "$dir/provenance.json" "${inputs[@]}" && exit
case ${DRAFTER:=attached} in
    attached)
        model=(--arch attached_drafter_base --attach-to "$verifier" --chain-width 256
            --soft-targets 0.5 --lr 2e-3 --warmup-updates 400)
        ;;
    spec)
        model=(--arch spec_drafter_base --source-copy --init-encoder-from "$verifier"
            --lr 1e-3 --warmup-updates 300)
        ;;
    *) fail "DRAFTER: $DRAFTER is neither attached nor spec" ;;
esac
use_device
run fairseq-train "$bin" "${DEVICE_FLAGS[@]}" --user-dir "$REPO/fairseq_specdec" --seed "$SEED" \
    --task translation -s en -t de "${model[@]}" --share-all-embeddings --dropout 0.0 \
    --encoder-embed-dim 256 --encoder-ffn-embed-dim 512 --encoder-attention-heads 4 \
    --encoder-normalize-before --decoder-normalize-before \
    --block-size "${BLOCK:-10}" --num-cuts "${CUTS:-4}" \
    --init-decoder-from "$verifier" --init-decoder-layers 0,5 \
    --criterion glancing_block_loss --label-smoothing 0 \
    --glancing-start 0 --glancing-stop 0 --block-loss-decay 0.85 \
    --optimizer adam --adam-betas '(0.9,0.98)' --clip-norm 10.0 \
    --lr-scheduler polynomial_decay \
    --total-num-update "$updates" --max-update "$updates" --max-tokens "${DRAFTER_TOKENS:-1800}" \
    --max-source-positions 256 --max-target-positions 256 --skip-invalid-size-inputs-valid-test \
    --save-dir "$dir" --save-interval-updates "$every" --keep-interval-updates "$average" \
    --validate-interval-updates "$((4 * every))" --no-epoch-checkpoints \
    --best-checkpoint-metric accepted --maximize-best-checkpoint-metric \
    --no-progress-bar --log-format simple --log-interval 20 --num-workers 0 >> "$dir.log" 2>&1 ||
    fail "fairseq-train failed: see $dir.log"
run "$PYTHON" "$LIB/average_checkpoints.py" "$dir" --last "$average" --output "$dir/drafter.pt"
record "$dir/provenance.json" "${inputs[@]}" -- "$dir/drafter.pt"
