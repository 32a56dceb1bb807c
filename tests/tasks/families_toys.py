"""Toy models of fairseq's multilingual families, trained by its own tasks."""

from types import SimpleNamespace

from in_process import SHAPE, run_here
from toy_cache import EVERYTHING, cached_folder, key
from toy_translation import WORDS, sentences, translate

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
    # mBART-50 and its style of tokens. At the others' learning rate it says the same to everything.
    "mbart50": (
        "translation_multi_simple_epoch", "mbart_base",
        {"lang_pairs": PAIRS, "langs": LANGUAGES, "lang_tok_style": "mbart", **BOTH_WAYS},
        {"layernorm_embedding": True, "lr": 1.5e-3, "max_update": 900},
    ),
    # Tokens instead of <s> and </s>.
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
        {"share_encoders": True, "max_update": 200},
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


def write_corpus(folder, fairseq_command):
    """English with both languages, one dictionary for all; binarised in ``bin``."""
    joined = []
    for language, rule in (("de", translate), ("ro", romanian)):
        for seed, (split, size) in enumerate(SIZES.items(), start=300):
            sources = sentences(size, seed)
            for side, lines in (("en", sources), (language, map(rule, sources))):
                text = "".join(" ".join(f"w{w}" for w in line) + "\n" for line in lines)
                (folder / f"{split}.en-{language}.{side}").write_text(text, encoding="utf-8")
        files = [f"--{split}pref={folder / split}.en-{language}" for split in SIZES]
        fairseq_command(
            "preprocess", "-s", "en", "-t", language, "--joined-dictionary", "--workers", 1,
            *files, *joined, "--destdir", folder / "bin",
        )  # fmt: skip
        joined = ["--srcdict", folder / "bin" / "dict.en.txt"]


def train_family(name, corpus, folder, **changes):
    """A family's toy, trained once: its task, its checkpoint, the flags of its languages."""
    task, arch, languages, shape = FAMILIES[name]
    pair = {"source_lang": "en", "target_lang": "de"} if name == "mbart25" else {}
    flags = {**SHAPE, **NARROW, **TRAINING, **shape, **languages, **pair, **changes}
    cached_folder(
        folder, key(("families", name, sorted(flags.items())), (EVERYTHING,), [__file__]),
        lambda to: run_here("train", corpus, task=task, arch=arch, save_dir=to, **flags),
    )  # fmt: skip
    return SimpleNamespace(task=task, path=folder / "checkpoint_last.pt", languages=languages)


def pair_of(target):
    """The flags of decoding from English."""
    return {"source_lang": "en", "target_lang": target}


def drafter_flags(model, **flags):
    """The flags that train an attached drafter of a toy by its own task."""
    return {
        **SHAPE, **TRAINING, **model.languages, "arch": "attached_drafter_tiny",
        "criterion": "glancing_block_loss", "glancing_start": 0.0, "glancing_stop": 0.0,
        "chain_width": 16, "block_size": 4, "num_cuts": 4, "max_update": 300, "lr": 8e-3,
        "soft_targets": 0.9, "decoder_layers": 1, "decoder_attention_heads": 4,
        "encoder_normalize_before": True, "decoder_normalize_before": True, "task": model.task,
        "verifier_embeddings": True, **flags,
    }  # fmt: skip


def train_drafter(corpus, model, folder, **flags):
    """The path of such a drafter, trained once."""
    given, content = drafter_flags(model, **flags), model.path.read_bytes()
    cached_folder(
        folder, key(("drafter", sorted(given.items()), content), (EVERYTHING,), [__file__]),
        lambda to: run_here(
            "train", corpus, save_dir=to, attach_to=model.path, init_decoder_from=model.path,
            **given,
        ),
    )  # fmt: skip
    return folder / "checkpoint_last.pt"
