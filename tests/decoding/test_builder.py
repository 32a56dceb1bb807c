"""Flags that cannot be honoured, or that contradict one another, are refused by name."""

import copy
from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.dataclass.configs import GenerationConfig
from toy_translation import make_task, toy_drafter, toy_model

from fairseq_specdec.acceptance import BlockVerificationRule, ExactRule, TopBetaRule
from fairseq_specdec.config import SpecDecConfig, decoding_settings
from fairseq_specdec.decoding import builder
from fairseq_specdec.decoding import generation_flags as generation
from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.drafter_file import load_drafter, load_small_model
from fairseq_specdec.decoding.options import DecodingOptions
from fairseq_specdec.decoding.policy import DecodingConstraints
from fairseq_specdec.decoding.stats import DecodingStats
from fairseq_specdec.decoding.strategies import OWN_FLAGS, STRATEGIES
from fairseq_specdec.drafting import NoDrafter
from fairseq_specdec.drafting.copying import InputCopyDrafter


@pytest.mark.parametrize(
    "changes, error",
    [
        ({"strategy": "beam"}, "--strategy beam: unknown; choose one of greedy, none, iad, lookup"),
        ({"strategy": "gad"}, "--strategy gad: needs --drafter-path"),
        ({"strategy": "gad++", "drafter_path": "/no/d.pt"}, "no such file: /no/d.pt"),
        ({"strategy": "gad", "drafter_path": "/dev/null"}, "/dev/null: is no regular file; name"),
        ({"strategy": "iad", "drafter_path": "d.pt"}, "--strategy iad uses no drafter"),
        ({"block_size": 0}, "--block-size 0: must be 1 or more"),
        ({"strategy": "iad", "block_size": -3}, "--block-size -3: must be 1 or more"),
        ({"strategy": "gad", "draft_confidence": 2}, "--draft-confidence 2: must be from 0 to 1"),
        ({"strategy": "gad", "draft_budget": -1}, "--draft-budget -1: must be 0 or more"),
        ({"strategy": "gad++", "top_beta": 0}, "--top-beta 0: must be 1 or more"),
        ({"strategy": "specdec", "tau": -0.5}, "--tau -0.5: must be 0 or more"),
        ({"strategy": "gad++", "regret_budget": -1.0}, "--regret-budget -1.0: must be 0 or more"),
        ({"strategy": "specdec", "tau": float("nan")}, "--tau nan: must be 0 or more"),
        ({"strategy": "iad", "max_suffix": -1}, "--max-suffix -1: must be 0 or more"),
        ({"threads": 0}, "--threads 0: must be from 1 to 1024"),
        ({"strategy": "bild", "drafter_path": __file__, "alpha_fb": -0.1}, "--alpha-fb -0.1"),
        ({"strategy": "bild", "drafter_path": __file__, "alpha_fb": 1.5}, "--alpha-fb 1.5"),
        ({"strategy": "bild-early-exit", "alpha_fb": float("nan")}, "--alpha-fb nan"),
        ({"strategy": "bild-early-exit", "alpha_rb": -0.1}, "--alpha-rb -0.1"),
        ({"strategy": "bild-early-exit", "block_size": 0}, "--block-size 0"),
        ({"strategy": "bild"}, "--strategy bild: needs --drafter-path"),
        ({"trace_path": "/no/t.jsonl"}, "--trace-path /no/t.jsonl: no such directory: /no; make"),
    ],
    ids=str,
)
def test_settings_are_refused(changes, error):
    with pytest.raises(ValueError) as caught:
        builder.check_settings(decoding_settings(**changes))
    assert error in str(caught.value)


def changed(flag):
    """A legal value of a flag that is not its default."""
    field = SpecDecConfig.__dataclass_fields__[flag]
    values = field.metadata["values"]
    if isinstance(values, tuple):
        return next(value for value in values if value != field.default)
    if values is None:
        return True if field.default is False else "edits.tsv"
    return values.least + (values.least == field.default)


