"""Tiny models of transformers, trained for seconds so that their outputs differ.

Each translates "words" of a made-up language: the words of the source in reverse order, each
written in the target language's way. transformers is the extra ``hf``; without it there is none.
"""

import json
import os
import random

import torch

CONSONANTS, VOWELS = "bdfgklmnprstvz", "aeiou"
WIDTH, LAYERS = 32, 2
MARIAN = ("source.spm", "target.spm", "vocab.json", "target_vocab.json")
FAMILIES = ("marian", "marian-two", "m2m_100", "nllb", "mbart25", "mbart50", "bart")


def vocabulary(count=60, seed=3):
    """So many words."""
    rng = random.Random(seed)
    words = set()
    while len(words) < count:
        word = "".join(
            rng.choice(CONSONANTS) + rng.choice(VOWELS) for _ in range(rng.randint(1, 3))
        )
        words.add(word)
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


def sentences(count=40, seed=9):
    """Sources that no training saw."""
    return [source for source, _ in pairs(count, seed)]


def _spm(folder, name, lines, size, rule="nmt_nfkc", **more):
    import sentencepiece

    text = os.path.join(folder, "text.tmp")
    with open(text, "w", encoding="utf-8") as stream:
        stream.write("\n".join(lines))
    path = os.path.join(folder, name)
    sentencepiece.SentencePieceTrainer.train(
        input=text, model_prefix=path, vocab_size=size, normalization_rule_name=rule,
        hard_vocab_limit=False, minloglevel=2, **more,
    )  # fmt: skip
    os.remove(text)
    os.remove(path + ".vocab")
    os.rename(path + ".model", path)
    return sentencepiece.SentencePieceProcessor(model_file=path)


def _lines():
    made = pairs(400, 1)
    return [s for s, _ in made], [t for _, t in made]


def marian_tokenizer(folder, two=False, rule="nmt_nfkc"):
    from transformers import MarianTokenizer

    source, target = _lines()
    sizes = (("source.spm", source, 90), ("target.spm", target, 120))
    models = [_spm(folder, *each, rule) for each in sizes]
    pieces = [[m.id_to_piece(i) for i in range(3, m.get_piece_size())] for m in models]
    if not two:
        pieces = [list(dict.fromkeys([*pieces[0], *pieces[1], ">>fra<<"]))] * 2
    last = max(map(len, pieces)) + 2  # transformers has one id of padding for both sides
    for name, each in zip(MARIAN[2:], pieces):
        tokens = {token: i for i, token in enumerate(["</s>", "<unk>", *each])}
        with open(os.path.join(folder, name), "w", encoding="utf-8") as stream:
            json.dump({**tokens, "<pad>": last}, stream)
    place = [os.path.join(folder, name) for name in MARIAN]
    tokenizer = MarianTokenizer(*place, source_lang="xx", target_lang="yy", separate_vocabs=two)
    if not two:
        os.remove(place[3])
    return tokenizer


def m2m_tokenizer(folder, rule="nmt_nfkc"):
    from transformers import M2M100Tokenizer
    from transformers.models.m2m_100.tokenization_m2m_100 import FAIRSEQ_LANGUAGE_CODES

    model = _spm(folder, "sentencepiece.bpe.model", sum(_lines(), []), 140, rule)
    pieces = [model.id_to_piece(i) for i in range(3, model.get_piece_size())]
    path = os.path.join(folder, "vocab.json")
    with open(path, "w", encoding="utf-8") as stream:
        json.dump({t: i for i, t in enumerate(["<s>", "<pad>", "</s>", "<unk>", *pieces])}, stream)
    return M2M100Tokenizer(
        path, os.path.join(folder, "sentencepiece.bpe.model"), src_lang="en", tgt_lang="de",
        additional_special_tokens=[f"__{code}__" for code in FAIRSEQ_LANGUAGE_CODES["m2m100"]],
    )  # fmt: skip


def pieces_tokenizer(folder, name, langs, rule="nmt_nfkc"):
    import transformers

    _spm(folder, "sentencepiece.bpe.model", sum(_lines(), []), 140, rule)
    path = os.path.join(folder, "sentencepiece.bpe.model")
    return getattr(transformers, name)(path, src_lang=langs[0], tgt_lang=langs[1])


def bart_tokenizer(folder):
    from tokenizers import ByteLevelBPETokenizer
    from transformers import BartTokenizerFast

    made = ByteLevelBPETokenizer()
    made.train_from_iterator(
        sum(_lines(), []), vocab_size=330, min_frequency=1,
        special_tokens=["<s>", "<pad>", "</s>", "<unk>", "<mask>"],
    )  # fmt: skip
    made.save_model(folder)
    return BartTokenizerFast(os.path.join(folder, "vocab.json"), os.path.join(folder, "merges.txt"))


