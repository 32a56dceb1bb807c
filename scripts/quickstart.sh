#!/usr/bin/env bash
# Usage: bash scripts/quickstart.sh [--train] [--help] [flag of the measurement ...]
#
# Makes an environment, installs fairseq_specdec in it, decodes the held-out sentences of the demo
# pairs with stock fairseq and with every strategy, and prints one table a pair. Progress goes to
# stderr, the tables to stdout, all figures also to data-bin/quickstart.json. Run it again at any
# time: what is installed stays.
#
#   --train   first make both demo pairs from nothing in data-bin/work (scripts/run demo,
#             hours on 2 cores, resumes), then measure those
#   --help    this text, and the flags of the measurement where it is installed already
#   others    go to python -m fairseq_specdec.bench.quickstart, e.g. --limit 50 --pairs ende
#
# Settings, from the environment:
#   PYTHON           interpreter to make the environment with, 3.8 to 3.13 (python3)
#   VENV             the environment, made if it is not there (.venv in the repository)
#   TORCH            what to install if the environment has no torch (torch==2.13.0; torch==2.7.1 on
#                    Python 3.9, torch==1.13.1 on 3.8)
#   OMP_NUM_THREADS  threads of the measurement (2, or 1 on a single core)
set -euo pipefail

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${VENV:-$repo/.venv}
stamp=$venv/fairseq_specdec.installed

log() { printf '[quickstart] %s\n' "$*" >&2; }

fail() {
    log "error: $*"
    exit 1
}

# quietly MESSAGE COMMAND...: run it with its output in a log file; show the end of that on failure.
quietly() {
    local message=$1 output=$venv/install.log
    shift
    log "$message"
    "$@" > "$output" 2>&1 || {
        tail -n 25 "$output" >&2
        fail "failed: $* (whole output: $output)"
    }
}

# What the environment was installed from: the folder and the requirements.
wanted_stamp() {
    printf '%s\n' "$repo"
    cat "$repo/setup.py"
}

find_python() {
    python=$(command -v "${PYTHON:-python3}") ||
        fail "PYTHON: ${PYTHON:-python3} not found; install Python 3.8 to 3.13, or set PYTHON"
    "$python" -c 'import sys; sys.exit(not (3, 8) <= sys.version_info[:2] <= (3, 13))' ||
        fail "PYTHON: $python is $("$python" --version 2>&1); 3.8 to 3.13 is needed, set PYTHON to one"
}

make_environment() {
    find_python
    log "making the environment $venv with $("$python" --version 2>&1)"
    "$python" -m venv "$venv" > /dev/null ||
        fail "$python -m venv failed; on Debian and Ubuntu: apt-get install python3-venv"
}

install() {
    local version torch options=()
    version=$("$venv/bin/python" -c 'import sys; print("3.%d" % sys.version_info[1])')
    case $version in
        3.8) torch=torch==1.13.1 ;;
        3.9) torch=torch==2.7.1 ;;
        3.10 | 3.11 | 3.12 | 3.13) torch=torch==2.13.0 ;;
        *) fail "VENV: $venv has Python $version; 3.8 to 3.13 is needed" ;;
    esac
    case $version in
        3.9 | 3.10 | 3.13)
            command -v gcc > /dev/null ||
                fail "gcc not found: on Python $version pip compiles fairseq; install gcc, or set" \
                    "PYTHON to Python 3.8, 3.11 or 3.12, which have wheels"
            ;;
    esac
    quietly "updating pip" "$venv/bin/python" -m pip install --quiet --upgrade pip
    if ! "$venv/bin/python" -c 'import torch' 2> /dev/null; then
        torch=${TORCH:-$torch}
        quietly "installing $torch" "$venv/bin/python" -m pip install --quiet "$torch"
    fi
    if [[ $version == 3.13 ]]; then
        # In isolation the build of fairseq would download a CUDA torch of its own.
        quietly "installing build tools" \
            "$venv/bin/python" -m pip install --quiet setuptools wheel cython numpy
        options=(--no-build-isolation)
    fi
    quietly "installing fairseq_specdec and fairseq" \
        "$venv/bin/python" -m pip install --quiet ${options[@]+"${options[@]}"} -e "$repo"
    quietly "checking the installation" "$venv/bin/python" -c 'import fairseq_specdec'
    wanted_stamp > "$stamp"
}

usage() {
    sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
    if [[ -e $stamp ]]; then
        printf '\n'
        cd "$repo"
        "$venv/bin/python" -m fairseq_specdec.bench.quickstart --help
    fi
}

train=no
flags=()
for word in "$@"; do
    case $word in
        -h | --help)
            usage
            exit
            ;;
        --train) train=yes ;;
        *) flags+=("$word") ;;
    esac
done

# Before minutes of installation: is there anything to decode?
if [[ $train == no && ${#flags[@]} -eq 0 ]]; then
    for pair in demo_ende demo_edit; do
        [[ -f $repo/data-bin/$pair/verifier.pt ]] ||
            fail "data-bin/$pair/verifier.pt is not there: clone the whole repository, or make the" \
                "pairs with --train"
    done
fi

# An environment whose making was interrupted has no pip.
"$venv/bin/python" -m pip --version > /dev/null 2>&1 || make_environment
if [[ $(cat "$stamp" 2> /dev/null) == "$(wanted_stamp)" ]]; then
    log "installed before: $venv"
else
    install
fi

cores=$(nproc)
data=$repo/data-bin
if [[ $train == yes ]]; then
    work=${WORK:-$repo/data-bin/work}
    data=$work/pairs
    log "making the demo pairs in $work: hours on 2 cores; the same command resumes"
    # Beside the pairs of the repository, not over them.
    WORK=$work PYTHON=$venv/bin/python DEST=$data/demo_ende EDIT_DEST=$data/demo_edit \
        "$repo/scripts/run" demo >&2
fi

export OMP_NUM_THREADS=${OMP_NUM_THREADS:-$((cores < 2 ? cores : 2))}
mkdir -p "$repo/data-bin"
log "decoding with $OMP_NUM_THREADS threads"
"$venv/bin/python" -m fairseq_specdec.bench.quickstart --data-bin "$data" \
    --json "$repo/data-bin/quickstart.json" ${flags[@]+"${flags[@]}"}
[[ " ${flags[*]-}" == *" --json"* ]] || log "figures: $repo/data-bin/quickstart.json"
