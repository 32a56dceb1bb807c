"""The small autoregressive drafter: what it drafts, and that drafts change nothing under sps."""

import copy

import pytest
import torch
from toy_drafter import ToyTask, make_drafter, save_verifier
from toy_hypotheses import open_on
from toy_translation import EOS, PAD, SHAPES, WORDS, make_task, toy_model
from walking import SOURCES, net_input_of, walk

from fairseq_specdec.decoding.drafter_file import load_drafter, load_small_model
from fairseq_specdec.drafting import AutoregressiveDrafter, DraftOptions

WINDOW = 4


def uncached(model, row, accepted, stop_below, most):
    """One step at a time, by the model's own forward pass."""
    draft = []
    with torch.no_grad():
        while len(draft) < min(WINDOW, most - len(accepted)) and EOS not in draft:
            previous = torch.tensor([[EOS, *accepted, *draft]])
            output = model(prev_output_tokens=previous, **net_input_of(row))
            logits = model.get_normalized_probs(output, log_probs=True)[0, -1].clone()
            logits[PAD] = float("-inf")
            chance, token = logits.softmax(-1).max(-1)
            if float(chance) < stop_below:
                break
            draft.append(int(token))
    return draft


@pytest.mark.parametrize(
    "shape, stop_below, positions, limit",
    [
        *((shape, 0.0, 64, 60) for shape in SHAPES),
        *(("separate_embeddings", chance, 64, 60) for chance in (0.3, 0.6, 1.0)),
        ("separate_embeddings", 0.0, 5, 60),
        ("separate_embeddings", 0.0, 64, 6),
    ],
)
def test_a_cached_ragged_drafter_equals_the_uncached_model(shape, stop_below, positions, limit):
    """Unsure rows stop and their neighbours go on; drafts end with the positions and the limit."""
    model = copy.deepcopy(toy_model(shape))
    model.decoder.max_target_positions = positions
    most = min(positions, limit)
    drafter = AutoregressiveDrafter(model, DraftOptions(WINDOW, PAD, EOS, stop_below=stop_below))
    session = open_on(drafter, SOURCES, limit)
    drafts = walk(session, lambda *given: uncached(model, *given, stop_below, most))
    assert sum(map(len, drafts)) > (60 if most == 60 and not stop_below else -1)


def test_files_that_hold_no_small_model(tmp_path):
    words = make_task().tgt_dict
    path = str(tmp_path / "m.pt")
    task = ToyTask(words=WORDS)
    save_verifier(path, task)
    model = load_small_model(path, task.source_dictionary, task.target_dictionary)
    assert type(model.decoder).__name__ in ("TransformerDecoder", "TransformerDecoderBase")
    with pytest.raises(ValueError, match="--drafter-path: .* is no block drafter"):
        load_drafter(path, words, words)
    save_verifier(path, task, quant_noise_scalar=0.1)
    with pytest.raises(ValueError, match="--drafter-path: .* does not run .* with Activation"):
        load_small_model(path, task.source_dictionary, task.target_dictionary)
    save_verifier(path, ToyTask(words=WORDS + 1))
    with pytest.raises(ValueError, match="--drafter-path: its encoder dictionary has 29 symbols"):
        load_small_model(path, words, words)
    state = torch.load(path, weights_only=False)
    torch.save(dict(state, model=make_drafter(task).state_dict()), path)
    with pytest.raises(ValueError, match="is a block drafter, and .* use --strategy gad"):
        load_small_model(path, words, words)
    (tmp_path / "m.pt").write_bytes((tmp_path / "m.pt").read_bytes()[:2000])
    with pytest.raises(ValueError, match="--drafter-path: .* is the file complete"):
        load_small_model(path, words, words)
