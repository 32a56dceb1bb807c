#!/usr/bin/env bash
# Distillation of a recipe as a Slurm array: the elements share the sentences, and whoever finishes last
# publishes the corpus. To resume an element that was stopped, send it again.
#   sbatch --array 0-15 --gres gpu:1 scripts/slurm/distill.sh wmt14_ende
# The recipe's settings come from the environment, which sbatch hands on; REPO: as in train.sh.
#SBATCH --ntasks=1
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
[[ $# -ge 1 ]] || {
    printf 'usage: sbatch --array 0-N scripts/slurm/distill.sh RECIPE [NAME=VALUE ...]\n' >&2
    exit 1
}
: "${REPO:=${SLURM_SUBMIT_DIR:-$PWD}}"
[[ -f $REPO/scripts/run ]] || {
    printf 'distill: %s has no scripts/run; call sbatch in the checkout, or set REPO\n' "$REPO" >&2
    exit 1
}
steps=$("$REPO/scripts/run" "$1" --list)
[[ $steps =~ [0-9]+_distill ]] || {
    printf 'distill: %s has no step that distils; name a recipe that has one\n' "$1" >&2
    exit 1
}
"$REPO/scripts/run" "$1" "${BASH_REMATCH[0]}" "${@:2}"
