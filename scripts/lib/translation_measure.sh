# Decoding, scores and tables of the translation benchmarks. translation.sh sources it.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2153  # the libraries read what is set here, settings.sh sets the rest

# each_system FUNCTION: call it for every line of systems.tsv in this direction whose models are there,
# with set, split, verifier, system, flags (as words), and USED, the models. LACKING: models not there.
each_system() {
    local direction set subset verifier system needs flags name words missing
    LACKING=""
    while IFS='|' read -r direction set subset verifier system needs flags <&4; do
        case $direction in '*' | "$DIRECTION") ;; *) continue ;; esac
        missing=false words=$flags USED=()
        for name in "$verifier" $needs; do
            [[ $name == - ]] && continue
            USED+=("$(model_path "$name")")
            if [[ ! -e ${USED[-1]} ]]; then
                missing=true
                case "$LACKING " in *" $name "*) ;; *) LACKING+=" $name" ;; esac
            fi
            words=${words//"{$name}"/$(printf '%q' "$(model_path "$name")")}
        done
        $missing || "$1" "$set" "$subset" "$verifier" "$system" "$words"
    done 4< <(rows systems.tsv)
}

# collect_system: what a step measures, by set. A set is one run of specdec-bench: same verifier, same
# split, systems in turns.
collect_system() {
    local set=$1 name
    if [[ -z ${SET_SPLIT[$set]:-} ]]; then SETS+=("$set") SET_USED[$set]=""; fi
    SET_SPLIT[$set]=$2 SET_VERIFIER[$set]=$3
    SET_SYSTEMS[$set]+=" --system $(printf '%q' "$4: $5")"
    for name in "${USED[@]}"; do
        case "${SET_USED[$set]}" in *"$name"$'\n'*) ;; *) SET_USED[$set]+=$name$'\n' ;; esac
    done
}

collect_sets() {
    declare -gA SET_SPLIT=() SET_VERIFIER=() SET_SYSTEMS=() SET_USED=()
    SETS=()
    each_system collect_system
    [[ -z $LACKING ]] || log "systems left out, for want of these models (MODELS):$LACKING"
}

# note_systems FILE RECORD MORE SET...: write the systems of these sets, and MORE, to FILE. If they are not
# those of an earlier run, RECORD goes, which marks the step as done.
note_systems() {
    local file=$1 record=$2 set text=$3
    shift 3
    for set in "$@"; do text+="$set:${SET_SYSTEMS[$set]:-}"$'\n'; done
    text=${text//"$OUT"/.}
    if [[ -e $record && $(cat "$file" 2> /dev/null) != "${text%$'\n'}" ]]; then
        log "other systems or settings than before: measuring $* again"
        rm "$record"
    fi
    mkdir -p "$(dirname "$file")"
    printf '%s' "$text" > "$file"
}

# decode_stock SET VERIFIER: fairseq's own beam search, once for a set, named as specdec-bench does.
decode_stock() {
    local flags=("${DECODE_FLAGS[@]}") used=("${USED[@]}") beam
    case " ${OUTPUTS[*]} " in *"/$1.fairseq_beam_5.out "*) return ;; esac
    USED=("$(model_path "$2")")
    for beam in 5 1; do
        DECODE_FLAGS=("${flags[@]}" --beam "$beam")
        decode_once "$1.fairseq_beam_$beam" "${USED[0]}" --task translation
    done
    DECODE_FLAGS=("${flags[@]}") USED=("${used[@]}")
}

decode_system() {
    local set=$1 name=$1.${4// /_} words
    case " $DECODE_SETS " in *" $set "*) ;; *) return 0 ;; esac
    SUBSET=$2
    decode_stock "$set" "$3"
    eval "words=($5)" # quoted by us or in systems.tsv
    decode_once "$name" "$(model_path "$3")" "${words[@]}"
}

# decode_once NAME MODEL FLAG...: decode, unless that was done with the same flags and the models in USED.
decode_once() {
    local record=$DECODED/$1.done words="$* ${DECODE_FLAGS[*]}" model fresh=true
    OUTPUTS+=("$DECODED/$1.out")
    for model in "${USED[@]}"; do [[ $record -nt $model ]] || fresh=false; done
    if $fresh && [[ $(cat "$record") == "${words//"$OUT"/.}" ]]; then return; fi
    rm -f "$record"
    decode "$@"
    printf '%s\n' "${words//"$OUT"/.}" > "$record"
}

# score_outputs FILE...: $DECODED/scores.json.
score_outputs() {
    local options=()
    [[ -n $COMET ]] && options+=(--comet "$COMET")
    run "$PYTHON" "$LIB/translation_scores.py" "$@" --lang "$TGT" \
        --raw "$HOME_OF/raw/test.$SRC" "$HOME_OF/raw/test.$TGT" \
        ${options[@]+"${options[@]}"} --json "$DECODED/scores.json"
}

