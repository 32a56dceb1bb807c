"""Greedy decoding that chooses among a list of tokens for most steps: plain greedy's bits."""

import copy
import random

import pytest
import torch
from toy_strategies import TOYS, bits, flags, make_generator
from toy_translation import (
    FIRST,
    PAD,
    SHAPES,
    WORDS,
    assert_diverse,
    make_sample,
    make_task,
    sentences,
    toy_model,
    with_ties,
)

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import Overrides, build_generator
from fairseq_specdec.decoding.generator import SpeculativeGenerator
from fairseq_specdec.decoding.strategies import STRATEGIES
from fairseq_specdec.decoding.strategies.base import VocabularyFlags
from fairseq_specdec.drafting import twin, vocabulary
from fairseq_specdec.drafting.vocabulary import read_list, vocabulary_for
from fairseq_specdec.engine.backend import choose_backend
from fairseq_specdec.engine.native import decoder as native_decoder


@pytest.fixture(autouse=True)
def small_twins(with_library, monkeypatch):
    monkeypatch.setattr(twin, "_SMALLEST", 0)


def generator_for(
    model, args=None, src_dict=None, backend="native", twin="none", **settings
) -> SpeculativeGenerator:
    drafts = {} if "strategy" in settings and twin == "none" else {"twin": twin}
    settings.update(backend=backend, **drafts)
    words, chosen = make_task().tgt_dict, decoding_settings(**settings)
    dictionaries, always = (src_dict or words, words), Overrides(always_draft=True)
    return build_generator([model], *dictionaries, args or flags(), chosen, overrides=always)


def write(path, tokens):
    symbols = make_task().tgt_dict.symbols
    path.write_text("".join(f"{symbols[token]} 7\n" for token in tokens), encoding="utf-8")
    return str(path)


def outputs_of(generator, sources, prefix=None):
    """(tokens, scores) of every sentence, to the bit; twice, as the second batch finds the list."""
    found, sample = [], make_sample(sources)
    sample["draft_tokens"] = sample["net_input"]["src_tokens"]
    for _ in range(2):
        ranked = generator.generate(generator.models, sample, prefix_tokens=prefix)
        found += bits(best for (best,) in ranked)
    return found


def prefixes(chosen, rows):
    table = torch.full((rows, 3), PAD)
    for row in table:
        size = chosen.randint(0, 3)
        row[:size] = torch.tensor([chosen.randrange(FIRST, FIRST + WORDS) for _ in range(size)])
    return table


@pytest.mark.parametrize("seed", range(40))
def test_outputs_are_those_of_plain_greedy_search(seed, tmp_path, monkeypatch):
    chosen = random.Random(seed)
    monkeypatch.setattr(native_decoder, "LEAST_ROOM", chosen.choice((0, 2, 64)))
    learning(monkeypatch, 4, 1, chosen.choice((1, 2, 64)), 2)
    monkeypatch.setattr(vocabulary, "_PREVIEWED", (chosen.choice((1, 4, 16, 64)),))
    monkeypatch.setattr(vocabulary, "LISTED", chosen.choice((4, 5)))  # with a preview, or a list
    model = toy_model(chosen.choice(sorted(SHAPES)))
    tied = chosen.random() < 0.2
    model = with_ties(model) if tied else model
    sources = sentences(chosen.choice((1, 1, 2, 3, 4, 9)), seed=seed)
    args = flags(
        max_len_b=chosen.choice((3, 8, 20)), min_len=chosen.choice((1, 3, 6)),
        unkpen=chosen.choice((0, 0, 2.5, -20)), temperature=chosen.choice((1.0, 0.7, 3.0)),
    )  # fmt: skip
    args.min_len = min(args.min_len, args.max_len_b)
    dtype = chosen.choice(("fp32", "bf16", "int8", "int7"))
    prefix = prefixes(chosen, len(sources)) if chosen.random() < 0.3 else None
    plain = generator_for(model, args, verifier_dtype=dtype, vocabulary_window=1)
    expected = outputs_of(plain, sources, prefix)
    listed = chosen.sample(range(FIRST + WORDS), chosen.randint(1, 14))
    path = write(tmp_path / "list", listed)
    for given, window in ((path, 2), (path, chosen.choice((3, 4, 8, 16))), (path, None), (None, 8)):
        lists = {"vocabulary_list": given, "vocabulary_window": window}
        generator = generator_for(model, args, verifier_dtype=dtype, **lists)
        assert outputs_of(generator, sources, prefix) == expected, (given, window)
    if dtype in ("fp32", "bf16"):
        listed = {"vocabulary_list": path}
        for more in ({}, listed, {"vocabulary_window": 8}, {"strategy": "given"}):
            generator = generator_for(model, args, verifier_dtype=dtype, twin="int8", **more)
            found = outputs_of(generator, sources, prefix)
            # Torch decides a whole draft that has a tie in it.
            alike = [pytest.approx(scores, abs=1e-4) if tied else scores for _, scores in expected]
            assert found == [(tokens, scores) for (tokens, _), scores in zip(expected, alike)]


