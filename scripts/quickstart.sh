#!/usr/bin/env bash
# Usage: bash scripts/quickstart.sh [--full] [--help] [flag of the measurement ...]
#
# Makes an environment, installs fairseq_specdec in it, decodes 50 held-out sentences of each demo
# pair with stock fairseq and with every strategy, and prints one table a pair. Progress goes to
# stderr, the tables to stdout, all figures also to data-bin/quickstart_PAIR.json. Run it again at
# any time: what is installed stays.
#
#   --full    all held-out sentences, 500 per pair (minutes)
#   --help    this text, and the flags of the measurement where it is installed already
#   others    go to specdec-bench, e.g. --limit 100 --batch-size 8
#
# Settings, from the environment:
#   PYTHON           interpreter to make the environment with, 3.10 to 3.13 (python3)
#   VENV             the environment, made if it is not there (.venv in the repository)
#   TORCH            what to install if the environment has no torch (torch==2.13.0; torch==2.7.1
#                    for GPUs below compute capability 7.5)
#   PAIRS            demo pairs that are measured (ende edit)
#   OMP_NUM_THREADS  threads of the measurement (2, or 1 on a single core)
set -euo pipefail

program=quickstart
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${VENV:-$repo/.venv}
# shellcheck source=scripts/lib/environment.sh
source "$repo/scripts/lib/environment.sh"

install() { install_newest ''; }

sample=(--limit 50) # a --limit of the command line comes after it and wins
flags=()
for word in "$@"; do
    case $word in
        -h | --help)
            usage "${BASH_SOURCE[0]}"
            if [[ -e $stamp ]]; then printf '\n' && "$venv/bin/specdec-bench" --help; fi
            exit
            ;;
        --full) sample=() ;;
        *) flags+=("$word") ;;
    esac
done

# Before minutes of installation: is there anything to decode?
for pair in ${PAIRS:-ende edit}; do
    [[ -f $repo/data-bin/demo_$pair/verifier.pt ]] ||
        fail "data-bin/demo_$pair/verifier.pt is not there: clone the whole repository"
done

prepare install

cores=$(nproc)
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores < 2 ? cores : 2))}
log "decoding with $OMP_NUM_THREADS threads"
for pair in ${PAIRS:-ende edit}; do
    rows=(--system 'gad: --strategy gad' --system 'gad++: --strategy gad++ --top-beta 3 --tau 1.0')
    if [[ $pair == edit ]]; then
        rows=()
    fi
    "$venv/bin/specdec-bench" "$repo/data-bin/demo_$pair" --tokenizer moses --remove-bpe --cpu \
        --system 'greedy: --strategy greedy' --system 'iad: --strategy iad' ${rows[@]+"${rows[@]}"} \
        --threads "$OMP_NUM_THREADS" --json "$repo/data-bin/quickstart_$pair.json" \
        ${sample[@]+"${sample[@]}"} ${flags[@]+"${flags[@]}"}
done
log "figures: $repo/data-bin/quickstart_*.json"
