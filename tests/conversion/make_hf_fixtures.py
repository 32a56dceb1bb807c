"""Make tests/fixtures/hf: model folders of a few KB, and what transformers says with them.

``python tests/conversion/make_hf_fixtures.py`` needs the extra ``hf`` and transformers. They were
made with transformers 4.57.6, tokenizers 0.22.2 and sentencepiece 0.2.3. Each model translates a
made-up language: the words of the source in reverse order, every other one in capitals.
"""

import json
import pathlib
import random
import shutil

import sentencepiece
import torch
import transformers
from tokenizers import ByteLevelBPETokenizer
from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

FOLDER = pathlib.Path(__file__).resolve().parents[1] / "fixtures" / "hf"
CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"
WIDTH, STEPS, PIECES = 24, 500, "sentencepiece.bpe.model"
# Whether its weights are in safetensors, else pickled.
FAMILIES = {
    "marian": False, "m2m_100": True, "nllb": True, "mbart25": True, "mbart50": True, "bart": False,
}  # fmt: skip
# Nothing of them is read here, or it is read from another file.
LEFT_OUT = ("tokenizer.json", "added_tokens.json")


def vocabulary():
    """60 words."""
    rng, words = random.Random(3), set()
    while len(words) < 60:
        syllables = range(rng.randint(1, 3))
        words.add("".join(rng.choice(CONSONANTS) + rng.choice(VOWELS) for _ in syllables))
    return sorted(words)


def pairs(count, seed):
    """(source, target) sentences."""
    rng, words = random.Random(seed), vocabulary()
    made = []
    for _ in range(count):
        source = rng.choices(words, k=rng.randint(1, 7))
        target = [word.upper() if i % 2 else word for i, word in enumerate(reversed(source))]
        made.append((" ".join(source) + rng.choice([".", "?", "!"]), " ".join(target) + "."))
    return made


SOURCES, TARGETS = zip(*pairs(400, 1))


def pieces_of(path, lines, size):
    """Train sentencepiece to a file; its pieces without control symbols."""
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines), model_prefix=str(path), vocab_size=size, minloglevel=2,
        normalization_rule_name="identity", hard_vocab_limit=False,
    )  # fmt: skip
    path.with_name(path.name + ".vocab").unlink()
    path.with_name(path.name + ".model").rename(path)
    model = sentencepiece.SentencePieceProcessor(model_file=str(path))
    return [model.id_to_piece(i) for i in range(3, model.get_piece_size())]


def write_vocabulary(folder, tokens):
    """vocab.json with the ids of tokens; its path."""
    ids = {token: i for i, token in enumerate(tokens)}
    (folder / "vocab.json").write_text(json.dumps(ids), encoding="utf-8")
    return str(folder / "vocab.json")


def make_tokenizer(family, folder):
    """(tokenizer, languages) of a family, its files in the folder."""
    if family == "marian":
        models = [folder / "source.spm", folder / "target.spm"]
        pieces = pieces_of(models[0], SOURCES, 90) + pieces_of(models[1], TARGETS, 120)
        tokens = ["</s>", "<unk>", *dict.fromkeys([*pieces, ">>fra<<"]), "<pad>"]
        files = [*map(str, models), write_vocabulary(folder, tokens)]
        return transformers.MarianTokenizer(*files, source_lang="xx", target_lang="yy"), None
    if family == "bart":
        made = ByteLevelBPETokenizer()
        made.train_from_iterator(
            [*SOURCES, *TARGETS], vocab_size=330, min_frequency=1,
            special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
        )  # fmt: skip
        files = made.save_model(str(folder))
        return transformers.BartTokenizerFast(*files), None
    pieces = pieces_of(folder / PIECES, [*SOURCES, *TARGETS], 140)
    kind, languages = {
        "m2m_100": ("M2M100Tokenizer", ("en", "de")),
        "nllb": ("NllbTokenizerFast", ("eng_Latn", "deu_Latn")),
        "mbart25": ("MBartTokenizerFast", ("en_XX", "de_DE")),
        "mbart50": ("MBart50TokenizerFast", ("en_XX", "de_DE")),
    }[family]
    named = dict(zip(("src_lang", "tgt_lang"), languages))
    files = [str(folder / PIECES)]
    if family == "m2m_100":
        files.insert(0, write_vocabulary(folder, ["<s>", "<pad>", "</s>", "<unk>", *pieces]))
        codes = FAIRSEQ_LANGUAGE_CODES["m2m100"]
        named["additional_special_tokens"] = [f"__{code}__" for code in codes]
    return getattr(transformers, kind)(*files, **named), languages


