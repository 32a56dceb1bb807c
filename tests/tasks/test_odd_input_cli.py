"""fairseq-interactive on odd input: this project's task says what fairseq's own says."""

import pytest
from in_process import hypotheses, lines_of, run_here
from odd_lines import LINES
from toy_pair import write_pair

COMMON = {"source_lang": "src", "target_lang": "tgt", "beam": 1, "batch_size": 4, "buffer_size": 5}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("odd"))


def decoded(files, content, strategy=None, **flags):
    """(source lines, hypotheses) for a file of these bytes; ``strategy`` None is fairseq's task."""
    path = files / "input.txt"
    path.write_bytes(content)
    given = {**COMMON, "path": files / "verifier.pt", "input": path, "task": "translation", **flags}
    if strategy is not None:
        given.update(task="translation_specdec", strategy=strategy)
        if strategy == "gad":
            given["drafter_path"] = files / "drafter.pt"
    out, _ = run_here("interactive", files, **given)
    return lines_of("S", out), {number: words for number, (words, _, _) in hypotheses(out).items()}


def test_odd_lines_a_last_one_without_an_end_and_none_at_all(files):
    odd = "".join(line + "\n" for line in LINES.values()).encode("utf-8", "replace")
    for content in (odd, b"w1 w2\nw3", b"", b"\n", b"\n\n\n"):
        assert decoded(files, content, "gad") == decoded(files, content)


def test_10_000_tokens_are_refused_or_skipped_as_stock_does(files):
    content = b"w1 w2\n" + b"w3 " * 10_000 + b"\nw4\n"
    for strategy in (None, "gad"):
        with pytest.raises(Exception, match="10001"):
            decoded(files, content, strategy)
    skipped = decoded(files, content, "gad", skip_invalid_size_inputs_valid_test=True)
    assert skipped == decoded(files, content, skip_invalid_size_inputs_valid_test=True)
    assert len(skipped[1]) == 2
