"""The super-resolution recipe: pictures to text and back, the table."""

import numpy as np
from superresolution import images, steps


def test_a_low_picture_has_the_mean_of_each_square():
    picture = np.array([[0, 2, 9, 9], [4, 2, 9, 9], [1, 1, 5, 6], [1, 1, 7, 6]], dtype=np.uint8)
    low = [[2, 2, 9, 9], [2, 2, 9, 9], [1, 1, 6, 6], [1, 1, 6, 6]]
    assert images.lowered(picture, 2).tolist() == low
    text = f"T-3\t{images.line(picture)}\nH-4\t-0.5\t<unk> 7\n"
    assert steps.read_pictures(text, "T")[3].tolist() == picture.reshape(-1).tolist()
    assert steps.read_pictures(text, "H")[4].tolist() == [0, 7]


def write_result(folder, name, pictures, originals, accepted):
    rows = []
    for number, picture in enumerate(pictures):
        rows += [f"S-{number}\t1 2", f"T-{number}\t{images.line(originals[number])}"]
        rows.append(f"H-{number}\t-0.5\t{images.line(picture)}")
    (folder / f"{name}.out").write_text("\n".join(rows) + "\n")
    log = f"strategy x: 9 iterations (4.5 per sentence), {accepted} mean accepted tokens"
    (folder / f"{name}.log").write_text(log + "\n")


def test_the_table(tmp_path, capsys):
    rng = np.random.default_rng(5)
    originals = [rng.integers(0, 250, (8, 8)).astype(np.uint8) for _ in range(2)]
    other = [originals[0], originals[1] + 2]
    write_result(tmp_path, "regular_1", originals, originals, 1.0)
    write_result(tmp_path, "both_4", other, originals, 3.25)
    steps.write_table(tmp_path, tmp_path / "table")
    rows = [
        [cell.strip() for cell in row.split("|")] for row in capsys.readouterr().out.split("\n")
    ]
    assert ["", "1", "1.00 (138.1 dB)", "", "", "", ""] in rows
    assert ["", "4", "", "", "", "3.25 (90.1 dB)", ""] in rows
