"""Toy models of speech: words are short tunes of features, which fairseq's own task learns."""

import csv
import io
import pathlib
import zipfile

import numpy as np
from in_process import run_here
from toy_cache import EVERYTHING, cached_folder, key
from toy_translation import WORDS, sentences

SIZES = {"train": 2000, "valid": 20, "test": 40}
BINS = 8
FRAMES = 8  # of a word
COLUMNS = ("id", "audio", "n_frames", "tgt_text", "speaker")
TRAINING = {
    "task": "speech_to_text", "config_yaml": "config.yaml", "criterion": "cross_entropy",
    "optimizer": "adam", "lr": 4e-3, "lr_scheduler": "fixed", "warmup_updates": 40,
    "clip_norm": 1.0, "batch_size": 16, "max_tokens": 100000, "no_epoch_checkpoints": True,
    "disable_validation": True, "seed": 1, "log_format": "simple", "train_subset": "train",
}  # fmt: skip
SHAPE = {
    "arch": "s2t_transformer_s", "conv_channels": 32, "encoder_embed_dim": 32,
    "encoder_ffn_embed_dim": 64, "encoder_attention_heads": 4, "encoder_layers": 1,
    "decoder_layers": 2, "decoder_attention_heads": 4, "dropout": 0.0, "max_update": 250,
    "share_decoder_input_output_embed": True, "activation_fn": "relu",
}  # fmt: skip


def speak(words, generator):
    """Features float32 [frames, BINS]: a tune for each word, of one of three lengths, and noise."""
    tunes = np.random.RandomState(7).randn(WORDS, FRAMES, BINS)
    spoken = [tunes[word][: FRAMES - generator.randint(3)] for word in words]
    wave = np.concatenate(spoken)
    return (wave + 0.1 * generator.randn(*wave.shape)).astype(np.float32)


def write_speech(folder):
    """Features in a stored zip, manifests, the dictionary and the task's settings."""
    audio = folder / "fbank80.zip"
    generator = np.random.RandomState(1)
    spoken = {
        f"{split}{number}": words
        for seed, (split, size) in enumerate(SIZES.items(), start=500)
        for number, words in enumerate(sentences(size, seed))
    }
    frames = {}
    with zipfile.ZipFile(str(audio), "w", zipfile.ZIP_STORED) as archive:
        for name, words in spoken.items():
            stream = io.BytesIO()
            features = speak(words, generator)
            np.save(stream, features)
            archive.writestr(name + ".npy", stream.getvalue())
            frames[name] = len(features)
    where = _places(audio)
    for split in SIZES:
        with open(str(folder / f"{split}.tsv"), "w", encoding="utf-8", newline="") as manifest:
            rows = csv.writer(manifest, delimiter="\t")
            rows.writerow(COLUMNS)
            for name, words in spoken.items():
                if name.startswith(split):
                    text = " ".join(f"w{word}" for word in words)
                    rows.writerow((name, where[name], frames[name], text, "one"))
    symbols = "".join(f"w{word} 1\n" for word in range(WORDS))
    (folder / "dict.txt").write_text(symbols, encoding="utf-8")
    settings = f"vocab_filename: dict.txt\ninput_feat_per_channel: {BINS}\ninput_channels: 1\n"
    (folder / "config.yaml").write_text(settings, encoding="utf-8")


def _places(audio):
    """``file:offset:length`` of each entry of a stored zip, by name."""
    places = {}
    with zipfile.ZipFile(str(audio)) as archive:
        for entry in archive.infolist():
            # A local header: 30 bytes, the name and an extra field, which zipfile leaves empty.
            start = entry.header_offset + 30 + len(entry.filename)
            places[entry.filename[: -len(".npy")]] = f"{audio}:{start}:{entry.file_size}"
    return places


def train_speech(data, folder, **flags):
    """A checkpoint of the toy speech, trained once by fairseq-train.

    Args:
        data: the folder of ``write_speech``.
        folder: where the checkpoints go.
        flags: of the command line; files among them are pathlib's.
    """
    given = {**TRAINING, **SHAPE, **flags}
    files = [path for path in given.values() if isinstance(path, pathlib.Path)]
    named = sorted((name, value) for name, value in given.items() if value not in files)
    cached_folder(
        folder, key(("speech", named), (EVERYTHING,), [__file__, *files]),
        lambda to: run_here("train", data, save_dir=to, **given),
    )  # fmt: skip
    return folder / "checkpoint_last.pt"