LISTING = {name for name, one in STRATEGIES.items() if VocabularyFlags in one.flags}
DRAFTING = [case for case, toys in TOYS.items() if toys.strategy in LISTING - {"greedy", "none"}]


@pytest.mark.parametrize("case", DRAFTING)
@pytest.mark.parametrize("seed", range(6))
def test_drafts_are_kept_by_a_list_before_the_vocabulary_decides(case, seed, tmp_path, monkeypatch):
    chosen = random.Random(seed)
    monkeypatch.setattr(vocabulary, "_LIKELIEST", chosen.choice((1, 2, 64)))
    verifier = TOYS[case].verifier()
    model = with_ties(verifier) if seed == 0 else verifier
    args = flags(
        max_len_b=chosen.choice((3, 8, 20)), unkpen=chosen.choice((0, 2.5, -20)),
        temperature=chosen.choice((1.0, 3.0)),
    )  # fmt: skip
    dtype = chosen.choice(("fp32", "bf16", "int8"))
    path = write(tmp_path / "list", chosen.sample(range(FIRST + WORDS), chosen.randint(1, 14)))
    lists = ({"vocabulary_list": path}, {"vocabulary_window": chosen.choice((2, 4, 8, 16))})
    own = {"blockwise": {"accept_top_k": chosen.choice((1, 3))}, "given": {"twin": "none"}}
    rule = own.get(case, {})
    found, spent = [], []
    for more in ({"vocabulary_window": 1}, *lists, {**lists[0], **lists[1]}):
        generator = make_generator(case, args, [model], verifier_dtype=dtype, **rule, **more)
        sources = [[source] for source in sentences(8, seed=seed)] + [sentences(3, seed=seed)]
        found.append([outputs_of(generator, some) for some in sources])
        spent.append(generator.stats.windows)
    assert found[1:] == found[:1] * 3
    assert spent[0] == 0 and (spent[3] > 0) == (rule != {"accept_top_k": 3})


@pytest.mark.parametrize("halves", [False, True])
def test_one_product_decides_several_tokens_once_their_list_is_good(halves, tmp_path):
    sources, model = sentences(12, seed=1), copy.deepcopy(toy_model())
    if halves:  # the library keeps weights in 16 bits that fit them
        model.half().float()
    batches = list(zip(sources, sources[1:]))  # windows of a lone row end early
    path, other = write(tmp_path / "list", [FIRST]), copy.deepcopy(make_task().src_dict)
    other.add_symbol("another")

    def run(generator):
        """(outputs, tokens emitted, products of the whole vocabulary, iterations) of all."""
        before = copy.copy(generator.stats)
        found = [generator.generate([model], make_sample(pair))[0][0] for pair in batches]
        spent = [
            getattr(generator.stats, name) - getattr(before, name)
            for name in ("emitted", "windows", "iterations")
        ]
        return [one["tokens"].tolist() for one in found], *spent

    plain, emitted, windows, _ = run(generator_for(model, vocabulary_window=1))
    assert_diverse(plain)
    assert windows == 0
    first = {}
    # The sources' tokens join the list where both sides have one dictionary; all that is emitted.
    for name, src_dict in (("joined", None), ("separate", other)):
        lists = {"vocabulary_list": path, "src_dict": src_dict}
        windows = generator_for(model, vocabulary_window=4, **lists)
        twin = generator_for(model, twin="int8", **lists)
        for kind, generator, spent in (("windows", windows, 2), ("twin", twin, 3)):
            begin, end = run(generator), run(generator)
            assert begin[0] == end[0] == plain and begin[1] == end[1] == emitted
            assert end[spent] <= begin[spent] < emitted and end[spent] < 0.4 * emitted, kind
            first[name, kind] = begin[spent]
            if name == "separate":
                assert end[spent] < begin[spent]
    for kind in ("windows", "twin"):
        assert first["joined", kind] < first["separate", kind]


def learning(monkeypatch, observed, missed, likeliest=4, checked=32):
    """A preview of so many tokens after so many features, if not more are missed than this."""
    values = {"OBSERVED": observed, "MISSED": missed, "LIKELIEST": likeliest, "CHECKED": checked}
    monkeypatch.setattr(vocabulary, "LISTED", 4)  # the dictionary is one of many languages
    for name, value in values.items():
        monkeypatch.setattr(vocabulary, f"_{name}", value)


