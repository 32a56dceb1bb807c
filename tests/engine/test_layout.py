"""Places of a block's tokens against slow versions, and a tree against its paths."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toy_translation import EOS, FIRST, PAD, WORDS, ids, make_sample, sentences, toy_model

from fairseq_specdec.engine.layout import Layout
from fairseq_specdec.engine.verifier import Verifier

unhurried = settings(deadline=None)
lengths_of_rows = st.one_of(
    st.lists(st.integers(0, 6), min_size=1, max_size=4),
    st.tuples(st.integers(0, 6), st.integers(1, 4)).map(lambda both: [both[0]] * both[1]),
)


def random_parents(seed, rows, count):
    """Parents of ``count`` entries a row, as lists; each precedes its child."""
    generator = torch.Generator().manual_seed(seed)
    found = torch.rand(rows, count, generator=generator) * torch.arange(1, count + 1)
    return (found.long() - 1).tolist()


def path(parents, node):
    """Entries from the root's child to ``node``; the root is -1."""
    nodes = []
    while node >= 0:
        nodes.append(node)
        node = parents[node]
    return nodes[::-1]


def whole_mask(layout, rows, width):
    mask = layout.mask()
    if mask is None:
        return torch.ones(rows, width, layout.upto, dtype=torch.bool)
    assert mask.dtype == torch.bool and mask.shape == (rows, 1, width, layout.upto)
    return mask[:, 0]


def check_run(layout, width):
    """A common run of slots is told where there is one, and only there."""
    slots = layout.slots.tolist()
    assert layout.upto == max(row[-1] for row in slots) + 1
    together = all(row == slots[0] for row in slots)
    assert (layout.run_from is not None) == together
    if together:
        assert slots[0] == list(range(layout.run_from, layout.run_from + width))


@unhurried
@given(lengths_of_rows, st.integers(1, 5))
def test_a_chain_sees_what_is_committed_and_itself(lengths, width):
    layout = Layout.chain(torch.tensor(lengths), lengths, width)
    expected = [[length + w for w in range(width)] for length in lengths]
    assert layout.positions.tolist() == layout.slots.tolist() == expected
    check_run(layout, width)
    mask = whole_mask(layout, len(lengths), width)
    for row, length in enumerate(lengths):
        for w in range(width):
            assert mask[row, w].nonzero().flatten().tolist() == list(range(length + w + 1))


@unhurried
@given(lengths_of_rows, st.integers(1, 5))
def test_positions_that_end_at_each_rows_last_token(lengths, width):
    """As small models read them: short rows begin with their first position, several times."""
    last = torch.tensor(lengths)
    positions = (last.unsqueeze(1) + torch.arange(1 - width, 1)).clamp(min=0)
    width = min(width, max(lengths) + 1)
    positions = positions[:, -width:]
    layout = Layout.at(positions, lengths)
    assert torch.equal(layout.positions, positions) and torch.equal(layout.slots, positions)
    check_run(layout, width)
    mask = whole_mask(layout, len(lengths), width)
    for row, places in enumerate(positions.tolist()):
        for w, place in enumerate(places):
            assert mask[row, w].nonzero().flatten().tolist() == list(range(place + 1))


@unhurried
@given(st.integers(0, 10**6), lengths_of_rows, st.integers(0, 7))
def test_a_tree_sees_what_is_committed_and_its_ancestors(seed, lengths, count):
    rows, width = len(lengths), count + 1
    parents = random_parents(seed, rows, count)
    tree = torch.tensor(parents, dtype=torch.long).view(rows, count)
    layout = Layout.tree(torch.tensor(lengths), lengths, tree)
    expected = [[length + w for w in range(width)] for length in lengths]
    assert layout.slots.tolist() == expected
    check_run(layout, width)
    mask = whole_mask(layout, rows, width)
    for row, length in enumerate(lengths):
        for node in range(-1, count):
            nodes = path(parents[row], node)
            assert layout.positions[row, node + 1] == length + len(nodes)
            seen = list(range(length + 1)) + [length + 1 + n for n in nodes]
            assert mask[row, node + 1].nonzero().flatten().tolist() == seen


