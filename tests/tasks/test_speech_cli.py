"""``--task speech_to_text_specdec``: fairseq's speech models decode as stock decodes them."""

import functools

import pytest
import torch
from attempts import accepted, assert_same, generate, words_of
from in_process import hypotheses, run_here
from pairwise import half
from speech_toys import SIZES, TRAINING, train_speech, write_speech
from toy_translation import assert_diverse

from fairseq_specdec.hub import SpeculativeTranslator
from fairseq_specdec.trace import read_traces


@pytest.fixture(scope="module")
def speech(tmp_path_factory):
    """The folder of the toy speech."""
    folder = tmp_path_factory.mktemp("speech")
    write_speech(folder)
    return folder


@pytest.fixture(scope="module")
def verifier(speech, tmp_path_factory):
    """A checkpoint, and beside it an earlier one, which drafts for ``sps``."""
    folder = tmp_path_factory.mktemp("s2t")
    return train_speech(speech, folder, save_interval_updates=200)


@pytest.fixture(scope="module")
def attached(speech, verifier, tmp_path_factory):
    """A drafter that reads the verifier, trained by fairseq's own task."""
    return train_speech(
        speech, tmp_path_factory.mktemp("attached"), arch="attached_drafter_tiny",
        criterion="glancing_block_loss", attach_to=verifier, max_update=60, block_size=3,
        num_cuts=4, decoder_layers=1, conv_channels=None,
    )  # fmt: skip


def decode(speech, path, task="speech_to_text_specdec", command="generate", **flags):
    """(stdout, log) of fairseq's command."""
    given = {"gen_subset": "test", "batch_size": 16, "max_len_b": 30, "beam": 1, **flags}
    return run_here(command, speech, path=path, task=task, config_yaml="config.yaml", **given)


@pytest.fixture(scope="module")
def stock(speech, verifier):
    """What stock prints at a beam."""

    @functools.cache
    def at(beam):
        flags = {"beam": beam, "nbest": min(beam, 3)}
        out, _ = decode(speech, verifier, task="speech_to_text", **flags)
        assert_diverse(list(words_of(out).values()))
        return out

    return at


@pytest.mark.parametrize("beam, backend", half([1, 5], ["native", "torch"]))
def test_equals_stock(speech, verifier, stock, beam, backend):
    flags = {"beam": beam, "nbest": min(beam, 3), "backend": backend}
    ours, _ = decode(speech, verifier, **flags)
    assert_same(ours, stock(beam), SIZES["test"] * flags["nbest"])


@pytest.mark.parametrize("strategy", ["gad", "sps"])
def test_drafts_equal_stock_in_fewer_passes(speech, verifier, attached, stock, strategy):
    small = verifier.with_name("checkpoint_2_200.pt")
    drafter = {"gad": attached, "sps": small}[strategy]
    flags = {"strategy": strategy, "drafter_path": drafter, "draft_budget": 0}
    out, log = decode(speech, verifier, **flags)
    assert_same(out, stock(1), SIZES["test"])
    assert accepted(log) > 1.05


@pytest.mark.parametrize(
    "strategy, message",
    [
        ("iad", "--strategy iad: .* no text; use another strategy"),
        ("sps", "--drafter-path: .* reads words, .* this task is speech"),
        ("words", "--drafter-path: .* reads speech, .* this task is text"),
    ],
)
def test_speech_and_words_do_not_mix(speech, verifier, toy, strategy, message):
    with pytest.raises(ValueError, match=message):
        if strategy == "words":
            generate(toy, strategy="sps", drafter_path=verifier)
        drafter = {"drafter_path": toy.v} if strategy == "sps" else {}
        decode(speech, verifier, strategy=strategy, **drafter)


def test_a_drafter_with_an_encoder_is_not_trained(speech, tmp_path):
    flags = {"arch": "spec_drafter_tiny", "criterion": "glancing_block_loss"}
    with pytest.raises(ValueError, match="--arch: a spec_drafter reads words"):
        run_here("train", speech, save_dir=tmp_path, max_update=1, **{**TRAINING, **flags})


def test_the_recogniser_that_training_began_with_is_not_opened(speech, verifier, stock, tmp_path):
    state = torch.load(str(verifier), weights_only=False)
    broken = tmp_path / "recogniser.pt"
    broken.write_bytes(b"no checkpoint")
    state["cfg"]["model"].load_pretrained_encoder_from = str(broken)
    path = tmp_path / "from_a_recogniser.pt"
    torch.save(state, str(path))
    assert_same(decode(speech, path)[0], stock(1), SIZES["test"])


def test_a_trace_has_no_source(speech, verifier, tmp_path):
    path = tmp_path / "trace.jsonl"
    out, _ = decode(speech, verifier, trace_path=path)
    traces = list(read_traces(str(path)))
    words = {number: words for number, (words, _, _) in hypotheses(out).items()}
    assert {str(trace.id): trace.output[:-1] for trace in traces} == words
    assert all(trace.source == [] for trace in traces)


def test_the_interface_for_text_refuses_speech(verifier):
    with pytest.raises(ValueError, match="verifier: .* reads speech, .* task='speech_to_text_spec"):
        SpeculativeTranslator.from_pretrained(str(verifier))
