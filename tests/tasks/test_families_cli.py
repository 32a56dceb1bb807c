"""fairseq's other families of models, trained by its own tasks, decode as stock decodes them."""

from types import SimpleNamespace

import pytest
from in_process import SHAPE, run_here
from toy_cache import EVERYTHING, cached_folder, key
from toy_translation import WORDS, assert_diverse, sentences, translate

LANGUAGES = "en,de,ro"
PAIRS = "en-de,en-ro"
SIZES = {"train": 4000, "valid": 20, "test": 60}
TRAINING = {
    "optimizer": "adam", "lr": 4e-3, "lr_scheduler": "fixed", "warmup_updates": 40,
    "batch_size": 32, "no_epoch_checkpoints": True, "seed": 1, "log_format": "simple",
    "criterion": "cross_entropy", "max_update": 300, "disable_validation": True,
}  # fmt: skip
NARROW = {"decoder_embed_dim": 32, "decoder_ffn_embed_dim": 64, "decoder_attention_heads": 4}
# The flags of decoding, beside those of training that say which symbols a dictionary has.
BOTH_WAYS = {"encoder_langtok": "src", "decoder_langtok": True}
FAMILIES = {
    # M2M-100: the target's token begins the output, forced.
    "m2m": (
        "translation_multi_simple_epoch", "transformer",
        {"lang_pairs": PAIRS, "langs": LANGUAGES, "encoder_langtok": "tgt",
         "decoder_langtok": True},
        {"encoder_normalize_before": True, "decoder_normalize_before": True,
         "encoder_layerdrop": 0.05, "decoder_layerdrop": 0.05},
    ),
    # mBART-50 and its style of tokens.
    "mbart50": (
        "translation_multi_simple_epoch", "mbart_base",
        {"lang_pairs": PAIRS, "langs": LANGUAGES, "lang_tok_style": "mbart", **BOTH_WAYS},
        {"layernorm_embedding": True},
    ),
    # Tokens in place of <s> and </s>.
    "replacing": (
        "translation_multi_simple_epoch", "transformer",
        {"lang_pairs": "en-de", "langs": LANGUAGES, "lang_tok_replacing_bos_eos": True,
         **BOTH_WAYS},
        {},
    ),
    # mBART-25: one pair; the output ends with the target's token.
    "mbart25": (
        "translation_from_pretrained_bart", "mbart_base", {"langs": LANGUAGES},
        {"layernorm_embedding": True},
    ),
    # A decoder for each language.
    "separate": (
        "multilingual_translation", "multilingual_transformer",
        {"lang_pairs": PAIRS, "encoder_langtok": "tgt", "decoder_langtok": True},
        {"share_encoders": True},
    ),
    "one_decoder": (
        "multilingual_translation", "multilingual_transformer",
        {"lang_pairs": PAIRS, "encoder_langtok": "tgt", "decoder_langtok": True},
        {"share_encoders": True, "share_decoders": True},
    ),
}  # fmt: skip


def romanian(words):
    """The other language: odd words stay."""
    return [word if word % 2 else (5 * word + 3) % WORDS for word in words]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory, fairseq_command):
    """English with both languages, one dictionary for all."""
    def make(folder):
        joined = []
        for pair, language, rule in (("en-de", "de", translate), ("en-ro", "ro", romanian)):
            for seed, (split, size) in enumerate(SIZES.items(), start=len(pair) + len(rule([1]))):
                sources = sentences(size, seed)
                for side, lines in (("en", sources), (language, map(rule, sources))):
                    text = "".join(" ".join(f"w{w}" for w in line) + "\n" for line in lines)
                    (folder / f"{split}.{pair}.{side}").write_text(text, encoding="utf-8")
            files = [f"--{split}pref={folder / split}.{pair}" for split in SIZES]
            fairseq_command(
                "preprocess", "-s", "en", "-t", language, "--joined-dictionary", "--workers", 1,
                *files, *joined, "--destdir", folder / "bin",
            )  # fmt: skip
            joined = ["--srcdict", folder / "bin" / "dict.en.txt"]

    folder = tmp_path_factory.mktemp("languages")
    return cached_folder(folder, key("languages", files=[__file__]), make) / "bin"


@pytest.fixture(scope="module")
def trained(corpus, tmp_path_factory):
    """A family's checkpoint, trained once."""
    made = {}

    def train(name):
        if name not in made:
            task, arch, languages, shape = FAMILIES[name]
            pair = {"source_lang": "en", "target_lang": "de"} if name == "mbart25" else {}
            flags = {**SHAPE, **NARROW, **TRAINING, **shape, **languages, **pair}
            out = tmp_path_factory.mktemp(name)
            cached_folder(
                out, key(("families", name, sorted(flags.items())), (EVERYTHING,), [__file__]),
                lambda to: run_here("train", corpus, task=task, arch=arch, save_dir=to, **flags),
            )  # fmt: skip
            made[name] = SimpleNamespace(
                task=task, path=out / "checkpoint_last.pt", languages=languages
            )
        return made[name]

    return train


def decoded(corpus, model, task, **flags):
    """What fairseq-generate prints for English to German."""
    given = {"source_lang": "en", "target_lang": "de", "batch_size": 16, **flags}
    out, log = run_here("generate", corpus, task=task, path=model.path, **model.languages, **given)
    return ranked(out), log


def ranked(out):
    """{sentence: [(words, score), ...], best first}, as printed."""
    found = {}
    for line in out.splitlines():
        if line.startswith("H-"):
            number, score, words = line.split("\t")
            found.setdefault(number, []).append((words.split(), float(score)))
    return found


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("beam", [1, 5])
@pytest.mark.parametrize("name", FAMILIES)
def test_equals_stock(corpus, trained, name, beam, backend):
    model = trained(name)
    flags = {"beam": beam, "nbest": min(beam, 3), "no_repeat_ngram_size": 3, "lenpen": 0.6}
    stock, _ = decoded(corpus, model, model.task, **flags)
    assert_diverse([hypotheses[0][0] for hypotheses in stock.values()])
    for strategy in ("greedy", "iad"):
        ours, _ = decoded(
            corpus, model, model.task + "_specdec", strategy=strategy, backend=backend, **flags
        )
        assert ours.keys() == stock.keys()
        for number, theirs in stock.items():
            assert [words for words, _ in ours[number]] == [words for words, _ in theirs], number
            scores = [score for _, score in theirs]
            assert [score for _, score in ours[number]] == pytest.approx(scores, abs=1e-4)