def make_model(family, tokenizer):
    """An untrained model."""
    settings = dict(
        d_model=WIDTH, encoder_layers=1, decoder_layers=1, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=2 * WIDTH, decoder_ffn_dim=2 * WIDTH,
        dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, max_position_embeddings=64,
        vocab_size=len(tokenizer), scale_embedding=True, encoder_layerdrop=0.0,
        decoder_layerdrop=0.0, max_length=40, pad_token_id=1, bos_token_id=0, eos_token_id=2,
        decoder_start_token_id=2, activation_function="relu",
    )  # fmt: skip
    name = {"marian": "Marian", "bart": "Bart", "mbart25": "MBart", "mbart50": "MBart"}
    name = name.get(family, "M2M100")
    if name == "Marian":
        pad = tokenizer.encoder["<pad>"]
        settings.update(
            vocab_size=pad + 1, pad_token_id=pad, bos_token_id=None, eos_token_id=0,
            decoder_start_token_id=pad, forced_eos_token_id=0, activation_function="swish",
            bad_words_ids=[[pad]],
        )  # fmt: skip
    elif name == "M2M100":
        m2m = family == "m2m_100"
        settings["vocab_size"] = len(tokenizer.encoder) + 108 if m2m else len(tokenizer) + 3
    elif name == "MBart":
        settings["activation_function"] = "gelu"
        if family == "mbart25":
            settings["decoder_start_token_id"] = tokenizer.convert_tokens_to_ids("de_DE")
    else:
        settings.update(
            forced_bos_token_id=0, forced_eos_token_id=2, min_length=5, no_repeat_ngram_size=3,
            scale_embedding=False, activation_function="gelu",
        )  # fmt: skip
    end = "MTModel" if name == "Marian" else "ForConditionalGeneration"
    config = getattr(transformers, f"{name}Config")(**settings)
    model = getattr(transformers, name + end)(config)
    if name == "Marian":
        model.final_logits_bias.normal_(0, 0.5)
    return model


def train(family, model, tokenizer):
    """Train in place, so that outputs differ."""
    torch.manual_seed(5)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(STEPS):
        sources, targets = map(list, zip(*pairs(24, 1000 + step)))
        batch = tokenizer(sources, text_target=targets, padding=True, return_tensors="pt")
        labels = batch["labels"]
        if family in ("m2m_100", "nllb", "mbart50"):
            starts = torch.full((len(labels), 1), 2)
            batch["decoder_input_ids"] = torch.cat([starts, labels[:, :-1]], 1)
        labels[labels == tokenizer.pad_token_id] = -100
        batch.pop("token_type_ids", None)
        optimizer.zero_grad()
        model(**batch).loss.backward()
        optimizer.step()
    model.eval()


def generated(model, tokenizer, languages, text):
    """transformers' text of one sentence."""
    batch, more = tokenizer([text], return_tensors="pt"), {}
    batch.pop("token_type_ids", None)
    if languages is not None:
        target = f"__{languages[1]}__" if languages[1] == "de" else languages[1]
        first = tokenizer.convert_tokens_to_ids(target)
        starts = model.generation_config.decoder_start_token_id == first
        more["decoder_start_token_id" if starts else "forced_bos_token_id"] = first
    output = model.generate(**batch, num_beams=1, do_sample=False, **more)
    # Without tokenizer.json transformers' tokenizer is the one in Python, which strips.
    return tokenizer.decode(output[0], skip_special_tokens=True).strip()


def make(family, safe):
    """One folder, its weights in half precision."""
    folder = FOLDER / family
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    torch.manual_seed(1)
    tokenizer, languages = make_tokenizer(family, folder)
    model = make_model(family, tokenizer)
    train(family, model, tokenizer)
    tokenizer.save_pretrained(folder)
    model.half().save_pretrained(folder, safe_serialization=safe)
    model = type(model).from_pretrained(folder, dtype=torch.float32)
    sources = [source for source, _ in pairs(24, 9)]
    outputs = [generated(model, tokenizer, languages, each) for each in sources]
    facts = {"languages": languages or [None, None], "sources": sources, "outputs": outputs}
    (folder / "expected.json").write_text(json.dumps(facts, ensure_ascii=False), encoding="utf-8")
    for name in LEFT_OUT if family != "m2m_100" else ():
        (folder / name).unlink(missing_ok=True)


if __name__ == "__main__":
    for family, safe in FAMILIES.items():
        make(family, safe)
