# WMT16 English-Romanian, both directions: what the steps share. Source it.
# shellcheck shell=bash
# shellcheck disable=SC2034  # scripts/lib/translation.sh reads what is set here

BENCHMARK=wmt16_enro
LANGUAGES=(en ro)
: "${DIRECTION:=en-ro}"
: "${MERGES:=32000}"
: "${DISTILL_BEAM:=5}"
: "${MODELS:=teacher verifier nar_drafter spec_drafter}"
DECODE_SETS="base"
MEMORY_SETS="" MEMORY_SIZES="1"
TEXT_FLAGS="--romanian"
RECIPE_NOTE="WMT16, prepared by this recipe (Romanian without diacritics), unless TOKENISED named another"
# shellcheck source=scripts/lib/translation.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/translation.sh"
