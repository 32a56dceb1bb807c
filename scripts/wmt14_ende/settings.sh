# WMT14 English-German, both directions: what the steps share. Source it.
# shellcheck shell=bash
# shellcheck disable=SC2034  # scripts/lib/translation.sh reads what is set here

BENCHMARK=wmt14_ende
LANGUAGES=(en de)
: "${DIRECTION:=en-de}"
: "${MERGES:=32000}"
: "${DISTILL_BEAM:=5}"
: "${MODELS:=teacher verifier nar_drafter spec_drafter}"
DECODE_SETS="base"
MEMORY_SETS="memory" MEMORY_SIZES="1,4,8,16,32"
TEXT_FLAGS=""
RECIPE_NOTE="WMT14, cleaned and tokenised by this recipe, not the papers' copy"
# shellcheck source=scripts/lib/translation.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/translation.sh"
