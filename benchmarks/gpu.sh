#!/usr/bin/env bash
# Usage: bash benchmarks/gpu.sh [FOLDER]
#
# Everything that a GPU is needed for, in one command of some ten minutes: whether the wheel runs on
# the card, the tests of tests/gpu, identity and speed of the demo pairs, the papers' sizes, cost of
# an iteration and memory. A step that fails or takes too long is reported, and the next
# one runs. FOLDER (gpu-figures) then holds gpu.md, JSON files and the ends of the logs.
#
# Settings, from the environment:
#   DEVICE      cuda, or cpu to rehearse every step without a GPU (cuda)
#   WHEELHOUSE  a folder of wheels (torch, fairseq, this package and what they need), for a machine
#               without network: installed into FOLDER/venv; without it PYTHON is used as it is
#   PYTHON      interpreter (python3)
#   SENTENCES   of each speed table (100; 4 on a cpu)
#   MINUTES     of all steps together (10)
set -euo pipefail

case ${1:-} in -h | --help) sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$0" && exit ;; esac

repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
mkdir -p "${1:-gpu-figures}"
out=$(cd "${1:-gpu-figures}" && pwd)
python=${PYTHON:-python3}

if [[ -n ${WHEELHOUSE:-} ]]; then
    "$python" -m venv "$out/venv"
    python=$out/venv/bin/python
    "$python" -m pip install --quiet --no-index --find-links "$WHEELHOUSE" \
        'fairseq_specdec[dev]' > "$out/install.log" 2>&1 || {
        tail -n 25 "$out/install.log" >&2
        echo "WHEELHOUSE=$WHEELHOUSE: a wheel is missing, see above" >&2
        exit 1
    }
fi

cd "$repo"
export PYTHONPATH=$repo${PYTHONPATH:+:$PYTHONPATH}
exec "$python" benchmarks/gpu_run.py "$out" --device "${DEVICE:-cuda}" \
    --minutes "${MINUTES:-10}" ${SENTENCES:+--sentences "$SENTENCES"}
