#!/usr/bin/env bash
# Gather the corpora that sources.tsv names, learn subwords, binarise.
# See ../lib/gec.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/gec_conll14/settings.sh
source "$(dirname "$0")/settings.sh"
prepare_step
