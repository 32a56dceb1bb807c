#!/usr/bin/env bash
# The steps of a recipe under Slurm, one training over all nodes of the job; to resume
# a job that was stopped, send it again. Before the first, prepare on a machine that reaches the network:
#   scripts/run wmt14_ende 01_prepare
#   sbatch --nodes 2 --gres gpu:4 scripts/slurm/train.sh wmt14_ende 02_train_teacher
# RECIPE's settings come from the environment, which sbatch hands on; REPO: the checkout (default: the
# folder that sbatch was called in); MASTER_PORT=29500.
#SBATCH --ntasks-per-node=1
#SBATCH --requeue
#SBATCH --open-mode=append
set -euo pipefail
[[ $# -ge 2 ]] || {
    printf 'usage: sbatch scripts/slurm/train.sh RECIPE STEP...\n' >&2
    exit 1
}
: "${REPO:=${SLURM_SUBMIT_DIR:-$PWD}}"
[[ -f $REPO/scripts/run ]] || {
    printf 'train: %s has no scripts/run; call sbatch in the checkout, or set REPO\n' "$REPO" >&2
    exit 1
}
"$REPO/scripts/run" "$1" --list > /dev/null # fails on a recipe or a setting that is wrong
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST")
master=${hosts%%$'\n'*} # the first; head would close the pipe while scontrol still writes
export NODES=$SLURM_JOB_NUM_NODES
export TORCHRUN_FLAGS="--nnodes $NODES --rdzv_id $SLURM_JOB_ID --rdzv_backend c10d"
TORCHRUN_FLAGS+=" --rdzv_endpoint $master:${MASTER_PORT:-29500}"
export REPO
# One task a node; torchrun, within, starts one process for each of its GPUs.
# shellcheck disable=SC2016  # each task expands them
# One that fails ends them all: the others wait for the first one's models.
srun --kill-on-bad-exit=1 bash -c 'NODE_RANK=$SLURM_NODEID "$REPO/scripts/run" "$@"' run "$@"
