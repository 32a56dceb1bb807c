#!/usr/bin/env bash
# Small pictures from the faces and photos of scikit-image, as sequences of pixels: $OUT/bin.
# SIDE=16 (width of the large picture), FACTOR=2 (times the width of the small one), PATCHES=12000 (of
# photos), TEST=24 (faces); PROFILE=smoke.
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/superresolution/settings.sh
source "$REPO/scripts/superresolution/settings.sh"
find_python
need fairseq-preprocess
"$PYTHON" -c 'import skimage' 2> /dev/null ||
    fail "scikit-image not found: run 'pip install -e ${REPO}[superres]' in the environment of $PYTHON"

# A work folder belongs to one size of picture.
finished "$OUT/images.json" && exit
run "$PYTHON" "$REPO/scripts/superresolution/images.py" "$OUT/text" --side "$SIDE" \
    --factor "$FACTOR" --patches "$PATCHES" --test "$TEST" --seed "$SEED"
rm -rf "$BIN"
run fairseq-preprocess -s low -t high --joined-dictionary --srcdict "$OUT/text/dict.txt" \
    --trainpref "$OUT/text/train" --validpref "$OUT/text/valid" --testpref "$OUT/text/test" \
    --destdir "$BIN" --workers 1 > "$OUT/preprocess.log" 2>&1 ||
    fail "fairseq-preprocess failed: see $OUT/preprocess.log"
record "$OUT/images.json" -- "$BIN" "$OUT/text"
