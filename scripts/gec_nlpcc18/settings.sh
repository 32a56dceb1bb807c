# Chinese error correction, NLPCC-18: what the steps share. Source it.
# shellcheck shell=bash
# shellcheck disable=SC2034  # scripts/lib/gec.sh reads what is set here

BENCHMARK=gec_nlpcc18
# Names of sources.tsv: the corpora of each stage. There is no pretraining (Ge et al. 2022, A.1).
TRAIN_DATA="NLPCC18_TRAIN" FINETUNE_DATA=""
VALID_DATA=NLPCC18_VALID TEST_DATA=NLPCC18_TEST
CHARACTERS="--characters" # subwords are learnt on characters; scores are of words, see SEGMENTER
: "${MODELS:=scratch drafter}"
: "${VERIFIER_MODEL:=scratch}"
: "${METRIC:=m2}"
: "${SEGMENTER:=}" # command from lines to words between blanks; the shared task used PKUNLP's
RECIPE_NOTE="NLPCC-18 as the user got it"
# shellcheck source=scripts/lib/gec.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/gec.sh"