@unhurried
@given(lengths_of_rows, st.integers(1, 6))
def test_a_tree_without_branches_is_a_chain(lengths, width):
    parents = torch.arange(-1, width - 2).repeat(len(lengths), 1)
    tree = Layout.tree(torch.tensor(lengths), lengths, parents)
    chain = Layout.chain(torch.tensor(lengths), lengths, width)
    assert torch.equal(tree.positions, chain.positions) and torch.equal(tree.slots, chain.slots)
    assert (tree.upto, tree.run_from) == (chain.upto, chain.run_from)
    shape = (len(lengths), width)
    assert torch.equal(whole_mask(tree, *shape), whole_mask(chain, *shape))


SOURCES = sentences(6, seed=31)
NODES = 9


def open_verifier(model):
    verifier = Verifier([model])
    encoded = verifier.encode(make_sample(SOURCES)["net_input"])
    return verifier.open(encoded, 40, 4)


def begin(session, prefixes):
    """Commit the start symbol and all but the last token of every prefix, some of them twice.

    Returns:
        (long [B], ints), the committed slots; the prefix's last token is to be scored.
    """
    width = max(map(len, prefixes)) + 1
    block = torch.full((len(prefixes), width), FIRST)
    for row, prefix in enumerate(prefixes):
        block[row, : len(prefix) + 1] = torch.tensor([EOS] + prefix)
    zeros = [0] * len(prefixes)
    session.score(block, Layout.chain(torch.tensor(zeros), zeros, width))
    lengths = [len(prefix) for prefix in prefixes]
    session.commit(torch.tensor(lengths), lengths)
    return torch.tensor(lengths), lengths


def stock_log_probs(model, source, tokens):
    """[V], what stock fairseq says may follow ``tokens``."""
    net_input = make_sample([source])["net_input"]
    logits, _ = model(prev_output_tokens=torch.tensor([[EOS] + tokens]), **net_input)
    return logits[0, -1].log_softmax(-1)


@pytest.mark.parametrize("ragged", [True, False], ids=["ragged", "even"])
@pytest.mark.parametrize("shape", ["post_norm", "learned", "no_positions"])
def test_a_tree_scored_in_one_pass_equals_its_paths_scored_as_chains(shape, ragged):
    model = toy_model(shape)
    rows = len(SOURCES)
    generator = torch.Generator().manual_seed(8)
    prefixes = [ids(source)[:-1] for source in sentences(rows, seed=32)]
    prefixes = [prefix[: 1 + (row % 4 if ragged else 0)] for row, prefix in enumerate(prefixes)]
    parents = random_parents(9, rows, NODES)
    drafted = torch.randint(FIRST, FIRST + WORDS, (rows, NODES), generator=generator)
    assert any(parent != node - 1 for row in parents for node, parent in enumerate(row))
    with torch.no_grad():
        session = open_verifier(model)
        lengths, lengths_cpu = begin(session, prefixes)
        last = torch.tensor([[prefix[-1]] for prefix in prefixes])
        block = torch.cat([last, drafted], 1)
        layout = Layout.tree(lengths, lengths_cpu, torch.tensor(parents))
        assert (layout.run_from is None) == ragged
        found = session.score(block, layout).dense()
        session.commit(lengths, lengths_cpu)  # nothing of the tree is kept

        for node in range(-1, NODES):
            paths = [path(row, node) for row in parents]
            deepest = max(map(len, paths))
            chain = torch.full((rows, deepest), PAD)
            for row, nodes in enumerate(paths):
                chain[row, : len(nodes)] = drafted[row, nodes]
            places = Layout.chain(lengths, lengths_cpu, deepest + 1)
            alone = session.score(torch.cat([last, chain], 1), places).dense()
            for row, nodes in enumerate(paths):
                ours = found[row, node + 1]
                torch.testing.assert_close(ours, alone[row, len(nodes)], atol=1e-4, rtol=0)
                output = prefixes[row] + drafted[row, nodes].tolist()
                theirs = stock_log_probs(model, SOURCES[row], output)
                torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=0)

        # Branches matter: the same tokens one after the other say something else.
        session.commit(lengths, lengths_cpu)
        straight = session.score(block, Layout.chain(lengths, lengths_cpu, NODES + 1)).dense()
        apart = (straight - found).abs().amax(-1) > 0.01
        branched = [
            [path(row, node) != list(range(node + 1)) for node in range(-1, NODES)]
            for row in parents
        ]
        assert torch.equal(apart, torch.tensor(branched))


