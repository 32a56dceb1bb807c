# German-English (Big Little Decoder): what the steps share. CORPUS=iwslt17|wmt14. Source it.
# shellcheck shell=bash
# shellcheck disable=SC2034  # scripts/lib/translation.sh reads what is set here

case ${CORPUS:=iwslt17} in
    iwslt17)
        BENCHMARK=iwslt17_deen LANGUAGES=(de en)
        RECIPE_NOTE="IWSLT 2017"
        ;;
    wmt14) # the corpus of scripts/wmt14_ende, the paper's other one
        BENCHMARK=wmt14_deen LANGUAGES=(en de)
        SOURCES=$(dirname "${BASH_SOURCE[0]}")/../wmt14_ende/sources.tsv
        PAPER=$(dirname "${BASH_SOURCE[0]}")/paper_wmt14.tsv
        RECIPE_NOTE="WMT14, cleaned and tokenised by this recipe"
        ;;
    *)
        printf 'CORPUS: %s is neither iwslt17 nor wmt14\n' "$CORPUS" >&2
        exit 1
        ;;
esac
RECIPE_NOTE+="; models of the paper's shapes from a random start, where the paper has mT5"
: "${DIRECTION:=de-en}"
: "${MERGES:=32000}"
: "${DISTILL_BEAM:=1}" # prediction alignment: what the large model says greedily
: "${MODELS:=all}"
DECODE_SETS="bild"
MEMORY_SETS="" MEMORY_SIZES="1"
TEXT_FLAGS=""
# shellcheck source=scripts/lib/translation.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/translation.sh"
