# Processes that work together: GPUs of this node under torchrun, or one process. Source it after
# demo.sh. GPUS (default: all; on a CPU 1 process, 2 to try), PRECISION=fp16|fp32 (default: by the GPU),
# NODES=1, NODE_RANK=0, TORCHRUN_FLAGS=--standalone: scripts/slurm sets these for several nodes, of which
# all but the first wait AWAIT=3600 seconds at most for what the first one makes.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the recipes read what is set here

: "${NODES:=1}" "${NODE_RANK:=0}" "${TORCHRUN_FLAGS:=--standalone}" "${AWAIT:=3600}"

# use_devices: set GPUS, PRECISION, ON_CPU, WORLD; use_device (demo.sh) has the DEVICE setting.
use_devices() {
    use_device
    local found name
    case ${DEVICE_FLAGS[0]} in
        --cpu) found="1 fp32 cpu" ON_CPU=true ;;
        *) found=$("$PYTHON" "$LIB/devices.py") ON_CPU=false ;;
    esac
    name=${found##* } found=${found% *}
    : "${GPUS:=${found% *}}" "${PRECISION:=${found#* }}"
    [[ $GPUS =~ ^[1-9][0-9]*$ ]] || fail "GPUS: $GPUS is no number from 1"
    case $PRECISION in fp16 | fp32) ;; *) fail "PRECISION: $PRECISION is neither fp16 nor fp32" ;; esac
    WORLD=$((NODES * GPUS))
    if $ON_CPU && [[ $GPUS -gt 1 ]]; then
        export OMP_NUM_THREADS=$((THREADS / GPUS > 0 ? THREADS / GPUS : 1))
    fi
    log "$WORLD processes on $NODES nodes, $PRECISION, $name"
}

# launch FILE|-m MODULE FLAG...: run Python, under torchrun where there are several processes.
launch() {
    local flags
    read -ra flags <<< "$TORCHRUN_FLAGS"
    if [[ $WORLD == 1 ]]; then
        run "$PYTHON" "$@"
    else
        run torchrun "${flags[@]}" --nproc_per_node "$GPUS" "$@"
    fi
}

# await FILE: wait until the first node has made a file, on the disk that the nodes share.
await() {
    local waited=0
    until [[ -e $1 ]]; do
        [[ $waited -lt $AWAIT ]] ||
            fail "the first node has not made $1 in $AWAIT seconds; see its log, and run this again"
        sleep 1
        waited=$((waited + 1))
    done
}
