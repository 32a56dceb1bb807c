# Which blockwise models there are. Source it after scripts/lib/demo.sh.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the steps read what is set here

# CORPUS/WAY_K: trained on the original corpus or the distilled one, the base model frozen or tuned
# with the heads, k heads.
: "${MODELS:=original/frozen_4 original/tuned_4 distilled/frozen_4 distilled/tuned_4
    distilled/frozen_8 distilled/tuned_8}"
for model in $MODELS; do
    [[ $model =~ ^(original|distilled)/(frozen|tuned)_([2-9]|[1-9][0-9]+)$ ]] ||
        fail "MODELS: $model is not CORPUS/WAY_K with CORPUS original or distilled, WAY frozen or" \
            "tuned, and K 2 or more"
done

# describe MODEL: set CORPUS_NAME, WAY and K.
describe() {
    CORPUS_NAME=${1%%/*} WAY=${1#*/} K=${1##*_}
    WAY=${WAY%_*}
}
