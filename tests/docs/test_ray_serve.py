"""The deployment of docs/serving.md on Ray Serve: its answers are the Python interface's."""

import importlib
import json
import pathlib
import re
import socket
import sys
import urllib.request

import pytest

from fairseq_specdec.hub import SpeculativeTranslator

ray = pytest.importorskip("ray", reason="needs the extra ray")
serve = pytest.importorskip("ray.serve", reason="needs ray[serve]", exc_type=ImportError)
PAGE = pathlib.Path(__file__).parents[2] / "docs" / "serving.md"
TEXTS = ["Open the file.", "Click OK to close the dialog.", "Save."]


@pytest.fixture
def deployed(tmp_path, monkeypatch):
    """The page's module, run on a cluster of this machine; the address that it answers at."""
    (block,) = re.findall(r"```text\n(from ray import serve\n.*?)```", PAGE.read_text(), re.S)
    assert "num_replicas=4" in block and '"demo_ende"' in block
    data = PAGE.parents[1] / "data-bin" / "demo_ende"
    module = block.replace("num_replicas=4", "num_replicas=1").replace(
        '"demo_ende"', repr(str(data))
    )
    (tmp_path / "translate_page.py").write_text(module)
    monkeypatch.syspath_prepend(tmp_path)
    paths = {"PYTHONPATH": ":".join([str(tmp_path), *filter(None, sys.path)])}
    ray.init(
        num_cpus=2, include_dashboard=False, _node_ip_address="127.0.0.1",
        runtime_env={"env_vars": paths},
    )  # fmt: skip
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    serve.start(http_options={"host": "127.0.0.1", "port": port})
    serve.run(importlib.import_module("translate_page").app)
    yield f"http://127.0.0.1:{port}/"
    serve.shutdown()
    ray.shutdown()


def test_its_answers_are_those_of_the_python_interface(deployed):
    body = json.dumps({"q": TEXTS}).encode()
    with urllib.request.urlopen(deployed, data=body, timeout=60) as answer:
        reply = json.load(answer)
    translator = SpeculativeTranslator.from_pretrained("demo_ende")
    assert reply == {"translatedText": [result.text for result in translator.translate(TEXTS)]}
