"""Every variant of the native engine that this machine can run."""

import os
import shutil

import pytest

from fairseq_specdec.engine.native import library
from fairseq_specdec.engine.native.variants import VARIANTS

BUILD = "the native engine is not built: make native"


def variants_here():
    """The built ones that the processor has; [None] where there is none."""
    if not (library.FOLDER / library.PROBE).exists():
        return [None]
    objects = [each for each in library.supported() if (library.FOLDER / each.file).exists()]
    return [each.name for each in objects] or [None]


@pytest.fixture(scope="session")
def built():
    """A machine that could build the native engine but has not fails; one that cannot skips."""
    if variants_here() == [None]:
        compilers = [os.environ["CXX"].split()[0]] if os.environ.get("CXX") else ["c++", "g++"]
        if any(map(shutil.which, compilers)):
            pytest.fail(BUILD)
        pytest.skip("no C++ compiler, so no native engine")


@pytest.fixture(scope="session", params=variants_here(), ids=str)
def loaded(built, request):
    """A loaded variant."""
    (variant,) = [each for each in VARIANTS if each.name == request.param]
    return library.Library(library.FOLDER / variant.file)
