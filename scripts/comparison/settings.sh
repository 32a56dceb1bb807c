# What the steps of scripts/comparison share. Source it after scripts/lib/demo.sh.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the steps read what is set here

# shellcheck source=scripts/lib/verifier.sh
source "$LIB/verifier.sh"
# shellcheck source=scripts/blockwise/models.sh
source "$REPO/scripts/blockwise/models.sh"

: "${OUT:=$WORK/comparison}"
: "${BLOCKWISE:=$WORK/blockwise}"                    # the OUT of scripts/blockwise
: "${BILD:=$WORK/bild}"                              # the OUT of scripts/bild
: "${DRAFTER=$REPO/data-bin/demo_ende/drafter.pt}"   # of gad and gad++; empty: without them
: "${GAD_FLAGS=--draft-confidence 0.05}"
case ${PROFILE:=full} in
    full) : "${SENTENCES:=0}" "${BENCH_FLAGS=}" ;;
    # Minutes: shows that every step runs, not how well the models do.
    smoke) : "${SENTENCES:=10}" "${BENCH_FLAGS=--no-memory --warmup 1}" ;;
    *) fail "PROFILE: $PROFILE is neither full nor smoke" ;;
esac
mkdir -p "$OUT"
