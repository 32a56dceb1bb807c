"""The super-resolution recipe's modules: pictures to text and back, the table, the picture."""

import pathlib
import sys

import numpy as np
import pytest

REPO = pathlib.Path(__file__).resolve().parents[2]
FOLDER = REPO / "scripts" / "superresolution"
sys.path.insert(0, str(FOLDER))

import images  # noqa: E402
import results  # noqa: E402


def test_a_picture_survives_its_text():
    picture = np.random.default_rng(1).integers(0, 256, (8, 8)).astype(np.uint8)
    assert (results.picture_of(images.line(picture).split()) == picture).all()
    with pytest.raises(ValueError, match="5 pixels are no square"):
        results.picture_of(["1"] * 5)
    assert results.picture_of(["<unk>", "7", "300", "0"]).tolist() == [[0, 7], [255, 0]]


def write_result(folder, name, pictures, originals, accepted):
    rows = []
    for number, picture in enumerate(pictures):
        low = images.shrink(originals[number], 4)
        rows += [f"S-{number}\t{images.line(low)}", f"T-{number}\t{images.line(originals[number])}"]
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
    results.write(tmp_path, tmp_path / "table")
    rows = [
        [cell.strip() for cell in row.split("|")] for row in capsys.readouterr().out.split("\n")
    ]
    assert ["", "1", "1.00 (138.1 dB)", "", "", "", ""] in rows
    assert ["", "4", "", "", "", "3.25 (90.1 dB)", ""] in rows