def test_a_session_goes_on_after_a_tree():
    """Slots of a tree are overwritten, for rows that stay as for those that leave."""
    model = toy_model()
    prefixes = [ids(source)[:3] for source in SOURCES]
    keep = [0, 2, 5]
    with torch.no_grad():
        session = open_verifier(model)
        lengths, lengths_cpu = begin(session, prefixes)
        last = torch.tensor([[prefix[-1]] for prefix in prefixes])
        parents = torch.tensor(random_parents(3, len(SOURCES), NODES))
        junk = torch.full((len(SOURCES), NODES), FIRST + 1)
        layout = Layout.tree(lengths, lengths_cpu, parents)
        session.score(torch.cat([last, junk], 1), layout)
        ahead = [length + 1 for length in lengths_cpu]
        session.commit(torch.tensor(ahead), ahead)
        session.select(torch.tensor(keep), keep)
        kept = [ahead[row] for row in keep]
        block = torch.tensor([[FIRST + 2, FIRST + 7]] * len(keep))
        found = session.score(block, Layout.chain(torch.tensor(kept), kept, 2)).dense()
        for i, row in enumerate(keep):
            output = prefixes[row] + [FIRST + 2, FIRST + 7]
            theirs = stock_log_probs(model, SOURCES[row], output)
            torch.testing.assert_close(found[i, 1], theirs, atol=1e-4, rtol=0)


@pytest.mark.parametrize("lengths", [[2, 2], [0, 3]])
def test_places_are_made_on_the_device_of_the_lengths(lengths):
    """ "meta" has shapes and no numbers, and mixes with no other device."""
    there = torch.zeros(2, dtype=torch.long, device="meta")
    chain = Layout.chain(there, lengths, 3)
    tree = Layout.tree(there, lengths, there.view(2, 1).expand(2, 2))
    assert chain.mask().shape == tree.mask().shape == (2, 1, 3, chain.upto)
    tensors = [part for part in (*chain, *tree) if isinstance(part, torch.Tensor)]
    tensors += [chain.mask(), tree.mask()]
    assert {tensor.device.type for tensor in tensors} == {"meta"}


def test_a_token_that_sees_everything_needs_no_mask():
    """And only such a one: a mask costs an operation in every layer."""
    for lengths, width, alone in (([3, 3], 1, True), ([3, 3], 2, False), ([3, 2], 1, False)):
        layout = Layout.chain(torch.tensor(lengths), lengths, width)
        assert (layout.mask() is None) == alone
    tree = Layout.tree(torch.tensor([3, 3]), [3, 3], torch.tensor([[-1, -1], [-1, 0]]))
    assert tree.tail.shape == (2, 3, 3) and tree.mask().shape == (2, 1, 3, 6)


def test_only_in_a_chain_positions_are_slots():
    lengths, at = torch.tensor([2]), torch.tensor([[2, 3]])
    assert Layout.chain(lengths, [2], 2).in_order and Layout.at(at, [3]).in_order
    assert not Layout.tree(lengths, [2], torch.tensor([[-1]])).in_order
    assert not Layout.scattered(at, at, torch.ones(1, 2, 4, dtype=torch.bool)).in_order


def test_scattered_tokens_see_what_they_are_told():
    positions, slots = torch.tensor([[3, 5], [4, 4]]), torch.tensor([[2, 0], [1, 3]])
    seen = torch.rand(2, 2, 7, generator=torch.Generator().manual_seed(1)) < 0.5
    layout = Layout.scattered(positions, slots, seen)
    assert layout.positions is positions and layout.slots is slots
    assert layout.upto == 7 and layout.run_from is None
    assert torch.equal(layout.mask(), seen[:, None])
