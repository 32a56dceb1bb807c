# Shared by the steps in scripts/demo: settings, logging, resumption, provenance. Source it.
# shellcheck shell=bash

REPO=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
LIB=$REPO/scripts/lib
: "${WORK:=$REPO/data-bin/work}" # everything that is fetched, trained and kept to resume
: "${SEED:=1}"
: "${THREADS:=$(nproc)}"
mkdir -p "$WORK"
WORK=$(cd "$WORK" && pwd)
STEP=$(basename "$0" .sh)
COMMANDS=()

log() { printf '[%s] %s\n' "$STEP" "$*" >&2; }

fail() {
    log "error: $*"
    exit 1
}

find_python() {
    PYTHON=$(command -v "${PYTHON:-python3}") ||
        fail "PYTHON: ${PYTHON:-python3} not found; activate the environment where you installed" \
            "fairseq_specdec, or set PYTHON to its interpreter"
    # The fairseq commands lie beside the interpreter, also where no environment is active.
    PATH=$(dirname "$PYTHON"):$PATH
    # Folders of this machine, which provenance files write as $NAME.
    NAMES=(--name "WORK=$WORK" --name "REPO=$REPO" --name "PYTHON=$PYTHON")
    export PATH PYTHONPATH=$REPO:$REPO/scripts/demo:$LIB${PYTHONPATH:+:$PYTHONPATH}
}

need() {
    local tool
    for tool in "$@"; do
        command -v "$tool" > /dev/null ||
            fail "$tool not found: run 'pip install -e $REPO' in the environment of $PYTHON"
    done
}

# run COMMAND...: run it, and remember it for the provenance file.
run() {
    COMMANDS+=("$(printf ' %q' "$@")")
    "$@"
}

# finished FILE INPUT...: true if FILE records a finished step with these inputs. Stops with the
# remedy if the inputs are missing or have changed since.
finished() {
    local record=$1 status=0 inputs=() path
    shift
    for path in "$@"; do inputs+=(--input "$path"); done
    "$PYTHON" "$LIB/provenance.py" "$record" --check "${inputs[@]}" "${NAMES[@]}" ||
        status=$?
    case $status in
        0) log "done before: $record" ;;
        1) return 1 ;;
        *) exit "$status" ;;
    esac
}

# record FILE INPUT... -- OUTPUT...: write the provenance of this step, which marks it as done.
record() {
    local file=$1 kind=--input options=() item
    shift
    for item in "$@"; do
        if [[ $item == -- ]]; then kind=--output; else options+=("$kind" "$item"); fi
    done
    for item in "${COMMANDS[@]}"; do options+=("--command=${item# }"); done
    "$PYTHON" "$LIB/provenance.py" "$file" --step "$STEP" --note "seed=$SEED" \
        --note "threads=$THREADS" "${options[@]}" "${NAMES[@]}"
    log "wrote $file"
}

# produce FILE COMMAND...: unless FILE exists, run COMMAND with its stdout going to FILE.
produce() {
    local file=$1
    shift
    [[ -e $file ]] && return
    mkdir -p "$(dirname "$file")"
    COMMANDS+=("$(printf ' %q' "$@") > $file")
    "$@" > "$file.partial"
    mv "$file.partial" "$file"
}

# Flags and environment of fairseq-train for the device at hand, in DEVICE_FLAGS.
# shellcheck disable=SC2034  # the steps read DEVICE_FLAGS
use_device() {
    local found
    if [[ ${DEVICE:-auto} == auto ]]; then
        found=$("$PYTHON" -c 'import torch; print("gpu" if torch.cuda.is_available() else "cpu")')
    else
        found=$DEVICE
    fi
    case $found in
        # bf16 halves the memory traffic that bounds training on a CPU.
        cpu) DEVICE_FLAGS=(--cpu --bf16) ;;
        gpu) DEVICE_FLAGS=(--fp16) ;;
        *) fail "DEVICE: $found is neither cpu, gpu nor auto" ;;
    esac
    export OMP_NUM_THREADS=$THREADS
    # Keep freed memory in the process: otherwise every update maps, zeroes and unmaps gigabytes.
    export MALLOC_MMAP_THRESHOLD_=4000000000 MALLOC_TRIM_THRESHOLD_=20000000000 \
        MALLOC_TOP_PAD_=268435456
    log "device: $found, $THREADS threads"
}
