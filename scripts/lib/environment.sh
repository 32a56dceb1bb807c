# shellcheck shell=bash
# Sourced by the scripts that make a Python environment of their own: how it is made and filled.
# They set program (its name, for messages), repo (the repository) and venv (the environment).

# shellcheck disable=SC2154
stamp=$venv/fairseq_specdec.installed
torch_cpu=https://download.pytorch.org/whl/cpu

log() { printf '[%s] %s\n' "$program" "$*" >&2; }

fail() {
    log "error: $*"
    exit 1
}

# usage SCRIPT: the comment at its top.
usage() { sed -n '2,/^set /{/^set /!s/^# \{0,1\}//p}' "$1"; }

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

has_compiler() {
    local cxx=${CXX:-}
    if [[ -n $cxx ]]; then command -v "${cxx%% *}"; else command -v c++ || command -v g++; fi > /dev/null
}

# What the environment was installed from: the folder, the requirements, and what is compiled.
wanted_stamp() {
    printf '%s\n' "$program" "$repo"
    cat "$repo/setup.py" "$repo"/requirements/gate*.txt
    if has_compiler; then cat "$repo"/fairseq_specdec/engine/native/src/*; fi | cksum
}

make_environment() {
    python=$(command -v "${PYTHON:-python3}") ||
        fail "PYTHON: ${PYTHON:-python3} not found; install Python 3.10 to 3.13, or set PYTHON"
    "$python" -c 'import sys; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 13))' ||
        fail "PYTHON: $python is $("$python" --version 2>&1); 3.10 to 3.13 is needed, set PYTHON to one"
    log "making the environment $venv with $("$python" --version 2>&1)"
    "$python" -m venv "$venv" > /dev/null ||
        fail "$python -m venv failed; on Debian and Ubuntu: apt-get install python3-venv"
}

# prepare INSTALL: make the environment and run INSTALL, unless that was done before.
prepare() {
    # An environment whose making was interrupted has no pip.
    "$venv/bin/python" -m pip --version > /dev/null 2>&1 || make_environment
    if [[ $(cat "$stamp" 2> /dev/null) == "$(wanted_stamp)" ]]; then
        log "installed before: $venv"
    else
        "$1"
        quietly "checking the installation" "$venv/bin/python" -c 'import fairseq_specdec'
        wanted_stamp > "$stamp"
    fi
}

# old_gpu: whether a GPU here has a compute capability below 7.5; torch 2.13.0 has no kernels for it.
old_gpu() {
    nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2> /dev/null |
        awk '$1 ~ /^[0-9.]+$/ && $1 + 0 < 7.5 { old = 1 } END { exit !old }'
}

# install_newest EXTRAS: torch for this Python, then this package with them ('' or '[dev]').
install_newest() {
    local version torch options=()
    version=$("$venv/bin/python" -c 'import sys; print("3.%d" % sys.version_info[1])')
    [[ $version == 3.1[0-3] ]] || fail "VENV: $venv has Python $version; 3.10 to 3.13 is needed"
    torch=torch==2.13.0
    if old_gpu; then torch=torch==2.7.1; fi
    [[ $version == 3.1[12] ]] || command -v gcc > /dev/null ||
        fail "gcc not found: on Python $version pip compiles fairseq; install gcc, or set" \
            "PYTHON to Python 3.11 or 3.12, which have wheels"
    quietly "updating pip" "$venv/bin/python" -m pip install --quiet --upgrade pip
    if ! "$venv/bin/python" -c 'import torch' 2> /dev/null; then
        torch=${TORCH:-$torch}
        quietly "installing $torch" "$venv/bin/python" -m pip install --quiet "$torch"
    fi
    # Pinned: torchaudio, which fairseq requires, would bring a newer torch in its place.
    torch=$("$venv/bin/python" -c 'from importlib.metadata import version
print("torch==" + version("torch"))')
    if [[ $version == 3.13 ]]; then
        # In isolation the build of fairseq would download a CUDA torch of its own.
        quietly "installing build tools" \
            "$venv/bin/python" -m pip install --quiet setuptools wheel cython numpy
        options=(--no-build-isolation)
    fi
    quietly "installing fairseq_specdec and fairseq" \
        "$venv/bin/python" -m pip install --quiet ${options[@]+"${options[@]}"} "$torch" -e "$repo$1"
}

# install_locked: versions and hashes as in requirements; nothing is built with tools from elsewhere.
install_locked() {
    local pip=("$venv/bin/python" -m pip install --quiet --no-compile)
    quietly "installing build tools" "${pip[@]}" --require-hashes -r "$repo/requirements/gate-build.txt"
    # Meanwhile; what fails here is tried and reported by the last step.
    (cd "$repo" && "$venv/bin/python" setup.py -q build_ext --inplace > /dev/null 2>&1) &
    quietly "installing the versions of requirements/gate.txt" or_torch_from_elsewhere \
        "${pip[@]}" --require-hashes --no-build-isolation -r "$repo/requirements/gate.txt"
    # Now, as pip would: compiled at an import, fairseq warns of its syntax in somebody's output.
    "$venv/bin/python" -m compileall -q "$venv"/lib/python*/site-packages/fairseq > /dev/null 2>&1
    wait
    quietly "installing fairseq_specdec" "${pip[@]}" --no-deps --no-build-isolation -e "$repo"
}

# PyPI has no CPU build of torch.
or_torch_from_elsewhere() { "$@" || "$@" --extra-index-url "$torch_cpu"; }
