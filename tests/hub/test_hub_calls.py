"""The calls of a translator: options of one call, texts as they end, progress, types."""

import asyncio
import gc
import re
import threading
import weakref

import pytest
import torch
from toy_pair import text_of
from toy_strategies import flags, stock_beams
from toy_translation import make_sample, make_task, sentences, toy_model, translate

from fairseq_specdec.commands.in_fairseq import hydra_field
from fairseq_specdec.decoding.greedy import Batch
from fairseq_specdec.errors import UsageError
from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.hub.decoding import Decoding
from fairseq_specdec.hub.flags import in_python, split_flags

SOURCES = sentences(12, seed=9)
TEXTS = [text_of(line) for line in SOURCES]


def load(pair, **flags):
    return SpeculativeTranslator.from_pretrained(pair, device="cpu", **flags)


@pytest.fixture(scope="module")
def translator(pair):
    return load(pair, strategy="gad", block_size=3)


@pytest.mark.parametrize(
    "call",
    [
        {"strategy": "iad"},
        {"beam": 3, "nbest": 2},
        {"strategy": "nar"},
        {"strategy": "gad++", "tau": 3.0, "top_beta": 3},
    ],
    ids=str,
)
def test_a_call_decodes_as_a_translator_with_its_flags(pair, translator, call):
    def outputs(results):
        return [(r.tokens, r.alternatives, r.scores) for r in results]

    alone = load(pair, **{"strategy": "gad", "block_size": 3, **call})
    expected = alone.translate(TEXTS)
    assert outputs(translator.translate(TEXTS, **call)) == outputs(expected)
    whole = translator.translate(TEXTS[0], **call)
    assert "".join(translator.translate_stream(TEXTS[0], **call)) == whole.text
    trace = translator.translate(TEXTS[0], return_trace=True, **call).trace
    assert trace.strategy == call.get("strategy", "gad")


@pytest.mark.parametrize(
    "flags, error, message",
    [
        ({"max_decoding_length": 2}, TypeError, r"; did you mean max_len_b\?"),
        ({"beem": 2}, TypeError, r"^beem: no such decoding flag; did you mean beam\?"),
        ({"strategy": "gadd"}, ValueError, r"^strategy gadd: unknown; .*; did you mean gad\?$"),
        ({"strategy": "nar", "prefix": ["w1"]}, ValueError, "^prefix: strategy nar has no ver"),
        ({"prefix": ["w1"] * 2}, ValueError, "^prefix: 2 for 1[2]? texts; give a list with one"),
        ({"verifier_dtype": "int8"}, ValueError, "^verifier_dtype: .* pass it to from_pretrained"),
        ({"prefix": ["w1 xq </s>", *[None] * 11]}, ValueError, "^prefix 'w1 xq </s>': xq, </s> is"),
        ({"batch_size": 0}, ValueError, "^batch_size 0: must be 1 or more"),
    ],
    ids=str,
)
def test_mistakes_in_a_call_are_named(translator, flags, error, message):
    for call in (translator.translate, translator.translate_as_completed):
        with pytest.raises(error, match=message):
            call(TEXTS, **flags)
    if "prefix" not in flags:
        with pytest.raises(error, match=message):
            translator.translate_stream(TEXTS[0], **flags)


@pytest.mark.parametrize("beam", [1, 3])
@pytest.mark.parametrize("strategy", ["greedy", "gad"])
def test_outputs_with_prefixes_are_fairseqs(translator, strategy, beam):
    """Of every length in one batch, and none; as of --prefix-size."""
    words = make_task().target_dictionary
    begun = [translate(line)[: i % 5] for i, line in enumerate([*SOURCES[3:], *SOURCES[:3]])]
    prefix = [text_of(line) if line else (None, "")[i % 2] for i, line in enumerate(begun)]
    rows = [[words.index(f"w{word}") for word in line] for line in begun]
    forced = torch.tensor([row + [words.pad()] * (4 - len(row)) for row in rows])
    expected = stock_beams([toy_model()], make_sample(SOURCES), flags(beam), forced)
    for size in (3, 12):
        results = translator.translate(
            TEXTS, prefix=prefix, strategy=strategy, beam=beam, nbest=beam, batch_size=size
        )
        for one, ranked in zip(results, expected):
            mine = [[*each.tokens, "</s>"] for each in (one, *one.alternatives)]
            assert mine == [[words[t] for t in each["tokens"].tolist()] for each in ranked]
    for text, wanted, one in zip(TEXTS, prefix, results):
        call = {"prefix": wanted, "strategy": strategy, "beam": beam}
        assert one.text.startswith(wanted or "")
        assert "".join(translator.translate_stream(text, **call)) == one.text
        assert translator.translate(text, **call).tokens == one.tokens
    lines = translator.translate("\n".join(TEXTS[4:6]), **dict(call, prefix=prefix[4])).text
    free = translator.translate(TEXTS[5], **dict(call, prefix=None)).text
    assert lines.split("\n") == [results[4].text, free]


