# The papers' translation tables at the scale of one machine: what the steps share. Source it.
# VERIFIER=FILE (default: the demo pair's), DICTIONARIES=FOLDER (of the verifier's dict.en.txt, dict.de.txt
# and codes; default: VERIFIER's), ATTACHED=FILE (a drafter that reads this verifier; default: the demo
# pair's, none for another VERIFIER), UPDATES=2000 of every drafter, RECIPE_NOTE: what the tables say of it.
# shellcheck shell=bash
# shellcheck disable=SC2034  # scripts/lib/translation.sh reads what is set here

BENCHMARK=ende_small
LANGUAGES=(en de)
: "${DIRECTION:=en-de}"
: "${MERGES:=8000}"
: "${DISTILL_BEAM:=1}"
: "${MODELS:=all}"
case ${PROFILE:-full} in
    # The shapes are those of the full recipe: a drafter starts from the verifier's layers.
    smoke) : "${UPDATES:=6}" "${SAVE_EVERY:=3}" "${AVERAGE:=2}" "${SMOKE_SHAPES:=own}" ;;
    *) : "${UPDATES:=2000}" "${SAVE_EVERY:=250}" "${AVERAGE:=4}" ;;
esac
: "${CPU_PRECISION:=bf16}" # half the memory traffic, which bounds training on a CPU
TEACHER=verifier
DECODE_SETS="base"
MEMORY_SETS=""
TEXT_FLAGS=""
: "${RECIPE_NOTE:=262,540 pairs of Debian packages (scripts/demo), models 256 wide, $UPDATES updates of each drafter}"
# What 2 CPU cores train in half an hour: the published shape, narrower, on one batch of 1,800 tokens.
SMALL="optimization.update_freq=[1] optimization.max_update=$UPDATES optimization.lr=[0.001]
 optimization.clip_norm=10.0 lr_scheduler.warmup_updates=300 optimizer.weight_decay=0.0
 dataset.max_tokens=1800 dataset.num_workers=0 common.log_interval=20
 checkpoint.save_interval_updates=$SAVE_EVERY checkpoint.keep_interval_updates=$AVERAGE
 dataset.validate_interval_updates=1000
 criterion.label_smoothing=0.0 criterion.glancing_start=0.0 criterion.glancing_stop=0.0
 model.num_cuts=4 model.bidirectional_prefix=false model.dropout=0.0
 model.max_source_positions=256 model.max_target_positions=256
 +model.encoder_normalize_before=true +model.decoder_normalize_before=true"
HYDRA_FLAGS="${SMALL//$'\n'/} ${HYDRA_FLAGS:-}"
# shellcheck source=scripts/lib/translation.sh
source "$(dirname "${BASH_SOURCE[0]}")/../lib/translation.sh"

[[ $DIRECTION == en-de ]] || fail "DIRECTION: $DIRECTION: the verifier and the tables here are en-de"
PAIR_FOLDER=$REPO/data-bin/demo_ende
: "${VERIFIER:=$PAIR_FOLDER/verifier.pt}"
: "${DICTIONARIES:=$(dirname "$VERIFIER")}"
if [[ $VERIFIER -ef $PAIR_FOLDER/verifier.pt ]]; then : "${ATTACHED:=$PAIR_FOLDER/drafter.pt}"; fi