def test_help_names_the_strategies_and_their_flags():
    fields = SpecDecConfig.__dataclass_fields__
    assert "greedy or none (nothing drafted)" in fields["strategy"].metadata["help"]
    assert all(name in fields["strategy"].metadata["help"] for name in STRATEGIES)
    assert OWN_FLAGS["max_suffix"] == ("iad", "lookup")
    assert fields["max_suffix"].metadata["help"].startswith("iad, lookup: longest suffix")


@pytest.mark.parametrize("flag", sorted(OWN_FLAGS))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_flags_are_read_or_refused(strategy, flag):
    """Silence would let a user believe that a flag did something."""
    path = __file__ if STRATEGIES[strategy].needs_drafter else None
    given = decoding_settings(strategy=strategy, drafter_path=path, **{flag: changed(flag)})
    if strategy in OWN_FLAGS[flag]:
        builder.check_settings(given)
        return
    with pytest.raises(ValueError) as caught:
        builder.check_settings(given)
    error = str(caught.value)
    assert error.startswith(f"--{flag.replace('_', '-')}: --strategy {strategy} does not use it; ")
    assert all(reader in error.split("leave it out, or use ")[1] for reader in OWN_FLAGS[flag])


def test_defaults_of_fairseq_and_a_bare_namespace_pass():
    generation.check_generation_flags(GenerationConfig(), "iad")
    generation.check_generation_flags(Namespace(), "iad")
    generation.check_generation_flags(
        Namespace(beam=5, sampling=False, constraints=None, nbest=1), "iad"
    )


@pytest.mark.parametrize(
    "name, value",
    [
        ("constraints", "unordered"),
        ("lm_path", "lm.pt"),
        ("diverse_beam_groups", 2),
        ("diversity_rate", 0.0),
        ("match_source_len", True),
        ("sampling", True),
        ("sampling_topk", 3),
        ("sampling_topp", 0.5),
        ("print_alignment", "soft"),
        ("replace_unk", ""),
        ("prefix_allowed_tokens_fn", print),
        ("score_reference", True),
        ("retain_dropout", True),
        ("temperature", 0.0),
        ("temperature", float("nan")),
    ],
)
@pytest.mark.parametrize("strategy", ["iad", "gad"])
def test_generation_flags_are_refused(name, value, strategy):
    """gad honours those of sampling."""
    given = Namespace(**{name: value})
    if strategy == "gad" and name.startswith("sampling"):
        return generation.check_generation_flags(given, strategy)
    with pytest.raises(ValueError, match="^--" + name.replace("_", "-") + ": "):
        generation.check_generation_flags(given, strategy)


def test_source_copies_need_one_dictionary():
    words, other = make_task().tgt_dict, Dictionary()
    other.add_symbol("x")
    builder.check_dictionaries("iad", words, words)
    builder.check_dictionaries("greedy", words, other)
    with pytest.raises(ValueError, match="--strategy iad: .*--joined-dictionary"):
        builder.check_dictionaries("iad", words, other)


def build(models=None, **flags):
    words = make_task().tgt_dict
    models = models or [toy_model(updates=1)]
    return builder.build_generator(models, words, words, Namespace(**flags), decoding_settings())


def test_flags_reach_the_generator():
    generator = build(max_len_a=1.5, max_len_b=9, lenpen=0.7, unnormalized=True, temperature=2.0)
    for where in (generator, generator.options):  # stock's attributes, and the project's
        assert (where.len_penalty, where.normalize_scores) == (0.7, False)
        assert where.temperature == 2.0
    for where in (generator, generator.policy):
        assert (where.max_len_a, where.max_len_b) == (1.5, 9)
    assert isinstance(generator.drafter, NoDrafter)


def test_generation_flags_are_looked_at_first():
    with pytest.raises(ValueError, match="^--lm-path: "):
        build(lm_path="lm.pt")
    with pytest.raises(ValueError, match="^--nbest 2: --strategy iad with these flags"):
        make(Namespace(beam=2, nbest=2), overrides=Overrides(rule=TopBetaRule(2, 1.0)))


