# What the steps of scripts/bild share. Source it after scripts/lib/demo.sh.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the steps read what is set here

# shellcheck source=scripts/lib/verifier.sh
source "$LIB/verifier.sh" # the big model
# shellcheck source=scripts/lib/train.sh
source "$LIB/train.sh"

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
TRAIN_FLAGS=(--skip-invalid-size-inputs-valid-test)
mkdir -p "$OUT"
