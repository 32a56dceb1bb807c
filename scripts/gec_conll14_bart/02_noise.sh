#!/usr/bin/env bash
# Make synthetic errors out of clean text (CLEAN) with specdec-noise, and binarise the pairs.
# See ../lib/gec.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/gec_conll14_bart/settings.sh
source "$(dirname "$0")/settings.sh"
noise_step
