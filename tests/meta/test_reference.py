"""The reference says what the code says."""

import runpy

import pytest

from tests.support.sources import ROOT

TOOL = runpy.run_path(str(ROOT / "tools/reference.py"))
DOCUMENTS = TOOL["build_documents"]()


@pytest.mark.parametrize("path", DOCUMENTS)
def test_the_reference_is_not_stale(path: str) -> None:
    written = (ROOT / path).read_text(encoding="utf-8")

    assert written == DOCUMENTS[path], "stale: type `make reference`"