def test_the_rule_is_the_strategys():
    def rule(sampler=None, **settings):
        return builder.rule_of(decoding_settings(**settings), sampler)

    assert type(rule(strategy="greedy")) is ExactRule
    relaxed = rule(strategy="gad++", top_beta=5, tau=0.7)
    assert type(relaxed) is TopBetaRule and (relaxed.top_beta, relaxed.tau) == (5, 0.7)
    sampler = generation.sampler_of(Namespace(sampling=True))
    assert rule(sampler, strategy="greedy").sampler is sampler


def test_only_transformers_verify():
    class Other:
        decoder = None

    with pytest.raises(ValueError, match=r"--path \(model 2 of 2\) holds a Other"):
        build([toy_model(updates=1), Other()])
    model = copy.deepcopy(toy_model(updates=1))
    model.decoder.layers[0].fc1 = torch.nn.Identity()
    with pytest.raises(ValueError, match=r"^--path \(model 1 of 1\): fairseq cannot decode"):
        build([model])
    model.decoder = torch.nn.Identity()
    with pytest.raises(ValueError, match="holds a TransformerModel with decoder Identity; this"):
        build([model])


@pytest.mark.parametrize("load", [load_drafter, load_small_model])
@pytest.mark.parametrize("path", [None, "", "/no/such.pt"])
def test_a_drafter_needs_a_file(path, load):
    words = make_task().tgt_dict
    with pytest.raises(ValueError, match="^--drafter-path: "):
        load(path, words, words)


@pytest.mark.parametrize("flag, value", [("backend", "gpu"), ("verifier_dtype", "fp8")])
def test_unknown_backends_and_number_formats_are_refused(flag, value):
    name = flag.replace("_", "-")
    with pytest.raises(ValueError, match=f"--{name} {value}: choose one of "):
        builder.check_settings(decoding_settings(**{flag: value}))


def make(args=None, models=None, extra=None, free_unpacked=False, overrides=None, **settings):
    words = make_task().tgt_dict
    return builder.build_generator(
        models or [toy_model(updates=1)], words, words, args or Namespace(),
        decoding_settings(**dict({"strategy": "iad"}, **settings)),
        extra=extra, free_unpacked=free_unpacked, overrides=overrides or Overrides(),
    )  # fmt: skip


def test_without_flags_all_is_as_stock_has_it():
    """A bare namespace and fairseq's own defaults, but for the width of the beam."""
    words = make_task().tgt_dict
    for args in (Namespace(), Namespace(**dict(vars(GenerationConfig()), beam=1))):
        generator = make(args)
        assert generator.options == DecodingOptions("iad", hidden=frozenset({words.eos()}))
        pad, unk, eos = words.pad(), words.unk(), words.eos()
        assert generator.policy == DecodingConstraints(pad, unk, eos, max_positions=64)
        assert isinstance(generator.drafter, InputCopyDrafter) and type(generator.rule) is ExactRule
        assert generator.models == [toy_model(updates=1)]


def test_constraints_reach_the_policy():
    words = make_task().tgt_dict
    args = Namespace(min_len=3, unkpen=1.5, no_repeat_ngram_size=4, max_len_a=2, max_len_b=9)
    generator = make(args, extra={"eos": 7, "symbols_to_strip_from_output": {8}})
    expected = DecodingConstraints(words.pad(), words.unk(), 7, 3, 1.5, 4, 2, 9, 64)
    assert generator.policy == expected
    assert generator.options.hidden == {7, 8}


