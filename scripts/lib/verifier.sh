# The trained verifier that a recipe builds on, and its corpus. Source it after demo.sh.
# shellcheck shell=bash
# shellcheck disable=SC2034  # the recipes read what is set here

: "${BIN:=$WORK/bin/ende}"                  # binarised corpus, with the verifier's dictionaries
: "${VERIFIER:=$WORK/verifier/verifier.pt}" # the translation model
: "${SRC:=en}" "${TGT:=de}"
CORPUS=("$BIN/dict.$SRC.txt" "$BIN/train.$SRC-$TGT.$SRC.bin" "$BIN/train.$SRC-$TGT.$TGT.bin")
