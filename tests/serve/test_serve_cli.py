"""The command line: addresses, models, and every decoding flag."""

import re
import socket

import pytest
from fairseq.dataclass.configs import GenerationConfig
from served import TEXTS, serving

from fairseq_specdec.config import SpecDecConfig
from fairseq_specdec.hub.flags import GENERATION, OWN
from fairseq_specdec.serve import cli, server

FLAGS = [name for name in (*GENERATION, *OWN) if not name.startswith("sampling")]
CONFIGS = [each.__dataclass_fields__ for each in (GenerationConfig, SpecDecConfig)]


def test_a_taken_port_is_refused_before_a_model_loads(capsys):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen(1)
        port = str(holder.getsockname()[1])
        with pytest.raises(SystemExit, match=f"--port {port}: Address already in use"):
            cli.cli_main(["nowhere.pt", "--port", port])


@pytest.mark.parametrize(
    "words, says",
    [
        (["--host", "192.0.2.1"], "--host 192.0.2.1 --port 0: Cannot assign"),
        (["--port", "65536"], "--port 65536: must be from 0 to 65535"),
        (["--sampling"], "unrecognized"),
        (["--path", "/nowhere/v.pt"], "--path: no such file"),
        (["/nowhere"], "MODEL: no such file"),
        (["PAIR", "--learn-vocabulary", "/no/list"], "--learn-vocabulary /no/list: no such dir"),
        (["PAIR", "--path", "PAIR", "--data", "x"], "--data x: .* is the data already"),
        (["--token-file", "/nowhere"], "/nowhere"),
        (["--config", "/nowhere.yaml"], "/nowhere.yaml"),
        (["--config", "x", "--beam", "2"], "--beam: with --config it is a field"),
        (["demo_ende", "--config", "x"], "--config: names the models"),
    ],
)
def test_mistakes_are_one_line(pair, words, says, capsys):
    words = [word.replace("PAIR", str(pair)) for word in words]
    with pytest.raises(SystemExit) as ended:
        cli.cli_main(["--port", "0", *words])
    message = str(ended.value) + capsys.readouterr().err
    assert re.search(says, message) and message.count("\n") <= 1


class LoadedError(Exception):
    """Has what a translator is made of."""


@pytest.fixture
def given(monkeypatch):
    """Makes of a command line what the translator is asked for: (arguments, named ones)."""

    def load(*arguments, **named):
        raise LoadedError(arguments, named)

    def parsed(*words):
        with pytest.raises(LoadedError) as ended:
            cli.start([*words, "--port", "0"])
        return ended.value.args

    monkeypatch.setattr(server.SpeculativeTranslator, "from_pretrained", load)
    return parsed


@pytest.mark.parametrize("name", FLAGS)
def test_every_decoding_flag_reaches_the_translator(given, name):
    """With its value, and only if it is given."""
    (field,) = (fields[name] for fields in CONFIGS if name in fields)
    choices = field.metadata.get("values")
    value = choices[-1] if isinstance(choices, tuple) else "1"
    words = [] if field.type is bool else [value]
    _, named = given("m.pt", "--" + name.replace("_", "-"), *words)
    assert str(named[name]) in ((value, "1.0") if words else ("True",))
    assert name not in given("m.pt")[1]


@pytest.mark.parametrize(
    "words, verifier, data",
    [
        ([], "demo_ende", None),
        (["demo_edit"], "demo_edit", None),
        (["m.pt", "--data", "d"], "m.pt", "d"),
        (["d", "--path", "a.pt:b.pt"], "a.pt:b.pt", "d"),
        (["--path", "m.pt"], "m.pt", None),
    ],
)
def test_a_model_is_named_as_in_python_or_as_in_fairseq(given, words, verifier, data):
    (named, drafter, folder), others = given(*words, "-s", "en", "--bpe", "none")
    assert (named, drafter, folder) == (verifier, None, data)
    assert (others["source_lang"], others["target_lang"]) == ("en", None)
    assert (others["bpe"], others["tokenizer"], others["strategy"]) == (None, "auto", None)


def test_what_answers_use_is_kept_for_the_next_start(pair, tmp_path):
    path, answers = tmp_path / "list", []
    words = ["--path", pair, "--strategy", "greedy", "--learn-vocabulary", path]
    for starts in range(2):
        with serving(*words) as client:
            assert (client.service.translator.generator.vocabulary is not None) == bool(starts)
            answers.append(client.translate(TEXTS)[1]["translatedText"])
        assert "</s>" in path.read_text(encoding="utf-8").split()
    assert answers[0] == answers[1]
