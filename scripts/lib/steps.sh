# What every run_all.sh does. Source it.
# shellcheck shell=bash

# run_steps STEP...: run the steps that STEPS names, or else these, from the caller's folder.
run_steps() {
    local folder steps=${STEPS:-$*} step
    folder=$(cd "$(dirname "$0")" && pwd)
    for step in $steps; do
        [[ -f $folder/$step.sh ]] || {
            printf 'run_all: STEPS: %s is no step of %s\n' "$step" "$folder" >&2
            exit 1
        }
    done
    for step in $steps; do
        printf '== %s\n' "$step" >&2
        bash "$folder/$step.sh"
    done
}
