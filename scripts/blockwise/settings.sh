# What the steps of scripts/blockwise share. Source it after scripts/lib/demo.sh.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the steps read what is set here

# shellcheck source=scripts/lib/verifier.sh
source "$LIB/verifier.sh" # the base model
# shellcheck source=scripts/lib/train.sh
source "$LIB/train.sh"
# shellcheck source=scripts/blockwise/models.sh
source "$REPO/scripts/blockwise/models.sh"

: "${DISTILLED:=$WORK/bin/ende_distilled}" # the same corpus with the base model's own output
: "${OUT:=$WORK/blockwise}"
case ${PROFILE:=full} in
    full) : "${HEAD_UPDATES:=1500}" "${TOKENS:=4096}" ;;
    # Minutes: shows that every step runs, not how well the models do.
    smoke) : "${HEAD_UPDATES:=10}" "${TOKENS:=1024}" ;;
    *) fail "PROFILE: $PROFILE is neither full nor smoke" ;;
esac
TRAIN_FLAGS=(--skip-invalid-size-inputs-valid-test)
mkdir -p "$OUT"
