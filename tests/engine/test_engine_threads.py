"""--threads: what it sets, and that it changes no bits on the native backend."""

from argparse import Namespace

import pytest
import torch
from fairseq.data import Dictionary
from fairseq.models.transformer import TransformerModel, base_architecture
from toy_translation import make_task, toy_model

from fairseq_specdec.config import decoding_settings
from fairseq_specdec.decoding.builder import build_generator
from fairseq_specdec.engine.native import library

WIDTH, WORDS = 128, 70_000  # a vocabulary's product large enough to be shared


@pytest.fixture(autouse=True)
def as_before():
    count = torch.get_num_threads()
    yield
    torch.set_num_threads(count)
    if library.load() is not None:
        library.load().set_threads(1)


@pytest.fixture
def thread_counts(monkeypatch):
    """The numbers that the library is given."""
    if library.load() is None:
        pytest.skip(library.why_not())
    counts = []
    monkeypatch.setattr(library.Library, "set_threads", lambda self, count: counts.append(count))
    return counts


def test_a_generator_sets_them_in_torch_and_in_the_library(thread_counts):
    words = make_task().tgt_dict
    for count in (3, None):
        settings = decoding_settings(threads=count)
        build_generator([toy_model(updates=1)], words, words, Namespace(beam=1), settings)
        assert torch.get_num_threads() == 3 and thread_counts == [3]


def test_every_number_of_threads_gives_the_same_bits():
    if library.load() is None:
        pytest.skip(library.why_not())
    torch.manual_seed(1)
    words = Dictionary()
    for word in range(WORDS):
        words.add_symbol(f"w{word}")
    sides = {
        f"{side}_{name}": value
        for side in ("encoder", "decoder")
        for name, value in (("embed_dim", WIDTH), ("ffn_embed_dim", WIDTH), ("layers", 1))
    }
    args = Namespace(**sides, share_all_embeddings=True)
    base_architecture(args)
    task = Namespace(source_dictionary=words, target_dictionary=words)
    model = TransformerModel.build_model(args, task).eval()
    sources = torch.randint(4, WORDS, (6, 9))
    sample = {"net_input": {"src_tokens": sources, "src_lengths": torch.full((6,), 9)}}
    scores = []
    for count in (1, 2, 5):
        settings = decoding_settings(threads=count, backend="native")
        flags = Namespace(beam=1, max_len_b=6, temperature=1.0)
        generator = build_generator([model], words, words, flags, settings)
        outputs = generator.generate([model], sample)
        scores.append([(h["tokens"].tolist(), h["positional_scores"].tolist()) for (h,) in outputs])
    assert scores[0] == scores[1] == scores[2]
