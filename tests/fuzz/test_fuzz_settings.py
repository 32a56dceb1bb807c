"""Settings by grammar through fairseq's loading: no variable is read, and refusals are one line."""

import copy
import io
import logging
from argparse import Namespace

import pytest
import torch
from fairseq import checkpoint_utils
from fairseq.dataclass.configs import FairseqConfig
from fairseq.dataclass.utils import convert_namespace_to_omegaconf
from fairseq.models.transformer import TransformerConfig
from omegaconf import OmegaConf

from fairseq_specdec.hub import SpeculativeTranslator

VARIABLE, SECRET = "SPECDEC_SECRET", "a-secret-word"
INNER = (
    f"oc.env:{VARIABLE}", f"env:{VARIABLE}", f" oc.env : {VARIABLE} ", f"oc.env:'{VARIABLE}'",
    f"oc.env:{VARIABLE},x", "oc.env:${model.a}", f"oc.decode:${{oc.env:{VARIABLE}}}",
    f"oc.env:SPECDEC_${{x}}SECRET,${{oc.env:{VARIABLE}}}", "common.seed", "..arch", "model.a",
    f"oc.create:{{a:${{oc.env:{VARIABLE}}}}}", f"oc.select:none,${{oc.env:{VARIABLE}}}",
)  # fmt: skip
# Other ways to write a character, each of which some parser reads as that character.
ESCAPES = {
    "$": ("\\$", "\\x24", "\\u0024", "\\U00000024", "\\44", "\\044", "\\N{DOLLAR SIGN}", "' '$' '"),
    "{": ("\\{", "\\x7b", "\\u007b", "\\173", "\\\n{", "' '{"), "}": ("\\}", "\\x7d", "' '}"),
    ":": ("\\:", "\\x3a", "\\72"), ".": ("\\.", "\\x2e"), "o": ("\\157", "\\x6f"),
}  # fmt: skip
WRAPS = (
    "{}", "'{}'", '"{}"', "'''{}'''", "u'{}'", "r'{}'", "b'{}'", "f'{}'", "\\'{}\\'", "$'{}'",
    "\\\\'{}\\\\'", "\\\\{}", "model.a={}", "null", "???", "${}",
    "\\', {}, \\'", "[{}]", "['{}', 1]", "({},)", "{{a: {}}}", "{{'a': '{}'}}", "{{'{}': 1}}",
    "choice({})", "str({})", "int({})", "{},{}", "{}\n{}", " {} ", "x{}", "{}x",
    "x\\", "'", "{}'", "\x00{}", "\x1b{}", "{} #", "{}=1",
)  # fmt: skip


def flat_names():
    """Every setting that fairseq converts from the older layout."""
    names = {"arch", "encoder_layers", "quant_noise_pq", "eval_bleu_args", "no_such_setting"}
    names |= {*TransformerConfig.__dataclass_fields__, *FairseqConfig.__dataclass_fields__}
    for field in FairseqConfig.__dataclass_fields__.values():
        names |= set(getattr(field.type, "__dataclass_fields__", ()))
    return sorted(names)


def text_of(random):
    """One text; most of them are an interpolation in some reader's eyes."""
    made = "${" + random.choice(INNER) + "}"
    hidden = random.choice("${${${ ")  # as it stands it is refused at once
    for char, others in ESCAPES.items():
        if char == hidden or random.random() < 0.3:
            made = made.replace(char, random.choice(others))
    for _ in range(random.choice((0, 1, 1, 2, 3))):
        wrap = random.choice(WRAPS)
        made = wrap.replace("{}", made, 2) if "{{" not in wrap else wrap.format(made)
    if random.random() < 0.1:
        at = random.randrange(len(made))
        made = made[:at] + random.choice("\\'\"{}[](),$ \n") + made[at + random.randint(0, 1) :]
    return made


def value_of(random, depth=2):
    """A text, or texts in containers."""
    kind = random.choice("tttttldns") if depth else "t"
    if kind == "t":
        return text_of(random)
    items = [value_of(random, depth - 1) for _ in range(random.randint(0, 2))]
    names = [random.choice(("a", "seed", text_of(random))) for _ in items]
    if kind == "n":
        return Namespace(**{random.choice(("a", "seed", "task", "arch")): each for each in items})
    if kind == "s":
        return random.choice((1, 2.5, None, True, b"${x}", float("inf"), 2**70, -1, "", "null"))
    return items if kind == "l" else dict(zip(names, items))


NAMES = flat_names()


def with_its_task(path, folder):
    overrides = {"data": folder, "source_lang": "src", "target_lang": "tgt"}
    _, cfg, task = checkpoint_utils.load_model_ensemble_and_task([path], overrides)
    return cfg, task.cfg


def to_translate(path, folder):
    translator = SpeculativeTranslator.from_pretrained(path, data=folder, tokenizer=None, bpe=None)
    return vars(translator)


@pytest.fixture(scope="module")
def states(pair):
    """(folder, the content of a small checkpoint by layout)."""
    state = torch.load(str(pair / "verifier.pt"), weights_only=False)
    state["args"].__dict__.update(task="translation", source_lang="src", target_lang="tgt")
    state["args"].data = str(pair)
    cfg = OmegaConf.to_container(convert_namespace_to_omegaconf(state["args"]), enum_to_str=True)
    return str(pair), {"args": state, "cfg": dict(state, args=None, cfg=cfg)}


def changed(state, random):
    """The checkpoint with one to three settings replaced or added."""
    state = dict(state)
    part = "args" if state["args"] is not None else "cfg"
    state[part] = copy.deepcopy(state[part])
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        group = vars(state["args"]) if part == "args" else state["cfg"]
        name = random.choice(NAMES if part == "args" else sorted(group))
        if part == "cfg" and type(group[name]) is dict and random.random() < 0.9:
            group = group[name]
            name = random.choice([*group, text_of(random), "no_such_setting"])
        elif part == "cfg" and type(group[name]) is Namespace:
            group = vars(group[name])
            name = random.choice(NAMES)
        group[name] = value_of(random)
    return state


def shown(cfg):
    """All values of a result, interpolations replaced."""
    if OmegaConf.is_config(cfg):
        return str(OmegaConf.to_container(cfg, resolve=True))
    return " ".join(map(shown, cfg)) if isinstance(cfg, tuple) else str(cfg)


@pytest.mark.parametrize("layout", ["args", "cfg"])
@pytest.mark.parametrize("load", [with_its_task, to_translate])
def test_settings(load, layout, states, fuzz, tmp_path, monkeypatch, capfd):
    monkeypatch.setenv(VARIABLE, SECRET)
    log = logging.StreamHandler(io.StringIO())
    logging.getLogger().addHandler(log)
    folder, contents = states
    state = contents[layout]
    path = str(tmp_path / "odd.pt")
    for seed in fuzz.seeds():
        torch.save(changed(state, fuzz.random(seed)), path)
        try:
            message = shown(load(path, folder))
            fuzz.counts["loaded"] += 1
        except Exception as error:  # fairseq's own loading, and hydra's, raise what they do
            message = str(error)
            if load is to_translate:
                assert isinstance(error, (ValueError, OSError)), (seed, error)
                assert message and len(message) < 900, (seed, error)
            fuzz.counts["refused"] += 1
        output = capfd.readouterr()
        message += output.out + output.err + log.stream.getvalue()
        log.stream.truncate(0)
        assert SECRET not in message, (seed, message)
    logging.getLogger().removeHandler(log)
