"""fairseq-interactive on odd input: this project's task says what fairseq's own says."""

import pytest
from in_process import hypotheses, lines_of, run_here
from odd_lines import LINES
from toy_pair import write_pair

COMMON = {"source_lang": "src", "target_lang": "tgt", "beam": 1, "batch_size": 4, "buffer_size": 5}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_pair(tmp_path_factory.mktemp("odd"))


def decoded(files, content, **flags):
    """(source lines, hypotheses) for a file of these bytes."""
    path = files / "input.txt"
    path.write_bytes(content)
    given = {**COMMON, "path": files / "verifier.pt", "input": path, **flags}
    out, _ = run_here("interactive", files, **given)
    return lines_of("S", out), {number: words for number, (words, _, _) in hypotheses(out).items()}


def test_odd_lines_a_last_one_without_an_end_and_none_at_all(files):
    gad = {"strategy": "gad", "drafter_path": files / "drafter.pt"}
    odd = "".join(line + "\n" for line in LINES.values()).encode("utf-8", "replace")
    for content in (odd, b"w1 w2\nw3", b"", b"\n", b"\n\n\n"):
        ours = decoded(files, content, task="translation_specdec", **gad)
        assert ours == decoded(files, content, task="translation")
