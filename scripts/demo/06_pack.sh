#!/usr/bin/env bash
# Pack the English-German pair for the repository: fp16 checkpoints, codes, dictionaries, held-out
# sentences (raw and binarised) and provenance, into data-bin/demo_ende (DEST).
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/lib/pack.sh
source "$LIB/pack.sh"
find_python
need fairseq-preprocess subword-nmt

dest=${DEST:-$REPO/data-bin/demo_ende}
inputs=("$WORK/verifier/verifier.pt" "$WORK/drafter/drafter.pt" "$WORK/prepared/codes"
    "$WORK/bin/ende/dict.en.txt" "$WORK/bin/ende/dict.de.txt" "$WORK/heldout")
finished "$dest/provenance.json" "${inputs[@]}" && exit
begin_pack "$dest" "$WORK/prepared/codes" "$WORK/bin/ende" en de
pack_checkpoint "$WORK/verifier/verifier.pt" verifier.pt
pack_checkpoint "$WORK/drafter/drafter.pt" drafter.pt
pack_heldout "$WORK/heldout" en de en de
cp "$REPO/scripts/demo/licences/demo_ende.md" "$PACK/LICENSE.md"
pack_history "$WORK/ende/provenance.json" "$WORK/bin/ende/provenance.json" \
    "$WORK/verifier/provenance.json" "$WORK/bin/ende_distilled.provenance.json" \
    "$WORK/drafter/provenance.json"
end_pack "$dest" "${inputs[@]}"
