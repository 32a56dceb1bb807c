"""Flags reach the generator; what cannot be honoured, or contradicts, is refused by name."""

import copy
import itertools
from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary
from toy_translation import make_task, toy_drafter, toy_model

from fairseq_specdec.acceptance import (
    BlockVerificationRule,
    DistanceRule,
    ExactRule,
    MinimumBlockRule,
    TopBetaRule,
)
from fairseq_specdec.config import SpecDecConfig, decoding_settings
from fairseq_specdec.decoding import builder
from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.drafter_file import load_drafter, load_small_model
from fairseq_specdec.decoding.options import DecodingOptions
from fairseq_specdec.decoding.policy import DecodingConstraints
from fairseq_specdec.decoding.strategies import OWN_FLAGS, STRATEGIES
from fairseq_specdec.drafting import NoDrafter

NAN = float("nan")
RELAXED = {"strategy": "blockwise", "accept_top_k": 2}
SAMPLING = {"sampling": True}
TOO_MANY = "--sampling-topk, --sampling-topp: give one"
ONE = "--nbest 9: --sampling with these flags decodes one hypothesis; use --beam 1 --nbest 1, or"


def make(args=None, models=None, words=None, **given):
    """The generator of generation flags and settings; ``given`` may have arguments of
    ``build_generator`` too."""
    words = words or make_task().tgt_dict
    names = ("src_dict", "extra", "load", "free_unpacked", "overrides")
    more = {name: given.pop(name) for name in names if name in given}
    settings = decoding_settings(**{"strategy": "iad", **given})
    models = models or [toy_model(updates=1)]
    return builder.build_generator(
        models, more.pop("src_dict", words), words, args or Namespace(), settings, **more
    )


# (settings, generation flags, what the error says; it begins with the flag)
REFUSED = [
    ({"strategy": "beam"}, {}, "--strategy beam: unknown; choose one of greedy, none, iad, given"),
    ({"strategy": "gad"}, {}, "--strategy gad: needs --drafter-path"),
    ({"strategy": "bild"}, {}, "--strategy bild: needs --drafter-path"),
    ({"strategy": "gad++", "drafter_path": "/no/d.pt"}, {}, "--drafter-path: no such file: /no/d"),
    ({"strategy": "gad", "drafter_path": "/dev/null"}, {}, "--drafter-path: /dev/null: is no regu"),
    ({"drafter_path": "d.pt"}, {}, "--drafter-path: --strategy iad uses no drafter"),
    ({"block_size": 0}, {}, "--block-size 0: must be 1 or more"),
    ({"strategy": "gad", "draft_confidence": 2}, {}, "--draft-confidence 2: must be from 0 to 1"),
    ({"strategy": "gad", "draft_budget": -1}, {}, "--draft-budget -1: must be 0 or more"),
    ({"strategy": "gad++", "top_beta": 0}, {}, "--top-beta 0: must be 1 or more"),
    ({"strategy": "specdec", "tau": NAN}, {}, "--tau nan: must be 0 or more"),
    ({"max_suffix": -1}, {}, "--max-suffix -1: must be 0 or more"),
    ({"threads": 0}, {}, "--threads 0: must be from 1 to 1024"),
    ({"backend": "gpu"}, {}, "--backend gpu: choose one of "),
    ({"cuda_graphs": "on"}, {}, "--cuda-graphs on: "),
    ({"verifier_dtype": "fp8"}, {}, "--verifier-dtype fp8: choose one of "),
    ({"strategy": "bild-early-exit", "alpha_fb": 1.5}, {}, "--alpha-fb 1.5"),
    ({"strategy": "bild-early-exit", "alpha_rb": -0.1}, {}, "--alpha-rb -0.1"),
    ({"trace_path": "/no/t.jsonl"}, {}, "--trace-path /no/t.jsonl: no such directory: /no; make"),
    ({"strategy": "blockwise", "accept_top_k": 0}, {}, "--accept-top-k 0"),
    ({"strategy": "blockwise", "accept_epsilon": NAN}, {}, "--accept-epsilon nan"),
    ({"strategy": "blockwise", "min_block_size": 0}, {}, "--min-block-size 0"),
    ({"strategy": "blockwise", "min_block_size": 5, "block_size": 4}, {}, "--min-block-size 5: at"),
    ({**RELAXED, "accept_epsilon": 0.0}, {}, "--accept-top-k and --accept-epsilon"),
    ({}, {"constraints": "unordered"}, "--constraints: "),
    ({}, {"lm_path": "lm.pt"}, "--lm-path: "),
    ({}, {"diverse_beam_groups": 2}, "--diverse-beam-groups: "),
    ({}, {"diversity_rate": 0.0}, "--diversity-rate: "),
    ({}, {"match_source_len": True}, "--match-source-len: "),
    ({}, SAMPLING, "--sampling: "),
    ({}, {"sampling_topk": 3}, "--sampling-topk: "),
    ({"strategy": "greedy"}, {"sampling_topp": 0.5}, "--sampling-topp: needs --sampling"),
    ({"strategy": "greedy"}, {"sampling_topk": 0}, "--sampling-topk 0: must be 1 or more"),
    ({"strategy": "greedy"}, {**SAMPLING, "sampling_topp": 0.0}, "--sampling-topp 0.0: must be gr"),
    ({"strategy": "greedy"}, {**SAMPLING, "sampling_topp": 1.5}, "--sampling-topp 1.5"),
    ({"strategy": "greedy"}, {**SAMPLING, "sampling_topp": NAN}, "--sampling-topp nan"),
    ({"strategy": "greedy"}, {"sampling_topk": 2, "sampling_topp": 0.5, **SAMPLING}, TOO_MANY),
    ({}, {"print_alignment": "soft"}, "--print-alignment: "),
    ({}, {"replace_unk": ""}, "--replace-unk: "),
    ({}, {"prefix_allowed_tokens_fn": print}, "--prefix-allowed-tokens-fn: "),
    ({}, {"score_reference": True}, "--score-reference: "),
    ({}, {"retain_dropout": True}, "--retain-dropout: "),
    ({}, {"temperature": 0.0}, "--temperature: "),
    ({}, {"temperature": NAN}, "--temperature: "),
    ({}, {"lenpen": NAN}, "--lenpen nan: must be a finite number"),
    ({}, {"beam": 0}, "--beam 0: must be 1 or more"),
    ({}, {"beam": 27}, "--beam 27: the target dictionary has 28 entries; use --beam 26"),
    ({}, {"beam": 3, "nbest": 0}, "--nbest 0: must be 1 or more"),
    ({}, {"beam": 3, "nbest": 4}, "--nbest 4: there are --beam 3 hypotheses; use --beam 4"),
    (RELAXED, {"beam": 3, "nbest": 2}, "--nbest 2: --strategy blockwise with these flags decodes"),
    ({"strategy": "greedy"}, {**SAMPLING, "beam": 9, "nbest": 9}, ONE),
]  # fmt: skip


