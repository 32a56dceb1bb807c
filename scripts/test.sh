#!/usr/bin/env bash
# Usage: bash scripts/test.sh [--help] [argument of pytest ...]
#
# Makes an environment, installs fairseq_specdec in it with all that its tests need, then runs the
# sessions lint and tests of noxfile.py. Run it again at any time: what is installed stays. Without
# a C++ compiler the tests of the native engine are skipped, by name.
#
#   --help   this text
#   others   go to pytest, e.g. tests/io, or -k sampling (default: all tests but slow ones)
#
# On Python 3.11 and x86-64 Linux the versions of requirements/gate.txt are installed, elsewhere the
# newest of everything.
#
# Settings, from the environment:
#   PYTHON  interpreter to make the environment with, 3.10 to 3.13 (python3)
#   VENV    the environment, made if it is not there (.venv-test in the repository)
#   TORCH   what to install if the environment has no torch, where the versions are not locked
#   SANITIZE  if set, the session sanitize runs too
set -euo pipefail

program="test"
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
venv=${VENV:-$repo/.venv-test}
# shellcheck source=scripts/lib/environment.sh
source "$repo/scripts/lib/environment.sh"

case ${1:-} in -h | --help) usage "${BASH_SOURCE[0]}" && exit ;; esac

install() {
    local fits='import platform, sys
sys.exit((sys.version_info[:2], platform.machine(), platform.system())
         != ((3, 11), "x86_64", "Linux"))'
    if "$venv/bin/python" -c "$fits"; then
        install_locked
    else
        log "the lock is for Python 3.11 on x86-64 Linux: installing the newest of everything"
        install_newest '[dev]'
    fi
}

unset PYTHONPATH
prepare install
has_compiler || log "no C++ compiler: the tests of the native engine are skipped"
# shellcheck disable=SC1091
source "$venv/bin/activate"
cd "$repo"
nox=(python -m nox --no-venv --session)

# Beside the tests, with what they leave of the cores. What it says comes after them.
checked=$(mktemp)
trap 'rm -f "$checked"' EXIT
nice "${nox[@]}" lint ${SANITIZE:+sanitize} > "$checked" 2>&1 &
check=$!

echo "== tests"
status=0
"${nox[@]}" tests -- "$@" || status=$?

echo "== check"
wait "$check" || status=$?
cat "$checked"
[[ $status == 0 ]]
