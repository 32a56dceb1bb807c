"""Importing the package loads torch and fairseq when they are needed, and the plugin with them."""

import pytest

LIGHT = "import sys, {module}\nassert not {{'torch', 'fairseq', 'numpy'}} & set(sys.modules)\n"
REGISTERED = """
from fairseq.tasks import TASK_REGISTRY
from fairseq import checkpoint_utils
import fairseq_specdec.tasks.translation_specdec as own
assert TASK_REGISTRY["translation_specdec"] is own.TranslationSpecDecTask
assert hasattr(checkpoint_utils.load_model_ensemble_and_task, "_fairseq_specdec_fixes")
"""


@pytest.mark.parametrize("module", ["", ".hub", ".io.atomic", ".commands.start", ".commands.own"])
def test_an_import_is_light(run_python, module):
    assert run_python(LIGHT.format(module="fairseq_specdec" + module)) == ""


@pytest.mark.parametrize(
    "first",
    [
        "import fairseq_specdec\nimport fairseq",
        "import fairseq_specdec\nfrom fairseq.data import Dictionary",
        "import fairseq\nimport fairseq_specdec",
        "import fairseq_specdec.hub\nfairseq_specdec.hub.SpeculativeTranslator",
        "import fairseq_specdec\nfairseq_specdec.models",
        "import fairseq_specdec.engine.native.library",
    ],
)
def test_the_plugin_is_there_once_fairseq_is(run_python, first):
    run_python(first + REGISTERED)


@pytest.mark.parametrize("package", ["acceptance", "drafting", "hub.loading", "compat", "tasks"])
def test_no_module_is_run_twice(run_python, package):
    run_python(
        "import sys, runpy, importlib\n"
        f"name = 'fairseq_specdec.{package}'\n"
        "module = importlib.import_module(name)\n"
        "assert sys.modules[name] is module and module.__spec__.origin == module.__file__\n"
        "import fairseq_specdec\n"
        "from fairseq_specdec.acceptance import ExactRule\n"
        "from fairseq_specdec.decoding.strategies.base import ExactRule as other\n"
        "assert ExactRule is other\n"
        "attribute = fairseq_specdec\n"
        "for part in name.split('.')[1:]: attribute = getattr(attribute, part)\n"
        "assert attribute is module"
    )


def test_an_unknown_name_is_an_attribute_error(run_python):
    run_python(
        "import fairseq_specdec, fairseq_specdec.hub\n"
        "assert not hasattr(fairseq_specdec, 'task') and not hasattr(fairseq_specdec.hub, 'X')"
    )
