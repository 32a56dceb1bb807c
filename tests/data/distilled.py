"""The distilling command in this process, and what it writes."""

from types import SimpleNamespace

import pytest
from fairseq import options
from fairseq.data import indexed_dataset

from fairseq_specdec.data import distill as command

DECODING = ["--max-tokens", 100, "--max-len-b", 20]  # 100 tokens: many batches
KEEP = [*DECODING, "--on-length-limit", "keep", "--chunk-size", 16]
SIZE = 200
# Small enough to train in seconds, trained enough for outputs to differ from one another.
TRAINING = {
    "task": "translation", "arch": "transformer", "encoder_layers": 1, "decoder_layers": 1,
    "encoder_embed_dim": 32, "decoder_embed_dim": 32, "encoder_ffn_embed_dim": 64,
    "decoder_ffn_embed_dim": 64, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "share_all_embeddings": True, "dropout": 0, "optimizer": "adam", "max_tokens": 400,
    "criterion": "label_smoothed_cross_entropy", "disable_validation": True,
    "no_epoch_checkpoints": True, "lr": 0.01, "data_buffer_size": 0,
}  # fmt: skip


def run(data, dest, path, *flags):
    """The report of a run, or None while other shards are at work."""
    words = [
        str(each) for each in (data, "--path", path, "--dest", dest, "--num-workers", 0, *flags)
    ]
    args = options.parse_args_and_arch(command.get_parser(), input_args=words)
    return command.main(args, words)


def read_corpus(folder, split="train", pair="src-tgt"):
    """Token ids of both sides of a split."""
    sides = []
    for language in pair.split("-"):
        data = indexed_dataset.make_dataset(f"{folder}/{split}.{pair}.{language}", "mmap")
        sides.append([data[i].tolist() for i in range(len(data))])
    return SimpleNamespace(source=sides[0], target=sides[1])


def same_corpus(*folders):
    """Whether every file but the report is the same, byte for byte."""
    one, other = (
        {path.name: path.read_bytes() for path in folder.iterdir() if path.suffix != ".json"}
        for folder in folders
    )
    return one == other


class Killed(BaseException):
    """No handler of the command may catch it, as none can catch SIGKILL."""


def killed_at(module, name, matches, times, run):
    """Die instead of the ``times``-th call of a function whose first argument matches."""
    real, left = getattr(module, name), [times]

    def call(first, *rest, **named):
        left[0] -= matches in str(first)
        if left[0] == 0:
            raise Killed
        return real(first, *rest, **named)

    with pytest.MonkeyPatch.context() as patch, pytest.raises(Killed):
        patch.setattr(module, name, call)
        run()
