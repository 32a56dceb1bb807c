"""Flags that cannot be honoured, or that contradict one another, are refused by name."""

from argparse import Namespace

import pytest
from fairseq.data import Dictionary
from fairseq.dataclass.configs import GenerationConfig
from fairseq.tasks.translation import TranslationConfig
from toy_translation import make_task, toy_model

from fairseq_specdec.config import TranslationSpecDecConfig, decoding_settings
from fairseq_specdec.decoding import builder
from fairseq_specdec.decoding.drafter_file import load_drafter, load_small_model
from fairseq_specdec.decoding.extras import ending_of
from fairseq_specdec.decoding.strategies import OWN_FLAGS, STRATEGIES
from fairseq_specdec.drafting import NoDrafter


def test_what_is_sound_passes(tmp_path):
    drafter = tmp_path / "d.pt"
    drafter.write_bytes(b"")
    builder.check_settings(decoding_settings())
    builder.check_settings(decoding_settings(strategy="iad", block_size=1))
    for strategy in ("gad", "gad++", "specdec"):
        builder.check_settings(decoding_settings(strategy=strategy, drafter_path=str(drafter)))


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"strategy": "beam"}, "--strategy beam: unknown; choose one of greedy, none, iad, gad"),
        ({"strategy": "gad"}, "--strategy gad: needs --drafter-path"),
        ({"strategy": "gad++", "drafter_path": "/no/d.pt"}, "no such file: /no/d.pt"),
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
    ],
    ids=str,
)
def test_settings_are_refused(changes, said):
    with pytest.raises(ValueError) as caught:
        builder.check_settings(decoding_settings(**changes))
    assert said in str(caught.value)


# A value that is no default, and legal, for every flag that some strategies do not read.
CHANGED = {
    "sampling_verification": "token",
    "drafter_dtype": "bf16",
    "collapse_repeats": True,
    "draft_confidence": 0.5,
    "realign": True,
    "max_suffix": 0,
    "draft_budget": 0,
    "top_beta": 1,
    "tau": 0.0,
    "regret_budget": 0.0,
    "accept_top_k": 1,
    "accept_epsilon": 0.0,
    "min_block_size": 2,
    "alpha_fb": 0.0,
    "alpha_rb": 0.0,
}
# Read by all strategies, refused in another way, or (--block-size) a flag of models too.
OF_ALL = {"strategy", "drafter_path", "block_size", "trace_path"}
OF_ALL |= {"backend", "verifier_dtype", "threads"}


def test_every_flag_has_its_readers_named():
    stock = set(TranslationConfig.__dataclass_fields__)
    ours = set(TranslationSpecDecConfig.__dataclass_fields__) - stock - OF_ALL
    assert ours == set(OWN_FLAGS), "name the strategies that read a new flag in OWN_FLAGS"
    assert ours == set(CHANGED), "give a value for the new flag here"
    assert all(set(readers) <= set(STRATEGIES) for readers in OWN_FLAGS.values())


@pytest.mark.parametrize("flag", sorted(OWN_FLAGS))
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_flags_are_read_or_refused(strategy, flag):
    """Silence would let a user believe that a flag did something."""
    path = __file__ if STRATEGIES[strategy].needs_drafter else None
    given = decoding_settings(strategy=strategy, drafter_path=path, **{flag: CHANGED[flag]})
    if strategy in OWN_FLAGS[flag]:
        builder.check_settings(given)
        return
    with pytest.raises(ValueError) as caught:
        builder.check_settings(given)
    said = str(caught.value)
    assert said.startswith(f"--{flag.replace('_', '-')}: --strategy {strategy} does not use it; ")
    assert all(reader in said.split("leave it out, or use ")[1] for reader in OWN_FLAGS[flag])


def test_defaults_of_fairseq_and_a_bare_namespace_pass():
    builder.check_generation_flags(GenerationConfig(), "iad")
    builder.check_generation_flags(Namespace(), "iad")
    builder.check_generation_flags(
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
def test_generation_flags_are_refused(name, value):
    with pytest.raises(ValueError, match="^--" + name.replace("_", "-") + ": "):
        builder.check_generation_flags(Namespace(**{name: value}), "iad")


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
        assert (where.max_len_a, where.max_len_b) == (1.5, 9)
        assert (where.len_penalty, where.normalize_scores) == (0.7, False)
        assert where.temperature == 2.0
    assert generator.options.max_positions == 64
    assert isinstance(generator.drafter, NoDrafter)


def test_what_subclassed_tasks_add_is_read_or_refused():
    words = make_task().tgt_dict
    assert ending_of(None, words) == ending_of({"lm_model": None, "lm_weight": 1.0}, words)
    assert ending_of(None, words) == (words.eos(), {words.eos()})
    given = {"eos": 7, "symbols_to_strip_from_output": {8, 9}, "tokens_to_suppress": ()}
    assert ending_of(given, words) == (7, {7, 8, 9})
    with pytest.raises(ValueError, match="^--lm-path: "):
        ending_of({"lm_model": object()}, words)
    with pytest.raises(ValueError, match="^extra_gen_cls_kwargs: tokens_to_suppress cannot be"):
        ending_of({"tokens_to_suppress": ("w1",)}, words)


def test_only_transformers_verify():
    class Other:
        decoder = None

    with pytest.raises(ValueError, match=r"--path \(model 2 of 2\) holds a Other"):
        build([toy_model(updates=1), Other()])


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
