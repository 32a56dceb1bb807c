"""``specdec-convert hf`` beside transformers itself: logits, texts, tokens; models of each family
that are trained here for seconds."""

import random
import shutil
import unicodedata

import pytest

pytest.importorskip("transformers")
pytest.importorskip("sentencepiece")
pytest.importorskip("tokenizers")
import hf_models  # noqa: E402

from fairseq_specdec.conversion.hf.convert import convert  # noqa: E402
from fairseq_specdec.hub import SpeculativeTranslator  # noqa: E402
from fairseq_specdec.hub.text import is_visible  # noqa: E402

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]
# Where combining, joining, spacing, wide, tagged and control characters are.
BLOCKS = [
    (0x00, 0x1F), (0x20, 0x7E), (0x7F, 0x9F), (0xA0, 0x24F), (0x300, 0x36F), (0x370, 0x4FF),
    (0x590, 0x6FF), (0x900, 0x97F), (0xE00, 0xE7F), (0x1100, 0x11FF), (0x1E00, 0x1EFF),
    (0x2000, 0x20CF), (0x2100, 0x214F), (0x2460, 0x24FF), (0x3000, 0x30FF), (0x3300, 0x33FF),
    (0x4E00, 0x9FFF), (0xAC00, 0xD7A3), (0xFB00, 0xFB4F), (0xFE00, 0xFE2F), (0xFF00, 0xFFEF),
    (0x1D400, 0x1D7FF), (0x1F300, 0x1FAFF), (0xE0000, 0xE007F),
]  # fmt: skip
SPECIAL = [
    "</s>", "<s>", "<pad>", "<unk>", "<mask>", ">>fra<<", "__de__", "deu_Latn", "de_DE", ">>",
]  # fmt: skip


def odd_lines(count, seed=1):
    """Words of the models' language among odd characters and special tokens."""
    rng, words, lines = random.Random(seed), hf_models.vocabulary(), []
    for _ in range(count):
        line = ""
        for _ in range(rng.randint(1, 12)):
            low, high = rng.choice(BLOCKS)
            odd = "".join(chr(rng.randint(low, high)) for _ in range(rng.randint(1, 6)))
            word = rng.choice(words) if rng.random() < 0.55 else odd
            line += rng.choice(SPECIAL) if rng.random() < 0.03 else word
            line += rng.choice([" ", " ", " ", "", "  ", "\t", "\u00a0", "\u3000"])
        if rng.random() < 0.2:
            line = unicodedata.normalize(rng.choice(["NFD", "NFKD", "NFC"]), line)
        lines.append(line)
    return lines


@pytest.fixture(scope="module", params=hf_models.FAMILIES)
def family(request, tmp_path_factory):
    """(name, folder, model, tokenizer, languages), trained."""
    folder = tmp_path_factory.mktemp(request.param)
    return (request.param, folder, *hf_models.made(request.param, folder))


def loaded(folder, out, languages, **more):
    shutil.rmtree(out, ignore_errors=True)
    convert(str(folder), str(out), None, None, False)
    source, target = languages
    return SpeculativeTranslator.from_pretrained(
        out, source_lang=source, target_lang=target, device="cpu", **more
    )


def texts(translator, sources):
    return list(map(str, translator.translate(sources)))


def test_text_and_both_backends(family, tmp_path):
    _, folder, model, tokenizer, languages = family
    sources = hf_models.sentences(60)
    if family[0].startswith("marian"):
        sources += ["lu <pad> mafu.", "<pad>lu mafu <pad>."]
    wanted = hf_models.generated(model, tokenizer, languages, sources)
    assert len(set(wanted)) > 6
    for backend in ("native", "torch"):
        translator = loaded(folder, tmp_path / "out", languages, backend=backend)
        assert texts(translator, sources) == wanted, backend


def _order(size, tokenizer, name):
    """transformers' ids by fairseq's index, of a dictionary of so many words."""
    if not name.startswith("marian"):
        return list(range(size))
    encoder = tokenizer.encoder
    first = [-1, encoder["<pad>"], encoder["</s>"], encoder["<unk>"]]
    return first + [i for i in range(size - 1) if i not in first]


@pytest.mark.parametrize("files", ["all", "tokenizer.json"])
def test_tokens_of_10000_odd_lines(family, tmp_path, files):
    name, folder, _, tokenizer, languages = family
    if files != "all":
        if not (folder / "tokenizer.json").is_file():
            pytest.skip("transformers writes no tokenizer.json of this family")
        folder = shutil.copytree(folder, tmp_path / "copy")
        for other in ("sentencepiece.bpe.model", "vocab.json", "merges.txt"):
            (folder / other).unlink(missing_ok=True)
    codec = loaded(folder, tmp_path / "out", languages).codec
    order = {
        int(i): at for at, i in enumerate(_order(len(codec.src_dict), tokenizer, name)) if i >= 0
    }
    if name.startswith("marian"):  # the text's own is attended to
        order[tokenizer.encoder["<pad>"]] = 0
    differ = []
    for line in odd_lines(10_000):
        theirs = [order[i] for i in tokenizer(line)["input_ids"]]
        if is_visible(line) and codec.encode(line) != theirs:
            differ.append(line)
    assert not differ, (len(differ), differ[:3])
