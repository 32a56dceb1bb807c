# XSum, summarisation (Big Little Decoder): what the steps share. Source it.
# shellcheck shell=bash
# shellcheck disable=SC2034  # scripts/lib/summarisation.sh reads what is set here

BENCHMARK=xsum
# Those that fairseq publishes for BART on this corpus (examples/bart/summarize.py); the paper gives none.
FULL_LENGTHS="--max-len-a 0 --max-len-b 60 --min-len 10 --no-repeat-ngram-size 3"
FULL_DISTILL=$FULL_LENGTHS
: "${DISTILL_BEAM:=1}" # prediction alignment: what the large model says greedily
: "${MODELS:=all}"
DECODE_SETS="bild"
MEMORY_SETS="" MEMORY_SIZES="1"
RECIPE_NOTE="XSum, sources cut at 1,000 subwords; BARTs where the paper has T5s; ROUGE by rouge-score"
# shellcheck source=scripts/lib/summarisation.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/summarisation.sh"
