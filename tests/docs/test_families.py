"""The lines of docs/models.md that write NLLB's dictionary."""

import re
import subprocess

from doc_pages import ROOT, text_of
from fairseq.data import Dictionary

WORDS, LANGUAGES = 255997, 202
TAGS = ["<MINED_DATA>", "<MMT_BT_DATA>", "<SMT_BT_DATA>"]


def test_nllbs_dictionary_has_the_models_size_and_order(tmp_path):
    page = text_of(ROOT / "docs" / "models.md")
    code = re.search(r"```text\n(sed .*?)```", page, re.S).group(1)
    (tmp_path / "dictionary.txt").write_text("".join(f"t{i} 1\n" for i in range(WORDS)))
    (tmp_path / "nllb.langs.txt").write_text("".join(f"l{i}_Latn\n" for i in range(LANGUAGES)))
    subprocess.run(["bash", "-ec", code], cwd=str(tmp_path), check=True)
    made = Dictionary.load(str(tmp_path / "nllb.dict.txt"))
    assert len(made) == 256206
    assert made.symbols[-3:] == TAGS
    assert made.symbols[-4] == "__l201_Latn__" and made.index("__l0_Latn__") == 4 + WORDS
