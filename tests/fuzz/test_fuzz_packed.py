"""Packed checkpoints with odd entries or damaged bytes decode, or are refused in a line."""

import copy

import pytest
import torch
from damage import damaged
from toy_pair import text_of, write_pair
from toy_translation import sentences

from fairseq_specdec.checkpoints.reading import load_checkpoint
from fairseq_specdec.conversion import cli
from fairseq_specdec.engine.native import packed_file
from fairseq_specdec.hub import SpeculativeTranslator

TEXT = text_of(sentences(1, seed=3)[0])
FORMATS = ("fp32", "bf16", "int8", "int7")
ODD = (
    None, True, False, 0, 1, -1, 2**31, 2**40, 0.5, "", "fp32", "halves", "int8", "int7", "bf16",
    "words", "decoder.layers.0.fc1", "encoder.embed_tokens", "decoder.output_projection", "decoder",
    [], {}, torch.zeros(0), torch.zeros(3), torch.zeros(3, dtype=torch.int32), torch.zeros(2, 2),
    torch.full((70,), float("nan")), torch.full((4096,), -1, dtype=torch.int32),
)  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory, with_library):
    made = write_pair(tmp_path_factory.mktemp("packed"))
    for number_format in FORMATS:
        words = ["pack", made / "verifier.pt", made / number_format]
        words += ["--verifier-dtype", number_format]
        cli.main(cli.get_parser().parse_args(list(map(str, words))))
    return made


def containers(value):
    """Every list and dictionary in a value, itself included."""
    if isinstance(value, (list, dict)):
        yield value
        for each in value.values() if isinstance(value, dict) else value:
            yield from containers(each)


def disturbed(packed, random):
    """A description with up to three entries replaced, left out or exchanged."""
    packed = copy.deepcopy(packed)
    for _ in range(random.randint(1, 3)):
        into = random.choice([each for each in containers(packed) if each])
        key = random.choice(list(into) if isinstance(into, dict) else range(len(into)))
        others = [each[k] for each in containers(packed) if isinstance(each, dict) for k in each]
        what = random.random()
        if what < 0.2:
            del into[key]
        elif what < 0.7:
            into[key] = random.choice(ODD)
        else:
            into[key] = copy.deepcopy(random.choice(others))
    return packed


def test_packed(folder, fuzz):
    path = folder / "odd.pt"
    states = {name: load_checkpoint(str(folder / name)) for name in FORMATS}
    for seed in fuzz.seeds():
        random = fuzz.random(seed)
        number_format = random.choice(FORMATS)
        path.unlink(missing_ok=True)
        if random.random() < 0.6:
            state = dict(states[number_format])
            state[packed_file.KEY] = disturbed(state[packed_file.KEY], random)
            torch.save(state, str(path))
        else:
            path.write_bytes(damaged(random, (folder / number_format).read_bytes()))
        try:
            with SpeculativeTranslator.from_pretrained(
                path, strategy="greedy", bpe=None, tokenizer=None, device="cpu", threads=1,
                verifier_dtype=number_format, max_len_b=5,
            ) as translator:  # fmt: skip
                translator.translate(TEXT)
        except (ValueError, OSError) as error:
            message = str(error)
            assert message and len(message) < 900 and message.isprintable(), (seed, message)
            fuzz.counts["refused"] += 1
        else:
            fuzz.counts["decoded"] += 1