def test_a_call_has_batches_of_its_size(translator, monkeypatch):
    sizes, batch = [], Decoding.batch

    def counted(self, rows, *prefixes):
        sizes.append(len(rows))
        return batch(self, rows, *prefixes)

    monkeypatch.setattr(Decoding, "batch", counted)
    translator.translate(TEXTS, batch_size=5)
    assert sizes == [5, 5, 2]
    completed = dict(translator.translate_as_completed(TEXTS, batch_size=4))
    waited = asyncio.run(translator.translate_async(TEXTS, batch_size=4))
    assert sizes[3:] == [4] * 6
    assert [completed[i].text for i in range(12)] == [each.text for each in waited]


def test_texts_come_as_they_end(pair, monkeypatch):
    """The shortest row of a batch comes while the others are still decoded."""
    ending, going_on = load(pair, strategy="greedy", backend="torch"), threading.Event()
    whole = ending.translate(TEXTS)
    assert len({len(r.tokens) for r in whole}) > 2
    iterate, seen, passes = Batch.iterate, [], []
    shortest = min(len(r.tokens) + 1 for r in whole)

    def held(batch, *most):
        if len(passes) == shortest:
            assert going_on.wait(60), "the first text to end did not come"
        passes.append(1)
        iterate(batch, *most)

    monkeypatch.setattr(Batch, "iterate", held)
    for i, result in ending.translate_as_completed(["", *TEXTS]):
        seen.append(i)
        if i:
            assert result.tokens == whole[i - 1].tokens
        if len(seen) == 2:  # others wait for this one
            going_on.set()
            assert ending.translate(TEXTS[0]).tokens == whole[0].tokens
    assert seen[0] == 0 and sorted(seen) == list(range(len(TEXTS) + 1))
    lengths = [len(whole[i - 1].tokens) for i in seen[1:]]
    assert lengths == sorted(lengths)


def test_progress_is_a_bar_on_stderr(translator, capsys):
    quiet = translator.translate(TEXTS)
    assert capsys.readouterr().err == ""
    shown = translator.translate(TEXTS, progress=True)
    assert [(one.text, one.scores) for one in shown] == [(one.text, one.scores) for one in quiet]
    assert f"{len(TEXTS)}/{len(TEXTS)}" in capsys.readouterr().err


def test_a_closed_translator_frees_its_models_and_is_refused_by_name(pair):
    with load(pair, strategy="gad") as closed:
        text = closed.translate(TEXTS[0]).text
        closed.translate(TEXTS[0], beam=2)
        model = weakref.ref(closed.generator.models[0])
    assert text
    calls = [
        lambda: closed.translate(TEXTS),
        lambda: closed.translate(TEXTS[0], beam=2),
        lambda: closed.translate_stream(TEXTS[0]),
        lambda: closed.translate_as_completed(TEXTS),
        lambda: closed.encode(TEXTS),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="^this translator is closed; load another"):
            call()
    closed.close()
    gc.collect()
    assert model() is None and "gad" in repr(closed)


@pytest.mark.parametrize(
    "name, value, message",
    [
        ("top_betta", 5, "no such decoding flag; did you mean top_beta?"),
        ("xyzzy", 5, "no such decoding flag; there are accept_epsilon, "),
        ("tau", "1", "expected float, got '1'"),
        ("top_beta", 2.5, "expected int, got 2.5"),
        ("block_size", True, "expected int, got True"),
        ("drafter_dtype", None, "expected str, got None"),
    ],
)
def test_other_names_and_types_are_refused(name, value, message):
    with pytest.raises(TypeError, match=re.escape(f"{name}: {message}")):
        split_flags("gad", None, {name: value})


def test_mistakes_are_reworded():
    said = "--drafter-path: --strategy iad wants --top-beta 1 of --path; fairseq-preprocess --foo"
    with pytest.raises(UsageError) as caught, in_python():
        raise UsageError(*said.replace("; ", ": ").split(": "))
    assert str(caught.value) == (
        "drafter: strategy iad wants top_beta 1 of verifier; fairseq-preprocess --foo"
    )
    assert str(caught.value.original) == said
    hydra = UsageError("--top-beta 0", "not --arch, --dropout, --no-such-flag")
    assert str(hydra.reworded(hydra_field)) == (
        "task.top_beta 0: not model._name, model.dropout, --no-such-flag"
    )
