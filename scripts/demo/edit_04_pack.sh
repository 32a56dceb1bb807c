#!/usr/bin/env bash
# Pack the editing verifier for the repository, into data-bin/demo_edit (EDIT_DEST).
set -euo pipefail
# shellcheck source=scripts/lib/demo.sh
source "$(dirname "$0")/../lib/demo.sh"
# shellcheck source=scripts/lib/pack.sh
source "$LIB/pack.sh"
find_python
need fairseq-preprocess subword-nmt

dest=${EDIT_DEST:-$REPO/data-bin/demo_edit}
inputs=("$WORK/edit_verifier/verifier.pt" "$WORK/edit_prepared/codes"
    "$WORK/bin/edit/dict.src.txt" "$WORK/bin/edit/dict.tgt.txt" "$WORK/edit_heldout")
finished "$dest/provenance.json" "${inputs[@]}" && exit
begin_pack "$dest" "$WORK/edit_prepared/codes" "$WORK/bin/edit" src tgt
pack_checkpoint "$WORK/edit_verifier/verifier.pt" verifier.pt
pack_heldout "$WORK/edit_heldout" src tgt en en
cp "$REPO/scripts/demo/licences/demo_edit.md" "$PACK/LICENSE.md"
pack_history "$WORK/edit/provenance.json" "$WORK/bin/edit/provenance.json" \
    "$WORK/edit_verifier/provenance.json"
end_pack "$dest" "${inputs[@]}"
