# WikiLarge, simplification: what the steps share. Source it.
# shellcheck shell=bash
# shellcheck disable=SC2034  # scripts/lib/simplification.sh reads what is set here

BENCHMARK=wikilarge
: "${MODELS:=all}"
DECODE_SETS="wikilarge"
RECIPE_NOTE="WikiLarge, TurkCorpus's 8 references; SARI and BLEU on tokens in lower case"
# shellcheck source=scripts/lib/simplification.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/simplification.sh"
