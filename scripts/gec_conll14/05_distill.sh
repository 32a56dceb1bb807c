#!/usr/bin/env bash
# Let the verifier rewrite the training targets, for the drafter of gad and gad++.
# See ../lib/gec.sh for the settings. It resumes.
set -euo pipefail
# shellcheck source=scripts/gec_conll14/settings.sh
source "$(dirname "$0")/settings.sh"
distill_step
