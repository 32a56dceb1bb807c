"""specdec-bench that is killed and goes on: every size measured once, no file half written."""

import json
import signal

import pytest
from killing import killed_at

WORDS = ["--system", "g: --strategy greedy", "--limit", 3, "--warmup", 0, "--batch-size"]
SURE = ("system", "tok", "iter", "bleu", "output_tokens", "identical_percent", "lossless")


def sure(result):
    """What does not depend on time."""
    return [
        (part["batch_size"], [{name: row[name] for name in SURE} for row in part["rows"]])
        for part in result["runs"]
    ]


def whole(folder):
    """The files of a run that was killed: absent or whole, and none under a final name else."""
    final = {path.name for path in folder.iterdir() if ".tmp-" not in path.name}
    assert final <= {"x.json", "x.md"}
    read = json.loads((folder / "x.json").read_text()) if "x.json" in final else {"runs": []}
    if "x.md" in final:
        tables = (folder / "x.md").read_text()
        sizes = [part["batch_size"] for part in read["runs"]]
        # Written after the JSON, so it may lack the last size.
        count = sum(f"sentences, batch {size}," in tables for size in sizes)
        assert count in (len(sizes), len(sizes) - 1) and tables.endswith("\n")
    return read["runs"]


@pytest.mark.parametrize(
    "how", [signal.SIGKILL, pytest.param(signal.SIGINT, marks=pytest.mark.slow)]
)
def test_killed_at_any_rename_and_resumed(how, bench, tmp_path):
    undisturbed, _ = bench(*WORDS, "1,2", "--json", tmp_path / "undisturbed.json")
    kills = 0
    while True:
        folder = tmp_path / f"out{kills}"
        folder.mkdir()
        files = ["--json", folder / "x.json", "--markdown", folder / "x.md"]
        if not killed_at(lambda files=files: bench(*WORDS, "1,2", *files), kills, how):
            break
        before = whole(folder)
        assert len(before) == (kills + 1) // 2
        if how == signal.SIGINT:
            assert not list(folder.glob("*.tmp-*"))
        result, printed = bench(*WORDS, "1,2", *files, "--resume")
        assert result["runs"][: len(before)] == before, "what was measured stands"
        assert sure(result) == sure(undisturbed)
        assert json.loads((folder / "x.json").read_text()) == result
        assert (folder / "x.md").read_text() == printed
        kills += 1
    assert kills == 4, "two files for each of two sizes"


def test_another_run_is_not_resumed(bench, tmp_path):
    path = tmp_path / "x.json"
    result, _ = bench(*WORDS, "1", "--json", path, "--resume")  # nothing before it
    assert "resumed" not in result["provenance"]
    again, _ = bench(*WORDS, "1", "--json", path, "--resume")
    assert again["runs"] == result["runs"] and len(again["provenance"]["resumed"]) == 1
    for more, why in ((["--repeats", 2], "command"), (["--threads", 2], "command, threads")):
        with pytest.raises(ValueError, match=f"another run \\({why} differ\\)"):
            bench(*WORDS, "1", *more, "--json", path, "--resume")
    for text in ("{", "[]", '{"runs": []}'):
        path.write_text(text)
        with pytest.raises(ValueError, match="x.json is no result of specdec-bench"):
            bench(*WORDS, "1", "--json", path, "--resume")
