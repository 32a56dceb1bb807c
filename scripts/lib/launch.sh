# Processes that work together: GPUs of this node under torchrun, or one process. Source it after
# demo.sh. GPUS (default: all; on a CPU 1 process, 2 to try), PRECISION=fp16|fp32|bf16 (default: by the
# device; on a CPU fp32, or what CPU_PRECISION=bf16 asks for where it has instructions for that),
# NODES=1, NODE_RANK=0, TORCHRUN_FLAGS=--standalone: scripts/slurm sets these for several nodes, of which
# all but the first wait AWAIT=3600 seconds at most for what the first one makes.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the recipes read what is set here

: "${CPU_PRECISION:=fp32}" "${NODES:=1}" "${NODE_RANK:=0}" "${TORCHRUN_FLAGS:=--standalone}" "${AWAIT:=3600}"

# use_devices: set GPUS, PRECISION, ON_CPU, WORLD; use_device (demo.sh) has the DEVICE setting.
use_devices() {
    use_device
    local found name options=()
    case ${DEVICE_FLAGS[0]} in --cpu) options+=(--cpu) ON_CPU=true ;; *) ON_CPU=false ;; esac
    case $CPU_PRECISION in
        fp32) ;;
        bf16) options+=(--bf16) ;;
        *) fail "CPU_PRECISION: $CPU_PRECISION is neither fp32 nor bf16" ;;
    esac
    found=$("$PYTHON" "$LIB/devices.py" ${options[@]+"${options[@]}"})
    name=${found##* } found=${found% *}
    : "${GPUS:=${found% *}}" "${PRECISION:=${found#* }}"
    [[ $GPUS =~ ^[1-9][0-9]*$ ]] || fail "GPUS: $GPUS is no number from 1"
    case $PRECISION in
        fp16 | fp32 | bf16) ;;
        *) fail "PRECISION: $PRECISION is none of fp16, fp32, bf16" ;;
    esac
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