def test_settings_reach_the_options():
    models = [toy_model(updates=1), copy.deepcopy(toy_model("learned", updates=1))]
    models[1].decoder.max_target_positions = models[1].decoder.embed_positions.max_positions = 9
    generator = make(
        Namespace(retain_iter_history=True, beam=3), models, draft_budget=5, backend="torch",
        free_unpacked=True,
    )  # fmt: skip
    assert generator.policy.max_positions == models[1].max_decoder_positions() == 9
    options = generator.options
    assert (options.beam, options.draft_budget) == (3, 5)
    assert options.keep_trace and options.inference and options.free_unpacked
    assert options.backend == "torch"
    assert make(verifier_dtype="bf16").options.verifier_format == "bf16"
    assert make(backend="torch").options.verifier_format == "fp32"


def test_models_that_only_decode_are_run_in_inference_mode():
    ready, other = copy.deepcopy(toy_model(updates=1)), toy_model("pre_norm", updates=1)
    ready.make_generation_fast_()
    assert make(models=[ready]).options.inference
    assert not make(models=[ready, other]).options.inference


def test_parts_may_be_given():
    drafter, rule, stats = NoDrafter(), TopBetaRule(2, 1.0), DecodingStats()
    generator = make(overrides=Overrides(drafter, rule, keep_trace=True))
    assert generator.drafter is drafter and generator.rule is rule
    assert generator.options.keep_trace
    words = make_task().tgt_dict
    generator = builder.build_generator(
        [toy_model(updates=1)], words, words, Namespace(), decoding_settings(), stats=stats
    )
    assert generator.stats is stats and generator.strategy == decoding_settings().strategy
    assert generator.options.free_unpacked is False


def test_a_rule_is_given_the_dictionary():
    words, symbols_read = make_task().tgt_dict, []

    class Reader(ExactRule):
        def read_vocabulary(self, symbols):
            symbols_read.append(symbols)

    make(overrides=Overrides(rule=Reader()))
    assert symbols_read == [words.symbols]
    other = Dictionary()
    other.add_symbol("nine")
    settings = decoding_settings(strategy="blockwise", accept_epsilon=0.5)
    with pytest.raises(ValueError, match="--accept-epsilon"):
        builder.check_dictionaries("blockwise", other, other, settings)
    builder.check_dictionaries("blockwise", other, other)


@pytest.mark.parametrize("strategy", ["gad", "sps"])
def test_a_drafter_is_read_with_both_dictionaries(strategy):
    words, other, asked = make_task().tgt_dict, make_task().tgt_dict, []

    def load(path, src_dict, tgt_dict, read, dtype):
        asked.append((path, src_dict is other, tgt_dict is words, read, dtype))
        return copy.deepcopy(toy_drafter() if strategy == "gad" else toy_model("learned", seed=2))

    args = Namespace(sampling=True, temperature=1.5, sampling_topk=3)
    generator = builder.build_generator(
        [toy_model(updates=1)], other, words, args,
        decoding_settings(strategy=strategy, drafter_path=__file__, block_size=3),
        extra={"eos": 7}, load=load, free_unpacked=True,
    )  # fmt: skip
    assert asked == [
        (__file__, True, True, load_drafter if strategy == "gad" else load_small_model, None)
    ]
    options = generator.drafter.options
    assert (options.block_size, options.pad, options.eos) == (3, words.pad(), 7)
    assert options.temperature == 1.5 and generator.options.free_unpacked
    assert options.sampler is generator.rule.sampler and options.sampler.topk == 3
    assert type(generator.rule) is BlockVerificationRule and generator.options.temperature == 1.5


@pytest.mark.parametrize(
    "strategy, args, flags, quick",
    [
        ("gad", {}, {}, True),
        ("sps", {}, {}, True),
        ("gad", {}, {"drafter_dtype": "same"}, False),
        ("gad", {"sampling": True}, {}, False),
        ("sps", {"sampling": True}, {}, False),
        ("gad++", {}, {}, True),
        ("gad++", {}, {"drafter_dtype": "same"}, False),
        ("bild", {}, {}, False),
    ],
)
def test_drafts_are_made_in_the_quickest_format_where_the_output_does_not_need_another(
    strategy, args, flags, quick, monkeypatch
):
    formats, words = [], make_task().tgt_dict
    monkeypatch.setattr(builder, "quickest_format", lambda asked, _: {"auto": "int8"}[asked])

    def load(path, src_dict, tgt_dict, read, number_format):
        formats.append(number_format)
        small = read is load_small_model
        return copy.deepcopy(toy_model("learned", seed=2) if small else toy_drafter())

    generator = builder.build_generator(
        [toy_model(updates=1)], words, words, Namespace(**args),
        decoding_settings(strategy=strategy, drafter_path=__file__, **flags), load=load,
    )  # fmt: skip
    wanted = "int8" if quick else None
    assert formats == [wanted] and generator.drafter.options.number_format == wanted