def test_what_cannot_be_is_refused():
    for settings, args, error in REFUSED:
        with pytest.raises(ValueError) as caught:
            make(Namespace(**args), **settings)
        assert str(caught.value).startswith(error), (settings, args)


def changed(flag):
    """A legal value of a flag that is not its default."""
    field = SpecDecConfig.__dataclass_fields__[flag]
    values = field.metadata["values"]
    if isinstance(values, tuple):
        return next(value for value in values if value != field.default)
    if values is None:
        return True if field.default is False else "words.txt"
    return values.least + (values.least == field.default)


def test_flags_are_read_or_refused():
    """Silence would let a user believe that a flag did something."""
    for strategy, (flag, owners) in itertools.product(STRATEGIES, OWN_FLAGS.items()):
        path = __file__ if STRATEGIES[strategy].needs_drafter else None
        given = decoding_settings(strategy=strategy, drafter_path=path, **{flag: changed(flag)})
        if strategy in owners:
            builder.check_settings(given)
            continue
        error = f"^--{flag.replace('_', '-')}: --strategy {strategy} does not use it; leave it out"
        with pytest.raises(ValueError, match=error.replace("+", r"\+")) as caught:
            builder.check_settings(given)
        assert all(reader in str(caught.value) for reader in owners)


def test_dictionaries_that_a_strategy_or_rule_cannot_read():
    words, other = make_task().tgt_dict, Dictionary()
    other.add_symbol("nine")
    builder.check_dictionaries("greedy", words, other)
    with pytest.raises(ValueError, match="--strategy iad: .*--joined-dictionary"):
        builder.check_dictionaries("iad", words, other)
    with pytest.raises(ValueError, match="--strategy iad: .* the source of this task is no text"):
        builder.check_dictionaries("iad", None, words)
    settings = decoding_settings(strategy="blockwise", accept_epsilon=0.5)
    with pytest.raises(ValueError, match="--accept-epsilon"):
        builder.check_dictionaries("blockwise", other, other, settings)
    builder.check_dictionaries("blockwise", other, other)


