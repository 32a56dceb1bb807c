"""The small autoregressive drafter: what it drafts, and that drafts change nothing under sps."""

import copy
import functools

import pytest
import torch
from toy_drafter import ToyTask, make_drafter, save_verifier
from toy_hypotheses import open_on, rows_of
from toy_strategies import check, decode, flags, make_generator, stock, tokens
from toy_translation import (
    EOS,
    PAD,
    SHAPES,
    WORDS,
    assert_diverse,
    ids,
    make_sample,
    make_task,
    sentences,
    toy_model,
    translate,
)

from fairseq_specdec.decoding.builder import Overrides
from fairseq_specdec.decoding.drafter_file import load_drafter, load_small_model
from fairseq_specdec.drafting import AutoregressiveDrafter, DraftOptions

SOURCES = sentences(12, seed=21)
TARGETS = [ids(translate(s)) for s in SOURCES]
WINDOW = 4


@functools.cache
def small_model(kind="good"):
    """A drafter that knows the toy language fairly well, or not at all, or has little room."""
    if kind == "itself":
        return toy_model()
    if kind == "bad":
        return toy_model("pre_norm", seed=11, updates=0)
    model = copy.deepcopy(toy_model("separate_embeddings"))
    if kind == "few positions":
        model.decoder.max_target_positions = 5
    if kind == "short sources":
        model.encoder.max_source_positions = 4
    return model


def uncached(model, row, done, stop_below=0.0, room=WINDOW):
    """One sentence, one step at a time, by the model's own forward pass."""
    net_input = make_sample([SOURCES[row]])["net_input"]
    tokens, draft = [EOS] + TARGETS[row][:done], []
    with torch.no_grad():
        while len(draft) < min(WINDOW, room) and EOS not in draft:
            output = model(prev_output_tokens=torch.tensor([tokens + draft]), **net_input)
            logits = model.get_normalized_probs(output, log_probs=True)[0, -1].clone()
            logits[PAD] = float("-inf")
            chance, token = logits.softmax(-1).max(-1)
            if float(chance) < stop_below:
                break
            draft.append(int(token))
    return draft


def drafter_of(model, **options):
    return AutoregressiveDrafter(model, DraftOptions(WINDOW, PAD, EOS, **options))


def walk(drafter, judge, rounds=5, max_len=60, seed=4):
    """Call a drafter as the decoding loop does: ragged rows, rejected drafts, rows that leave.

    ``judge(row, done)`` is the draft to expect. As in the loop, a row moves on by some of the
    drafted tokens and one more token; what was drafted right stands in the targets.
    """
    generator = torch.Generator().manual_seed(seed)
    rows, done = list(range(len(SOURCES))), [0] * len(SOURCES)
    seen = 0
    with torch.no_grad():
        session = open_on(drafter, SOURCES, max_len)
        for _ in range(rounds):
            accepted = [TARGETS[row][:size] for row, size in zip(rows, done)]
            draft = session.propose(rows_of(accepted))
            moves = []
            for i, row in enumerate(rows):
                size = int(draft.sizes[i])
                mine = draft.tokens[i, :size].tolist()
                assert mine == judge(row, done[i]), (row, done[i])
                right = 0
                for ours, text in zip(mine, TARGETS[row][done[i] :]):
                    if ours != text:
                        break
                    right += 1
                seen += size
                moves.append(int(torch.randint(0, right + 1, (1,), generator=generator)) + 1)
            ahead = [d + m for d, m in zip(done, moves)]
            keep = [i for i, row in enumerate(rows) if ahead[i] < len(TARGETS[row])]
            session.keep(torch.tensor(keep, dtype=torch.long), keep)
            rows, done = [rows[i] for i in keep], [ahead[i] for i in keep]
            if not rows:
                break
    return seen


@pytest.mark.parametrize("shape", SHAPES)
def test_a_cached_ragged_drafter_equals_the_uncached_model(shape):
    model = toy_model(shape)
    drafter = drafter_of(model)
    assert walk(drafter, lambda row, done: uncached(model, row, done)) > 60


@pytest.mark.parametrize("stop_below", [0.0, 0.3, 0.6, 1.0])
def test_unsure_rows_stop_and_their_neighbours_go_on(stop_below):
    model = small_model()
    drafter = drafter_of(model, stop_below=stop_below)
    walk(drafter, lambda row, done: uncached(model, row, done, stop_below))


def test_drafts_respect_the_length_limit():
    model = small_model()
    drafter = drafter_of(model)
    walk(drafter, lambda row, done: uncached(model, row, done, room=max(0, 6 - done)), max_len=6)


def test_nothing_is_drafted_past_the_models_positions():
    model = small_model("few positions")
    drafter = drafter_of(model)
    walk(drafter, lambda row, done: uncached(model, row, done, room=max(0, 5 - done)))


def compare(case, models=None, sources=SOURCES, **more):
    """Outputs are stock fairseq's; returns their tokens, and our statistics."""
    generator, sample = make_generator(case, models=models, **more), make_sample(sources)
    expected = stock(generator.models, sample, flags())
    check(decode(generator, sample), expected)
    return tokens(expected), generator.stats


@pytest.mark.parametrize("kind", ["good", "bad", "itself"])
def test_greedy_speculation_equals_stock(kind):
    outputs, stats = compare("greedy", overrides=Overrides(drafter_of(small_model(kind))))
    assert_diverse(outputs)
    if kind == "itself":
        assert stats.mean_accepted_tokens > 3.5 and stats.acceptance_rate == 1
    if kind == "bad":
        assert stats.acceptance_rate < 0.3


@pytest.mark.parametrize("kind", ["few positions", "short sources"])
def test_a_small_model_without_room_leaves_the_rest_to_the_verifier(kind):
    for sources in (SOURCES, [s[:3] for s in SOURCES]):
        drafter = drafter_of(small_model(kind))
        _, stats = compare("greedy", sources=sources, overrides=Overrides(drafter))
        assert (stats.drafted == 0) == (kind == "short sources" and sources is SOURCES)


@pytest.mark.parametrize("dtype", ["same", "bf16"])
def test_the_small_model_follows_the_verifiers_number_format(dtype):
    double = copy.deepcopy(toy_model("pre_norm")).double()
    assert compare("sps", [double], drafter_dtype=dtype)[1].accepted > 0


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