@pytest.mark.parametrize("form", ["fp32", "int8"])
@pytest.mark.parametrize("missed", [0.1, -1])
def test_a_preview_shows_the_right_token(missed, form, monkeypatch):
    """Among few, in few dimensions, once some features were seen; not where it misses too many."""
    learning(monkeypatch, 96, missed)
    sources, model, outputs = sentences(24, seed=1), toy_model(), []
    for window in (1, 16):
        generator = generator_for(model, vocabulary_window=window, verifier_dtype=form)
        outputs.append([outputs_of(generator, [source]) for source in sources])
    assert outputs[0] == outputs[1]
    observed = generator.parts().vocabulary.observed
    assert observed.done and (observed.preview is None) == (missed < 0)
    assert 0 < generator.stats.windows < 0.7 * generator.stats.emitted


def test_a_preview_in_all_dimensions_is_the_product(monkeypatch):
    monkeypatch.setattr(vocabulary, "_PREVIEWED", (1,))
    output = torch.nn.Linear(32, 70).requires_grad_(False)
    x = torch.randn(512, 32) + torch.arange(32)
    preview = vocabulary.Preview.of(x, output, choose_backend("native", [toy_model()], "fp32"))
    shown = preview.narrow(preview.projection(x))
    torch.testing.assert_close(shown, output(x), rtol=0, atol=0.1)


def test_a_twin_does_without_a_preview_or_list_that_misses(monkeypatch, tmp_path):
    """Its drafts would end at once."""
    of, other = vocabulary.Preview.of, copy.deepcopy(make_task().src_dict)
    monkeypatch.setattr(vocabulary.Preview, "of", lambda x, y, b: of(x, lambda z: -y(z), b))
    monkeypatch.setattr(native_decoder, "LEAST_ROOM", 0)
    learning(monkeypatch, 160, 1)
    other.add_symbol("another")  # so that the source's tokens do not join the list
    path = write(tmp_path / "list", [FIRST])
    given = {"vocabulary_window": 16}, {"vocabulary_list": path, "src_dict": other}
    ours = [generator_for(toy_model(), twin="int8", **each) for each in given]
    whole = generator_for(toy_model(), twin="int8", vocabulary_window=1)
    for source in sentences(24, seed=1) * 4:
        wanted = outputs_of(whole, [source])
        assert [outputs_of(each, [source]) for each in ours] == [wanted, wanted]
    seen = ours[0].parts().vocabulary.observed
    assert seen.preview is not None and len(seen.features.unique(dim=0)) > 70
    for each in ours:
        assert whole.stats.iterations < each.stats.iterations < 1.1 * whole.stats.iterations


def test_a_twin_drafts_where_a_given_text_does_not(monkeypatch):
    monkeypatch.setattr(twin, "_BLOCK", 1)
    model, sources = toy_model(), sentences(12, seed=1)
    alone = generator_for(model, twin="int8")
    wanted = [outputs_of(alone, [source]) for source in sources]
    iterations = {}
    for name, of in (("right", 0), ("wrong", 1), ("none", None)):
        ours = generator_for(model, twin="int8", strategy="given")
        for i, source in enumerate(sources):
            for rows in (1, 2):
                sample = make_sample([source] * rows)
                if of is not None:
                    sample["draft_tokens"] = torch.tensor([wanted[i - of][0][0]] * rows)
                found = bits(best for (best,) in ours.generate([model], sample))
                assert found == wanted[i][:1] * rows
        iterations[name] = ours.stats.iterations
    assert iterations["right"] < 0.8 * iterations["wrong"] <= 0.8 * 1.05 * iterations["none"]


def test_a_large_verifier_has_a_twin_for_lone_sentences(monkeypatch, caplog):
    caplog.set_level("INFO")
    model, (first, second, *_) = toy_model(), sentences(12, seed=1)

    def drafted(sources, args=None, twin="auto", **settings):
        generator = generator_for(model, args, twin=twin, **settings)
        generator.generate([model], make_sample(sources))
        return generator.stats.drafted

    monkeypatch.setattr(twin, "memory_left", lambda: None)
    assert drafted([first]) > 0 and drafted([first, second]) == 0
    assert drafted([first], twin="none") == drafted([first], verifier_dtype="int8") == 0
    beams, draws = flags(beam=2), flags()
    draws.sampling = True
    assert drafted([first], beams) == drafted([first], draws) == 0
    assert drafted([first], backend="torch") == 0
    size = sum(weight.numel() for weight in model.decoder.parameters())
    monkeypatch.setattr(twin, "memory_left", lambda: 2 * size)
    assert drafted([first]) > 0
    monkeypatch.setattr(twin, "memory_left", lambda: 2 * size - 1)
    assert drafted([first]) == 0
    assert "--twin int8 would be faster, but" in caplog.text
    monkeypatch.undo()
    assert drafted([first]) == 0  # it lies in the cache
    assert 0 < twin.memory_left() < 1 << 50


