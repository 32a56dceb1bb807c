"""Faults put into the C++ sources; the tests of bits and identity must fail under each.

Each takes a compiler run and two test files, so they run nightly (``-m slow``): every fifth, those
of the day, so that five nights try all.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import time

import pytest
import toy_cache
from sanitize import build

ROOT = pathlib.Path(__file__).resolve().parents[3]
NATIVE = pathlib.PurePath("fairseq_specdec") / "engine" / "native"
TESTS = [
    "tests/engine/native/test_products.py",
    "tests/engine/native/test_decoder.py",
    "tests/decoding/test_native_chains.py",
]
ON_BEAMS = ["-k", "beam"]
TESTS_OF = {
    "beam.cpp": [
        *(f"tests/decoding/test_{name}.py" for name in ("beam", "beam_batch", "parity")),
        *ON_BEAMS,
    ],
    "block_drafter.cpp": [
        *("tests/decoding/test_pace.py", "tests/drafting/test_nar_block.py"),
        *("tests/drafting/test_listed_words.py", *TESTS),
    ],
    "vocabulary.h": [
        *("tests/decoding/test_pace.py", "tests/drafting/test_nar_block.py"),
        *("tests/decoding/test_beam.py", *TESTS),
    ],
    "product.cpp": ["tests/engine/native/test_native_linear.py", *TESTS],
    "verify.cpp": ["tests/decoding/test_vocabulary.py", *TESTS],
    "verify.h": ["tests/decoding/test_length_limits.py", *TESTS],
    "source_copy.cpp": ["tests/decoding/test_native_chains.py", "-k", "copies or copied"],
    "beam_abi.cpp": ["tests/decoding/test_beam_batch.py", *ON_BEAMS],
    **dict.fromkeys(
        ("greedy_drafts.cpp", "vocabulary_list.cpp"), ["tests/decoding/test_vocabulary.py"]
    ),
    **dict.fromkeys(("word_list.cpp", "product_rows.cpp"), ["tests/drafting/test_listed_words.py"]),
}

# (file, what it says, what it says instead)
MUTANTS = [
    ("transformer.cpp", "kept[i] = physical_[rows[i]];", "kept[i] = physical_[i];"),
    ("transformer.cpp", "source_[physical_[block.row[t]]];", "source_[block.row[t]];"),
    ("transformer.cpp", "hidden == nullptr || !hidden[i]", "hidden == nullptr || true"),
    ("transformer.cpp", "x + --left * width, width, x", "x + (left -= 1, 0) * width, width, x"),
    ("transformer.cpp", "if (extras.read[n] == layer)", "if (extras.read[n] == layer + 1)"),
    ("transformer.cpp", "] = ragged.length(row);", "] |= ragged.length(row);"),
    ("transformer.cpp", "make_room(rows, source, source);", "make_room(1, source, source);"),
    ("attention.h", "weights[t] = allowed[t] ? weights[t] : kHiddenScore;", "(void)allowed;"),
    ("attention.h", "weights + upto, weights + groups", "weights + upto + 1, weights + groups"),
    ("attention.h", "slot % LANES;", "(slot + 1) % LANES;"),
    ("attention.h", "copy_n(other.values(row, head), count", "copy_n(other.values(row, head), 0"),
    ("product_formats.h", "to[count] = 0x80000000;", "to[count] = 0;"),
    ("product_formats.h", "kMostInt7 = 63.0f;", "kMostInt7 = 62.0f;"),
    ("product.cpp", "exact_in_halves(out, in, weight, numbers))", "true)"),
    ("product.cpp", "column % Half::kGroup * kWidth", "(1 - column % Half::kGroup) * kWidth"),
    ("product.cpp", "k / 2 * 2 * kPanel + k % 2 * second", "k / 2 * 2 * kPanel + k % 2"),
    ("norm.h", "variance + norm.epsilon", "variance + 2 * norm.epsilon"),
    ("verify.cpp", "entries.add(row, at, at + 1);", "entries.add(row, at, at + 2);"),
    ("verify.cpp", "std::min(position, places - 1)", "std::min(position + 1, places - 1)"),
    ("verify.cpp", "goes_on = accepted && !outcome[1] &&", "goes_on = accepted &&"),
    ("verify.cpp", "if (!entry.decided()) return false;", ""),
    ("verify.h", ">= limit_of(rules, row) ? rules.eos", "> limit_of(rules, row) ? rules.eos"),
    ("verify.h", "rules.max_len : rules.limits[row];", "rules.max_len : rules.limits[0];"),
    ("verify.h", "if (step < rules.min_len &&", "if (step + 1 < rules.min_len &&"),
    ("verify.h", "rules.min_len && step >= rules.prefix_width", "rules.min_len"),
    ("verify.h", "rules.prefix[row * rules.prefix_width + step]", "rules.prefix[step]"),
    ("verify.h", "token == rules.pad || token < 0 ?", "token < 0 ?"),
    ("verify.h", "logits[rules.pad] = kMinusInfinity;", ""),
    ("verify.h", "logits[rules.unk] -= rules.unk_penalty;", ""),
    ("verify.cpp", "outcome[2] = w + (accepted ? 1 : 0);", "outcome[2] = w;"),
    ("verify.cpp", "lengths_[row] += outcomes(step, row)[0];", "lengths_[row] += 1 + row % 2;"),
    ("verify.cpp", "limit_of(call_.rules, row) - lengths_[row]);", "int64_t{99});"),
    ("transformer.cpp", "cached[i] = cached[rows[i]];", ""),
    ("verify.cpp", "read += count;", ""),
    ("block_drafter.cpp", "row, wide) - (size - 1) * wide;", "row, wide);"),
    ("block_drafter.cpp", "call.hypotheses.lengths[row] + 1;", "call.hypotheses.lengths[row] + 2;"),
    ("block_drafter.cpp", "positions - 1 - *ends.second", "positions - *ends.second"),
    ("block_drafter.cpp", "if (gain > best_) {", "if (gain > best_ + 1) {"),
    ("vocabulary.h", "(above < count ? high : low) =", "(above < count ? low : high) ="),
    ("greedy_drafts.cpp", "std::min(session.cached[i], length)", "session.cached[i]"),
    ("greedy_drafts.cpp", "std::min(done, sizes[i] + 1)", "done + 1"),
    ("greedy_drafts.cpp", "session.drafted.how == 1", "false"),
    ("greedy_drafts.cpp", "session.list->add(known);", "(void)known;"),
    ("greedy_drafts.cpp", "put(i, steps[i],", "put(i, steps[i] - 1,"),
    ("greedy_drafts.cpp", "chosen[0] == copied[w]", "chosen[0] != copied[w]"),
    ("greedy_drafts.cpp", "(*among)[best]", "best"),
    ("greedy_drafts.cpp", "if (at < words) logits[at] += by;", ""),
    ("vocabulary_list.cpp", ": best) chosen_.append(token);", ": best) chosen_.append(0);"),
    ("vocabulary_list.cpp", "if (place_[token] >= 0) return;", ""),
    ("vocabulary_list.cpp", "  chosen_.clear();\n  for (size_t i", "  for (size_t i"),
    ("verify.cpp", "[++lengths_[row]] = chosen[row];", "[++lengths_[row]] = chosen[0];"),
    ("verify.cpp", "lengths_ = begun_;", ""),
    ("verify.cpp", "if (session_.list != nullptr) session_.list->add(token);", ""),
    ("verify.cpp", "features_ + kept_ * width_, {nullptr", "features_, {nullptr"),
    ("verify.cpp", "missed_ |= wrong;", ""),
    ("verify.cpp", "!outcome[1] && !last;", "!outcome[1];"),
    ("verify.cpp", "parts->drafted[w] == chosen[0];", "true;"),
    ("verify.cpp", "(rows == 1 && session.preview", "(session.preview"),
    ("verify.cpp", "call.rules.top_beta <= 1 &&", ""),
    ("verify.cpp", "ended_ |= outcome[1] != 0;", ""),
    ("source_copy.cpp", "alone = false;", "alone = true;"),
    ("source_copy.cpp", "right = i + size;", "right = i + size + 1;"),
    ("source_copy.cpp", "column + 1 < source.size", "column < source.size"),
    ("vocabulary.h", "peak.tied = ties > 1;", "peak.tied = false;"),
    ("beam.cpp", "rank < static_cast<size_t>(beam_)) ending", "true) ending"),
    ("beam.cpp", "step() >= limit_of(*rules_, row_)", "step() > limit_of(*rules_, row_)"),
    ("beam.cpp", "std::vector<Ended>(beam_, *first)", "std::vector<Ended>(1, *first)"),
    ("beam.cpp", ".scored && !forced;", ".scored;"),
    ("beam.cpp", "if (forced_after(live[0]) < 0) look_ahead", "look_ahead"),
    ("beam.cpp", ">= 0 && token != rules_->eos;) {", ">= 0;) {"),
    ("beam.cpp", "keep_best(candidates, count_);\n  std", "keep_best(candidates, beam_);\n  std"),
    ("beam.cpp", "if (prefixes[prefix].slot >= 0) free_.push", "free_.push"),
    ("beam.cpp", "depth + 1};", "depth};"),
    ("beam.cpp", "slots[prefixes[prefix].depth] = ", "slots[prefixes[prefix].depth] = 0 * "),
    ("beam.cpp", "while (prefix > 0 && prefixes[prefix].first_child < 0)", "while (prefix > 0)"),
    ("beam.cpp", "growth.back().score > unknown + reward", "growth.back().score + 2 > unknown"),
    ("beam.cpp", "best_scores_[first + i] + score", "best_scores_[first + i]"),
    ("beam.cpp", "logits[best[i]] - top - total", "logits[best[i]] - top"),
    ("beam_abi.cpp", "*length <= room,", "*length <= room + 9,"),
    ("block_drafter.cpp", "session_.list_of(row)", "row"),
    ("word_list.cpp", "logits[from[i]];", "logits[i];"),
    ("word_list.cpp", "std::lower_bound(all.begin()", "std::upper_bound(all.begin()"),
    ("product_rows.cpp", "<< k % 2 * 16;", "<< 16;"),
    ("product_rows.cpp", "static_cast<uint16_t>(pair >> 16);", "static_cast<uint16_t>(pair);"),
    ("product_rows.cpp", "whole.scales_.data()[from];", "whole.scales_.data()[first + o];"),
    ("product_rows.cpp", "std::min(first + o, numbers", "std::min(size_t(o), numbers"),
]
NIGHTS = 5
DAY = int(os.environ.get("SPECDEC_NIGHTLY_SEED", time.time() // 86400))
EVERY = os.environ.get("SPECDEC_NATIVE_MUTANTS") == "all"
ANOTHER = pytest.mark.skip(
    reason=f"another night's than SPECDEC_NIGHTLY_SEED={DAY}; SPECDEC_NATIVE_MUTANTS=all tries all"
)
CHOSEN = [
    pytest.param(*mutant, marks=[] if EVERY or (DAY - number) % NIGHTS == 0 else ANOTHER)
    for number, mutant in enumerate(MUTANTS)
]


def test_each_fault_has_its_place_in_the_sources():
    for name, before, _ in MUTANTS:
        text = (ROOT / NATIVE / "src" / name).read_text(encoding="utf-8")
        assert text.count(before) == 1, (name, before)


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """The tree, to be compiled with faults; whatever is compiled stays with the original."""
    folder = tmp_path_factory.mktemp("mutants") / "copy"
    left_out = shutil.ignore_patterns(".*", "build", "*.so", "data-bin", "docs", "scripts")
    shutil.copytree(str(ROOT), str(folder), ignore=left_out)
    return folder


def run(copy, tests, seconds):
    """pytest's exit status and last output, after the copy's sources were compiled."""
    build(copy / NATIVE, "-O1")
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
    command += [f"--timeout={seconds}", "--timeout-method=thread"]  # some faults loop in C++
    environment = dict(os.environ, PYTHONPATH=str(copy), SPECDEC_TOYS=str(toy_cache.folder()))
    done = subprocess.run(
        [*command, *tests],
        cwd=str(copy), env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip
    return done.returncode, done.stdout.decode(errors="replace")[-2000:]


@pytest.fixture(scope="module")
def passing(copy):
    """Makes sure, once, that tests pass without a fault, or else a fault would prove nothing."""
    passed = set()

    def check(tests):
        if tuple(tests) not in passed:
            status, output = run(copy, tests, seconds=600)  # of which toys are trained
            assert status == 0, output
            passed.add(tuple(tests))

    return check


@pytest.mark.slow
@pytest.mark.timeout(2400)  # of which the compiler takes most
@pytest.mark.parametrize("name, before, after", CHOSEN, ids=lambda text: text[:40])
def test_a_fault_in_the_sources_is_noticed(name, before, after, copy, passing):
    tests = TESTS_OF.get(name, TESTS)
    passing(tests)
    source = copy / NATIVE / "src" / name
    text = source.read_text(encoding="utf-8")
    source.write_text(text.replace(before, after), encoding="utf-8")
    try:
        status, output = run(copy, tests, seconds=60)
    finally:
        source.write_text(text, encoding="utf-8")
    # A crash is noticed too; 4 and 5 are pytest's: no tests.
    assert status not in (0, 4, 5), output
