# English error correction, BEA-19 restricted data, CoNLL-13 and CoNLL-14: what the steps share. Source it.
# shellcheck shell=bash
# shellcheck disable=SC2034  # scripts/lib/gec.sh reads what is set here

BENCHMARK=gec_conll14
# Names of sources.tsv: the corpora of each stage.
TRAIN_DATA="LANG8 NUCLE FCE WI" FINETUNE_DATA="NUCLE FCE WI"
VALID_DATA=CONLL13 TEST_DATA=CONLL14
: "${MODELS:=scratch pretrain finetune drafter}"
: "${VERIFIER_MODEL:=finetune}" # distilled for the drafter
: "${METRIC:=m2}"               # or both: ERRANT too, which wants gold files of its own edits
RECIPE_NOTE="BEA-19 restricted track as the user got it; synthetic errors by specdec-noise on CLEAN"
# shellcheck source=scripts/lib/gec.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/gec.sh"
