# What the steps of scripts/superresolution share. Source it after scripts/lib/demo.sh.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the steps read what is set here

# shellcheck source=scripts/lib/train.sh
source "$LIB/train.sh"

: "${OUT:=$WORK/superresolution}"
: "${KS:=1 2 4 6 8 10}"      # k of Table 2; 1 is the base model alone
: "${EPSILON:=2}"            # of approximate decoding (section 5.2)
: "${FIRST_HEAD:=learned}"   # as in the paper; identity keeps the base model's output
case ${PROFILE:=full} in
    full)
        : "${SIDE:=16}" "${FACTOR:=2}" "${PATCHES:=12000}"
        : "${BASE_UPDATES:=5000}" "${HEAD_UPDATES:=300}" "${TUNED_UPDATES:=800}"
        : "${WIDTH:=64}" "${LAYERS:=2}" "${TOKENS:=4000}" "${TEST:=24}"
        ;;
    # Minutes: shows that every step runs, not how well the models do.
    smoke)
        : "${SIDE:=8}" "${FACTOR:=2}" "${PATCHES:=100}"
        : "${BASE_UPDATES:=20}" "${HEAD_UPDATES:=10}" "${TUNED_UPDATES:=10}"
        : "${WIDTH:=32}" "${LAYERS:=1}" "${TOKENS:=2000}" "${TEST:=4}"
        ;;
    *) fail "PROFILE: $PROFILE is neither full nor smoke" ;;
esac
BIN=$OUT/bin
SRC=low TGT=high
TRAIN_FLAGS=()
LENGTH=$((SIDE * SIDE))
CORPUS=("$BIN/dict.low.txt" "$BIN/train.low-high.low.bin" "$BIN/train.low-high.high.bin")
export PYTHONPATH=$REPO/scripts/superresolution${PYTHONPATH:+:$PYTHONPATH}
mkdir -p "$OUT"
