# CNN-DM, summarisation: what the steps share. Source it.
# shellcheck shell=bash
# shellcheck disable=SC2034  # scripts/lib/summarisation.sh reads what is set here

BENCHMARK=cnndm
# Those that fairseq publishes for BART on this corpus (examples/bart/summarize.py); the papers give none.
FULL_LENGTHS="--max-len-a 0 --max-len-b 140 --min-len 55 --no-repeat-ngram-size 3 --lenpen 2.0"
FULL_DISTILL=$FULL_LENGTHS
: "${DISTILL_BEAM:=4}"
: "${MODELS:=teacher baseline verifier nar_drafter spec_drafter}"
DECODE_SETS="teacher baseline base bild"
MEMORY_SETS="memory" MEMORY_SIZES="1"
RECIPE_NOTE="CNN-DM, not anonymised, sources cut at 1,000 subwords; ROUGE by rouge-score, R-L is rougeLsum"
# shellcheck source=scripts/lib/summarisation.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/summarisation.sh"