def test_steps_heed_what_outputs_must_be(tmp_path):
    """A step that chooses a token which must not be, or misses one that must, ends its window."""
    model, sources = toy_model(), sentences(12, seed=1)
    path, args = write(tmp_path / "list", range(4, FIRST + 12)), flags(min_len=11, max_len_b=11)
    for settings in ({"vocabulary_window": 12}, {"twin": "int8"}):
        generator = generator_for(model, args, vocabulary_list=path, **settings)
        begun = torch.tensor([[FIRST + 1, FIRST + 2]] * 2)
        for _ in range(2):
            before = copy.copy(generator.stats)
            for source in sources:
                pair = make_sample([source, source])
                for (one,) in generator.generate([model], pair, prefix_tokens=begun):
                    assert len(one["tokens"]) == 12
                    assert one["tokens"][:2].tolist() == begun[0].tolist()
        stats = generator.stats
        windows, iterations = stats.windows - before.windows, stats.iterations - before.iterations
        assert windows < 20 if "twin" not in settings else iterations < 70, settings


def test_a_large_dictionary_has_a_list_by_itself(monkeypatch, tmp_path):
    words = make_task().tgt_dict
    model = toy_model()

    def listed(path=None, window=None, src_dict=words):
        return vocabulary_for(path, window, model, src_dict, words)

    assert listed() is listed(window=1) is None and listed(window=8).window == 8
    (tmp_path / "list").write_text("\n".join(words.symbols[-len(words) // 2 :]))
    assert len(listed(str(tmp_path / "list")).tokens) == len(words) // 2
    monkeypatch.setattr("fairseq_specdec.drafting.vocabulary.LARGE", len(words))
    found = listed()
    assert found.window is None and found.tokens.tolist() == list(range(len(words) // 5))
    assert found.reads_source and not listed(src_dict=None).reads_source


@pytest.mark.parametrize(
    "content, problem",
    [
        (b"", "is empty, not a list of tokens"),
        (b"w1\nnone\n", "'none' is not in the model's dictionary; list its subwords"),
        (b"".join(b"w%d 3\n" % i for i in range(WORDS // 2 + 3)), "has 15 tokens; list 1 to 14 "),
        (b"w1\n\xff\n", "is not text in UTF-8"),
        (b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n", "Git LFS"),
        (None, "name a file with one token per line"),
    ],
)
def test_odd_lists_are_refused(content, problem, tmp_path):
    path = tmp_path / "list"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match="--vocabulary-list") as error:
        read_list(str(path), make_task().tgt_dict)
    assert problem in str(error.value)


def test_a_twin_is_seldom_rejected_and_needs_a_verifier_of_more_bits():
    sources, model = sentences(12, seed=1), toy_model()
    generator = generator_for(model, twin="int8")
    outputs_of(generator, sources)
    stats = generator.stats
    assert stats.accepted > 0.9 * stats.drafted > 0
    assert stats.iterations < 0.6 * stats.emitted
    with pytest.raises(ValueError, match="--twin int8: the verifier has 8 bits already"):
        generator_for(model, twin="int8", verifier_dtype="int8")


def test_a_twin_drafts_for_samples_and_ensembles():
    sample, words = make_sample(sentences(6, seed=1)), make_task().tgt_dict
    always = Overrides(always_draft=True)
    models, expected = [toy_model(), toy_model("pre_norm")], None
    for kind in ("none", "int8"):
        chosen = decoding_settings(backend="native", twin=kind)
        generator = build_generator(models, words, words, flags(), chosen, overrides=always)
        tokens = [h["tokens"].tolist() for (h,) in generator.generate(models, sample)]
        assert tokens == (expected or tokens)
        expected = tokens
    assert generator.stats.accepted > 0
    drawing = flags()
    drawing.sampling, drawing.sampling_topk = True, 3
    generator = generator_for(toy_model(), drawing, twin="int8")
    torch.manual_seed(1)
    drawn = [generator.generate([toy_model()], sample) for _ in range(4)]
    assert len({str([h["tokens"].tolist() for (h,) in one]) for one in drawn}) > 1
    assert 0 < generator.stats.accepted < generator.stats.drafted
