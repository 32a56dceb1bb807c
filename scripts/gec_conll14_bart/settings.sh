# English error correction by 12+2 BART-Init: what the steps share. Source it.
# shellcheck shell=bash
# shellcheck disable=SC2034  # scripts/lib/gec.sh reads what is set here

BENCHMARK=gec_conll14_bart SUBWORDS=gpt2
SOURCES=$(cd "$(dirname "${BASH_SOURCE[0]}")/../gec_conll14" && pwd)/sources.tsv
# Names of sources.tsv: the corpora of each stage.
TRAIN_DATA="LANG8 NUCLE FCE WI" FINETUNE_DATA="NUCLE FCE WI"
VALID_DATA=CONLL13 TEST_DATA=CONLL14
: "${MODELS:=start pretrain finetune staged}"
: "${VERIFIER_MODEL:=staged}"
: "${METRIC:=m2}"
RECIPE_NOTE="BEA-19 restricted track as the user got it; synthetic errors by specdec-noise on CLEAN"
# shellcheck source=scripts/lib/gec.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/gec.sh"
