"""A cut draft is what is left of every row, and a tree stays a tree."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from fairseq_specdec.engine.draft_tree import DraftTree

unhurried = settings(deadline=None)


def random_tree(seed, rows, width, vocabulary=7):
    """A tree of which every row is full of entries; parents precede their children."""
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, vocabulary, (rows, width), generator=generator)
    sizes = torch.randint(0, width + 1, (rows,), generator=generator)
    log_probs = torch.randn(rows, width, vocabulary, generator=generator).log_softmax(-1)
    parents = [
        [int(torch.randint(-1, node, (1,), generator=generator)) if node else -1]
        for node in range(width)
        for _ in range(rows)
    ]
    parents = torch.tensor(parents, dtype=torch.long).view(width, rows).t()
    return DraftTree(tokens, sizes, log_probs, 3, parents)


def entries(tree):
    """What each row says: (token, parent, its distribution) of every entry that counts."""
    rows = []
    for row, size in enumerate(tree.sizes.tolist()):
        assert size <= tree.width
        parents = list(range(-1, size - 1))
        if tree.parents is not None:
            parents = tree.parents[row, :size].tolist()
        chances = [None] * size
        if tree.log_probs is not None:
            chances = tree.log_probs[row, :size].tolist()
        rows.append(list(zip(tree.tokens[row, :size].tolist(), parents, chances)))
    return rows


cuts = st.tuples(
    st.integers(0, 10**6), st.integers(1, 4), st.integers(0, 6), st.integers(0, 8), st.booleans()
)


def check(tree, most, room):
    given_room = None if room is None else torch.tensor(room)
    found = tree.limited(most, given_room)
    expected = [
        row[: most if room is None else min(most, left)]
        for row, left in zip(entries(tree), room or tree.sizes.tolist())
    ]
    assert entries(found) == expected
    assert found.width == min(most, tree.width)
    for each in (found.log_probs, found.parents):
        assert each is None or each.size(1) == found.width
    assert found.passes == tree.passes and found.is_chain == tree.is_chain
    for row in entries(found):
        assert all(-1 <= parent < node for node, (_, parent, _) in enumerate(row))
    return found


def random_room(seed, rows, limited):
    generator = torch.Generator().manual_seed(seed + 1)
    return torch.randint(0, 8, (rows,), generator=generator).tolist() if limited else None


@unhurried
@given(cuts)
def test_a_tree_keeps_its_first_entries(cut):
    seed, rows, width, most, limited = cut
    check(random_tree(seed, rows, width), most, random_room(seed, rows, limited))


@unhurried
@given(cuts)
def test_a_chain_keeps_its_first_tokens(cut):
    seed, rows, width, most, limited = cut
    chain = random_tree(seed, rows, width)._replace(parents=None)
    assert chain.is_chain
    check(chain, most, random_room(seed, rows, limited))


@unhurried
@given(cuts)
def test_a_draft_without_distributions_has_none_left(cut):
    seed, rows, width, most, limited = cut
    tree = random_tree(seed, rows, width)._replace(log_probs=None)
    assert check(tree, most, random_room(seed, rows, limited)).log_probs is None


def test_every_row_has_room_of_its_own():
    tokens = torch.arange(12).view(3, 4)
    tree = DraftTree(tokens, torch.tensor([4, 4, 1])).limited(3, torch.tensor([0, 2, 9]))
    assert tree.sizes.tolist() == [0, 2, 1]
    assert tree.tokens.tolist() == [[0, 1, 2], [4, 5, 6], [8, 9, 10]]


def test_a_branch_behind_the_cut_is_gone():
    parents = torch.tensor([[-1, 0, 0, 1, -1]])
    tree = DraftTree(torch.tensor([[5, 6, 7, 8, 9]]), torch.tensor([5]), parents=parents)
    found = tree.limited(3)
    assert found.tokens.tolist() == [[5, 6, 7]] and found.parents.tolist() == [[-1, 0, 0]]
    assert not found.is_chain and found.sizes.tolist() == [3]


def test_what_fits_stays_as_it_is():
    tree = random_tree(5, 3, 4)
    found = tree.limited(4)
    assert all(ours is theirs for ours, theirs in zip(found, tree))


def test_an_empty_draft_is_a_chain_of_nothing():
    tree = DraftTree.empty(torch.tensor([3, 0]))
    assert tree.is_chain and tree.width == 0
    assert tree.tokens.shape == (2, 0) and tree.tokens.dtype == torch.long
    assert tree.sizes.tolist() == [0, 0] and tree.passes == 0
    assert entries(tree.limited(0, torch.tensor([0, 5]))) == [[], []]
