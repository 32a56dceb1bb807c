"""Settings by the grammars of omegaconf, Hydra and Python's literals, which ask for a variable."""

from argparse import Namespace

from fairseq.dataclass.configs import FairseqConfig
from fairseq.models.transformer import TransformerConfig

VARIABLE, SECRET = "SPECDEC_SECRET", "a-secret-word"
INNER = (
    f"oc.env:{VARIABLE}", f"env:{VARIABLE}", f" oc.env : {VARIABLE} ", f"oc.env:'{VARIABLE}'",
    f"oc.env:{VARIABLE},x", "oc.env:${model.a}", f"oc.decode:${{oc.env:{VARIABLE}}}",
    f"oc.env:SPECDEC_${{x}}SECRET,${{oc.env:{VARIABLE}}}", "common.seed", "..arch", "model.a",
    f"oc.create:{{a:${{oc.env:{VARIABLE}}}}}", f"oc.select:none,${{oc.env:{VARIABLE}}}",
)  # fmt: skip
# Other ways to write a character; the second of each pair stands for it somewhere.
ESCAPES = {
    "$": ("\\$", "\\x24", "\\u0024", "\\U00000024", "\\44", "\\044", "\\N{DOLLAR SIGN}", "' '$' '"),
    "{": ("\\{", "\\x7b", "\\u007b", "\\173", "\\\n{", "' '{"), "}": ("\\}", "\\x7d", "' '}"),
    ":": ("\\:", "\\x3a", "\\72"), ".": ("\\.", "\\x2e"), "o": ("\\157", "\\x6f"),
}  # fmt: skip
WRAPS = (
    "{}", "'{}'", '"{}"', "'''{}'''", "u'{}'", "r'{}'", "b'{}'", "f'{}'", "\\'{}\\'", "$'{}'",
    "\\\\'{}\\\\'", "\\\\{}", "model.a={}", "null", "???", "${}",
    "\\', {}, \\'", "[{}]", "['{}', 1]", "({},)", "{{a: {}}}", "{{'a': '{}'}}", "{{'{}': 1}}",
    "choice({})", "choice({},x)", "str({})", "int({})", "json_str({})", "sort({},{})", "glob({})",
    "shuffle({})", "extend_list({})", "range(1,3),{}", "{},{}", "{}\n{}", " {} ", "x{}", "{}x",
    "x\\", "'", "{}'", "\x00{}", "\x1b{}", "{} #", "{}=1",
)  # fmt: skip
MODEL = ("encoder_layers", "activation_fn", "dropout", "adaptive_softmax_cutoff", "_name", "arch",
         "encoder_layers_to_keep", "quant_noise_pq", "share_all_embeddings", "decoder_output_dim",
         "checkpoint_activations", "encoder_xformers_att_config", "no_such_setting")  # fmt: skip
GROUPS = ("tokenizer", "bpe", "scoring", "task", "criterion", "optimizer", "lr_scheduler", "arch",
          "source_lang", "data", "eval_bleu_args", "common", "model", "dataset")  # fmt: skip


def flat_names():
    """Every setting that fairseq converts from the older layout."""
    names = set(MODEL + GROUPS) | set(TransformerConfig.__dataclass_fields__)
    for field in FairseqConfig.__dataclass_fields__.values():
        names |= set(getattr(field.type, "__dataclass_fields__", ()))
    return sorted(names)


def text(random):
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


def value(random, depth=2):
    """A text, or texts in containers."""
    kind = random.choice("tttttldns") if depth else "t"
    if kind == "t":
        return text(random)
    items = [value(random, depth - 1) for _ in range(random.randint(0, 2))]
    names = [random.choice(("a", "seed", text(random))) for _ in items]
    if kind == "n":
        return Namespace(**{random.choice(("a", "seed", "task", "arch")): each for each in items})
    if kind == "s":
        return random.choice((1, 2.5, None, True, b"${x}", float("inf"), 2**70, -1, "", "null"))
    return items if kind == "l" else dict(zip(names, items))