# decode_step: fairseq-generate with the systems of DECODE_SETS, one sentence at a time, and its scores:
# $OUT/decoded/SET.SYSTEM.out and scores.json. COMET=wmt20-comet-da asks for COMET too.
decode_step() {
    local inputs=() used set
    need fairseq-generate
    DECODED=$OUT/decoded
    collect_sets
    for set in $DECODE_SETS; do
        mapfile -t used < <(printf '%s' "${SET_USED[$set]:-}")
        inputs+=(${used[@]+"${used[@]}"})
    done
    # shellcheck disable=SC2086  # names
    note_systems "$DECODED/systems" "$DECODED/provenance.json" "$COMET" $DECODE_SETS
    inputs+=("$DECODED/systems" "$BIN/test.$PAIR.$SRC.bin")
    finished "$DECODED/provenance.json" "${inputs[@]}" && return
    use_devices
    # demo.sh takes every GPU for one with fast fp16; decoding goes by the one at hand.
    DECODE_FLAGS=(--remove-bpe --skip-invalid-size-inputs-valid-test)
    if [[ $PRECISION == fp16 ]] && ! $ON_CPU; then DECODE_FLAGS+=(--fp16); fi
    OUTPUTS=()
    each_system decode_system
    [[ ${#OUTPUTS[@]} -gt 0 ]] || fail "nothing to decode: train a verifier first (MODELS)"
    score_outputs "${OUTPUTS[@]}" || fail "the output could not be scored: see above"
    record "$DECODED/provenance.json" "${inputs[@]}" -- "$DECODED"
}

# sentences_of SET: how many of its sentences are measured; 0 for all. VALID_SENTENCES (default: SENTENCES)
# is for sets on the valid split.
sentences_of() {
    case ${SET_SPLIT[$1]} in
        valid) printf '%s\n' "${VALID_SENTENCES:-$SENTENCES}" ;;
        *) printf '%s\n' "$SENTENCES" ;;
    esac
}

# bench_set SET: $OUT/bench/SET.{json,md}.
bench_set() {
    local set=$1 systems flags=() more lengths count
    eval "systems=(${SET_SYSTEMS[$set]})"
    if $ON_CPU; then flags+=(--cpu); elif [[ $PRECISION == fp16 ]]; then flags+=(--fp16); fi
    count=$(sentences_of "$set")
    if [[ $count != 0 ]]; then flags+=(--limit "$count"); fi
    if [[ -e $RECIPE/claims.tsv ]]; then flags+=(--by-sentence); fi
    case " $MEMORY_SETS " in
        *" $set "*) flags+=(--batch-size "$MEMORY_SIZES") ;;
        *) flags+=(--batch-size 1 --no-memory) ;;
    esac
    read -ra more <<< "$BENCH_FLAGS"
    read -ra lengths <<< "$LENGTH_FLAGS"
    log "$set"
    run specdec-bench "$BIN" --path "$(model_path "${SET_VERIFIER[$set]}")" -s "$SRC" -t "$TGT" \
        --gen-subset "${SET_SPLIT[$set]}" --remove-bpe --skip-invalid-size-inputs-valid-test \
        "${flags[@]}" ${lengths[@]+"${lengths[@]}"} ${more[@]+"${more[@]}"} "${systems[@]}" \
        --json "$OUT/bench/$set.json" --markdown "$OUT/bench/$set.md" \
        > "$OUT/bench/$set.log" 2>&1 || fail "specdec-bench failed: see $OUT/bench/$set.log"
}

# table_step: measure every set of systems.tsv (or of TABLE_SETS), then print the papers' tables with our
# figures beside theirs, $OUT/tables.md, and what becomes of the recipe's claims.tsv, $OUT/claims.md.
table_step() {
    local inputs=() shown=() written used set note
    need specdec-bench
    mkdir -p "$OUT/bench"
    use_devices
    collect_sets
    for set in ${SETS[@]+"${SETS[@]}"}; do
        case " ${TABLE_SETS:-$set} " in *" $set "*) ;; *) continue ;; esac
        COMMANDS=()
        mapfile -t used < <(printf '%s' "${SET_USED[$set]}")
        note_systems "$OUT/bench/$set.systems" "$OUT/bench/$set.provenance.json" \
            "sentences: $(sentences_of "$set"); " "$set"
        inputs=("${used[@]}" "$OUT/bench/$set.systems" "$BIN/${SET_SPLIT[$set]}.$PAIR.$SRC.bin")
        shown+=("$OUT/bench/$set.json")
        finished "$OUT/bench/$set.provenance.json" "${inputs[@]}" && continue
        bench_set "$set"
        record "$OUT/bench/$set.provenance.json" "${inputs[@]}" -- "$OUT/bench/$set.json"
    done
    COMMANDS=()
    note="corpus: $RECIPE_NOTE"
    [[ $PROFILE == full ]] || note="PROFILE=smoke: tiny models, a small sample; figures mean nothing"
    [[ -e $OUT/decoded/scores.json ]] && shown+=("$OUT/decoded/scores.json")
    run "$PYTHON" "$LIB/paper_table.py" "$PAPER" "$OUT/bench" --direction "$DIRECTION" \
        --scores "$OUT/decoded/scores.json" --note "$note" --output "$OUT/tables.md" ||
        fail "the tables could not be made: see above"
    written=("$OUT/tables.md")
    if [[ -e $RECIPE/claims.tsv ]]; then
        written+=("$OUT/claims.md")
        run "$PYTHON" "$LIB/claims.py" "$RECIPE/claims.tsv" "$OUT/bench" --note "$note" \
            --output "$OUT/claims.md" || fail "the claims could not be judged: see above"
    fi
    cat "${written[@]}"
    record "$OUT/tables.provenance.json" "$PAPER" ${shown[@]+"${shown[@]}"} -- "${written[@]}"
}