def untrained(family, folder, rule="nmt_nfkc"):
    """(model, tokenizer, languages) of a family, its tokenizer's files in the folder."""
    import transformers

    langs, more = (None, None), dict(decoder_start_token_id=2, activation_function="relu")
    if family.startswith("marian"):
        two = family == "marian-two"
        tokenizer, name = marian_tokenizer(folder, two, rule), "Marian"
        pad = tokenizer.encoder["<pad>"]
        more = dict(
            vocab_size=pad + 1, pad_token_id=pad, bos_token_id=0, eos_token_id=0,
            decoder_start_token_id=pad, forced_eos_token_id=0, activation_function="swish",
            bad_words_ids=[[pad]], share_encoder_decoder_embeddings=not two,
        )  # fmt: skip
    elif family == "m2m_100":
        tokenizer, langs, name = m2m_tokenizer(folder, rule), ("en", "de"), "M2M100"
        more["vocab_size"] = len(tokenizer.encoder) + 100 + 8
    elif family == "nllb":
        langs, name = ("eng_Latn", "deu_Latn"), "M2M100"
        tokenizer = pieces_tokenizer(folder, "NllbTokenizerFast", langs, rule)
        more["vocab_size"] = len(tokenizer) + 3
    elif family in ("mbart25", "mbart50"):
        langs, name = ("en_XX", "de_DE"), "MBart"
        kind = "MBartTokenizerFast" if family == "mbart25" else "MBart50TokenizerFast"
        tokenizer = pieces_tokenizer(folder, kind, langs, rule)
        start = 2 if family == "mbart50" else tokenizer.convert_tokens_to_ids("de_DE")
        more = dict(decoder_start_token_id=start, activation_function="gelu")
    else:
        tokenizer, name = bart_tokenizer(folder), "Bart"
        more = dict(
            decoder_start_token_id=2, forced_bos_token_id=0, forced_eos_token_id=2,
            min_length=5, no_repeat_ngram_size=3, scale_embedding=False,
        )  # fmt: skip
    settings = dict(
        d_model=WIDTH, encoder_layers=LAYERS, decoder_layers=LAYERS, encoder_attention_heads=4,
        decoder_attention_heads=4, encoder_ffn_dim=2 * WIDTH, decoder_ffn_dim=2 * WIDTH,
        dropout=0.0, attention_dropout=0.0, activation_dropout=0.0, max_position_embeddings=64,
        vocab_size=len(tokenizer), scale_embedding=True, encoder_layerdrop=0.0,
        decoder_layerdrop=0.0, max_length=40, pad_token_id=1, bos_token_id=0, eos_token_id=2,
    )  # fmt: skip
    config = getattr(transformers, f"{name}Config")(**{**settings, **more})
    end = "MTModel" if name == "Marian" else "ForConditionalGeneration"
    model = getattr(transformers, name + end)(config)
    if name == "Marian":
        model.final_logits_bias.normal_(0, 0.5)
    return model, tokenizer, langs


def labelled(tokenizer, made):
    """A batch of (source, target) sentences."""
    sources, targets = [s for s, _ in made], [t for _, t in made]
    batch = tokenizer(sources, text_target=targets, padding=True, return_tensors="pt")
    batch["labels"][batch["labels"] == tokenizer.pad_token_id] = -100
    return batch


def train(family, model, tokenizer, steps=500, seed=5):
    """Train in place; returns the last loss."""
    torch.manual_seed(seed)
    model.train()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for step in range(steps):
        batch = labelled(tokenizer, pairs(24, 1000 + step))
        if family in ("m2m_100", "nllb", "mbart50"):
            labels = batch["labels"]
            starts = torch.full((len(labels), 1), 2)
            inputs = torch.cat([starts, labels.masked_fill(labels == -100, 1)[:, :-1]], 1)
            batch["decoder_input_ids"] = inputs
        batch.pop("token_type_ids", None)
        loss = model(**batch).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    return float(loss)


def made(family, folder, steps=500, rule="nmt_nfkc"):
    """Make, train and save a model; (model, tokenizer, languages)."""
    os.makedirs(folder, exist_ok=True)
    torch.manual_seed(1)
    model, tokenizer, langs = untrained(family, str(folder), rule)
    model.loss_at_end = train(family, model, tokenizer, steps)
    model.save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return model, tokenizer, langs


def generated(model, tokenizer, langs, texts, **more):
    """transformers' text, one sentence at a time."""
    outputs = []
    for text in texts:
        batch = tokenizer([text], return_tensors="pt")
        batch.pop("token_type_ids", None)
        if langs[1] is not None:
            target = f"__{langs[1]}__" if langs[1] == "de" else langs[1]
            first = tokenizer.convert_tokens_to_ids(target)
            if model.generation_config.decoder_start_token_id == first:
                more["decoder_start_token_id"] = first
            else:
                more["forced_bos_token_id"] = first
        out = model.generate(**batch, num_beams=1, do_sample=False, **more)
        outputs.append(tokenizer.decode(out[0], skip_special_tokens=True))
    return outputs
