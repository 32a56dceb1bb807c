#!/usr/bin/env bash
# Gather the corpora that gec_conll14/sources.tsv names, encode them as BART reads them, binarise.
# See ../lib/gec.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/gec_conll14_bart/settings.sh
source "$(dirname "$0")/settings.sh"
prepare_step