@pytest.mark.parametrize(
    "flags, kind",
    [
        ({"strategy": "greedy"}, ExactRule),
        ({"strategy": "gad++", "top_beta": 5, "tau": 0.7}, TopBetaRule),
        ({"strategy": "blockwise"}, ExactRule),
        ({"strategy": "blockwise", "accept_top_k": 1}, TopBetaRule),
        ({"strategy": "blockwise", "accept_epsilon": 0.0}, DistanceRule),
        ({"strategy": "blockwise", "min_block_size": 2, "block_size": 2}, MinimumBlockRule),
    ],
)
def test_the_rule_is_the_strategys(flags, kind):
    rule = builder.rule_of(decoding_settings(**flags), None)
    assert type(rule) is kind
    assert all(getattr(rule, name) == flags[name] for name in ("top_beta", "tau") if name in flags)


def test_the_model_that_cannot_verify_is_named():
    models = [toy_model(updates=1), torch.nn.Identity()]
    models[1].decoder = models[0].decoder
    with pytest.raises(ValueError, match=r"--path \(model 2 of 2\) holds a Identity"):
        make(models=models)
    with pytest.raises(ValueError, match="holds a drafter, not a verifier; were --path"):
        make(models=[toy_drafter()])


def test_flags_reach_the_generator():
    words = make_task().tgt_dict
    models = [toy_model(updates=1), copy.deepcopy(toy_model("learned"))]
    models[1].decoder.max_target_positions = models[1].decoder.embed_positions.max_positions = 9
    args = Namespace(
        min_len=3, unkpen=1.5, no_repeat_ngram_size=4, max_len_a=2, max_len_b=9, lenpen=0.7,
        unnormalized=True, temperature=2.0, retain_iter_history=True, beam=3,
    )  # fmt: skip
    generator = make(
        args, models, extra={"eos": 7, "symbols_to_strip_from_output": {8}}, draft_budget=5,
        backend="torch", verifier_dtype="bf16", free_unpacked=True,
    )  # fmt: skip
    expected = DecodingConstraints(words.pad(), words.unk(), 7, 3, 1.5, 4, 2, 9, 9)
    assert generator.policy == expected
    assert generator.options == DecodingOptions(
        "iad", beam=3, normalize_scores=False, len_penalty=0.7, temperature=2.0, keep_trace=True,
        keep_history=True, draft_budget=5, inference=True, free_unpacked=True,
        hidden=frozenset({7, 8}), backend="torch", verifier_format="bf16",
    )  # fmt: skip
    assert generator.max_len_a == 2 and generator.len_penalty == 0.7  # stock's attributes


@pytest.mark.parametrize(
    "strategy, args, flags, quick",
    [
        ("gad", {}, {}, True),
        ("sps", {}, {}, True),
        ("gad", {}, {"drafter_dtype": "same"}, False),
        ("gad", SAMPLING, {}, False),
        ("gad++", {}, {}, True),
        ("bild", {}, {}, False),
    ],
)
def test_a_drafter_is_read_in_the_quickest_format_where_the_output_does_not_need_another(
    strategy, args, flags, quick, monkeypatch
):
    """With both dictionaries and all that it has to know."""
    words, other, asked = make_task().tgt_dict, make_task().tgt_dict, []
    monkeypatch.setattr(builder, "quickest_format", lambda asked, _: {"auto": "int8"}[asked])
    small = strategy in ("sps", "bild")

    def load(*given):
        asked.append(given)
        return copy.deepcopy(toy_model("learned", seed=2) if small else toy_drafter())

    generator = make(
        Namespace(**args, temperature=1.5, sampling_topk=3 if args else -1), words=words,
        src_dict=other, extra={"eos": 7}, load=load, strategy=strategy, drafter_path=__file__,
        block_size=3, **flags,
    )  # fmt: skip
    wanted = "int8" if quick else None
    ((path, src_dict, tgt_dict, read, dtype),) = asked
    assert path == __file__ and src_dict is other and tgt_dict is words and dtype == wanted
    assert read is (load_small_model if small else load_drafter)
    options = generator.drafter.options
    assert (options.block_size, options.pad, options.eos) == (3, words.pad(), 7)
    assert options.temperature == 1.5 and options.number_format == wanted
    if args:
        assert options.sampler is generator.rule.sampler and options.sampler.topk == 3
        assert type(generator.rule) is BlockVerificationRule


@pytest.mark.parametrize(
    "args, settings, beam, log",
    [
        ({}, {}, 1, ""),
        ({"beam": 26, "nbest": 26}, {}, 26, ""),
        ({"beam": 2}, RELAXED, 1, "--beam 2: --strategy blockwise with these flags decodes one"),
        ({"beam": 5, **SAMPLING}, {"strategy": "greedy"}, 1, "--beam 5: --sampling with these"),
    ],
)
def test_how_many_hypotheses(args, settings, beam, log, caplog):
    overrides = Overrides(NoDrafter())
    with caplog.at_level("INFO"):
        assert make(Namespace(**args), overrides=overrides, **settings).options.beam == beam
    assert log in caplog.text and (log or not caplog.text)