def test_how_tokens_are_drawn():
    assert generation.sampler_of(Namespace()) is None
    assert generation.sampler_of(Namespace(sampling=False, sampling_topk=-1)) is None
    sampler = generation.sampler_of(Namespace(sampling=True))
    assert (sampler.topk, sampler.topp) == (None, None)
    sampler = generation.sampler_of(Namespace(sampling=True, sampling_topp=0.5, sampling_topk=-1))
    assert (sampler.topk, sampler.topp) == (None, 0.5)
    with pytest.raises(ValueError, match="^--sampling-topp: needs --sampling$"):
        generation.sampler_of(Namespace(sampling_topp=0.5))
    with pytest.raises(ValueError, match="^--sampling-topk 0: "):
        generation.sampler_of(Namespace(sampling_topk=0))


def test_how_many_hypotheses(caplog):
    exact, relaxed = ExactRule(), TopBetaRule(2, 1.0)
    with caplog.at_level("INFO"):
        assert generation.beam_of(Namespace(), "gad", exact, 28) == 1
        assert generation.beam_of(Namespace(beam=26, nbest=26), "gad", exact, 28) == 26
        assert generation.beam_of(Namespace(beam=1), "gad++", relaxed, 28) == 1
        assert caplog.text == ""
        assert generation.beam_of(Namespace(beam=2, nbest=1), "gad++", relaxed, 28) == 1
    assert "--beam 2: --strategy gad++ with these flags is not lossless" in caplog.text
    assert {record.name for record in caplog.records} == {generation.__name__}
    caplog.clear()
    with caplog.at_level("INFO"):
        assert generation.beam_of(Namespace(beam=5, sampling=True), "greedy", relaxed, 28) == 1
    assert "--beam 5: with --sampling one hypothesis is decoded (beam 1)" in caplog.text
    for given, rule, error in (
        ({"beam": 0}, exact, "--beam 0: must be 1 or more"),
        ({"beam": 27}, exact, "--beam 27: .* 28 entries; use --beam 26"),
        ({"beam": 3, "nbest": 0}, exact, "--nbest 0: must be 1 or more"),
        ({"beam": 3, "nbest": -1}, relaxed, "--nbest -1: must be 1 or more"),
        ({"beam": 3, "nbest": 4}, exact, "--nbest 4: there are --beam 3 hypotheses; use --beam 4"),
        ({"beam": 3, "nbest": 2}, relaxed, "--nbest 2: --strategy gad .* one hypothesis; use"),
        (
            {"beam": 9, "nbest": 9, "sampling": True},
            relaxed,
            "^--nbest 9: with --sampling one hypothesis is decoded; use --beam 1 --nbest 1, "
            "or leave --sampling out$",
        ),
    ):
        with pytest.raises(ValueError, match=error):
            generation.beam_of(Namespace(**given), "gad", rule, 28)


def test_devices_and_models_are_looked_at(monkeypatch):
    asked = []
    monkeypatch.setattr(builder, "check_device", asked.append)
    make()
    assert [device.type for device in asked] == ["cpu"]
    with pytest.raises(ValueError, match="--path holds a drafter, not a verifier; were --path"):
        builder.check_verifier(toy_drafter(), "--path")
    with pytest.raises(ValueError, match="--path holds a Namespace with decoder NoneType"):
        builder.check_verifier(Namespace(), "--path")
