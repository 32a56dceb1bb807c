import json

from edit_ratio import write

LOG = """S-2\tFine .\nH-2\t-0.1\tx\nD-2\t-0.1\tFine .
S-0\tAs a result , people have more time to enjoy advantage of modern life .
D-0\t-0.1\tAs a result , people have more time to enjoy the advantages of modern life .\n"""


def test_figure_5_bins_the_speed_of_sentences_by_their_edit_ratio(tmp_path, capsys):
    run, log = tmp_path / "run", tmp_path / "log"
    log.write_text(LOG)  # Table 2 of the paper has ratios of 0 and 0.13
    times = {"fairseq beam 1": [30, 21], "greedy": [6, 9], "iad": [2, 4.5]}
    runs = [{"batch_size": 1, "sentences": [[2], [0]], "ms_by_batch": times}]
    run.write_text(json.dumps({"runs": runs}))
    write(run, log, tmp_path / "figure.md")
    rows = [line.replace("|", "").split() for line in capsys.readouterr().out.splitlines()[4:6]]
    assert [row[-8::4] for row in rows] == [["15.00", "3.00"], ["4.67", "2.00"]]
    assert [row[:-8] for row in rows] == [["0", "1"], ["to", "0.2", "1"]]
