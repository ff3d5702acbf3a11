"""Each module imports alone, and a plain install needs no backend's packages."""

import os
import subprocess
import sys
from collections.abc import Iterable

import pytest

from tests.support.sources import ROOT, module_names

pytestmark = pytest.mark.timeout(600)  # some hundred modules, on a loaded machine

# What only an extra brings; the top-level modules of those packages.
EXTRAS = ("sqlalchemy", "alembic", "aiosqlite", "asyncpg", "distributed", "dask")
EXTRAS += ("bokeh", "dask_gateway", "kubernetes_asyncio")

# Modules of `gateway` that run only where an extra is.
NEED_AN_EXTRA = {
    "gateway.scheduler_plugin",  # runs inside a Dask scheduler
}

# Forks for each module, so that an earlier import hides no cycle. Packages of
# others are loaded before: they are most of the time and none of the question.
IMPORT_EACH = """
import gc, importlib, os, sys, tempfile, traceback

def in_child(work):
    pid = os.fork()
    if pid == 0:
        try:
            work()
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitpid(pid, 0)[1] == 0

def tell_others():
    for name in names:
        importlib.import_module(name)
    ours = {"gateway", "backends", "__main__"}
    others = [m for m in sys.modules if m.partition(".")[0] not in ours]
    told.write(" ".join(others))
    told.flush()

names = sys.argv[1:]
told = tempfile.TemporaryFile("w+")
if not in_child(tell_others):
    sys.exit("cannot be imported together")
told.seek(0)
for other in told.read().split():
    try:
        importlib.import_module(other)
    except ImportError:
        pass  # made at run time by its package
told.close()
gc.freeze()
failed = [
    name for name in names if not in_child(lambda: importlib.import_module(name))
]
sys.exit(f"cannot be imported alone: {failed}" if failed else 0)
"""

REFUSE = """
import sys
class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {extras!r}:
            raise ModuleNotFoundError(f"{{name}} comes with an extra", name=name)
sys.meta_path.insert(0, Refuse())
"""


def run(code: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code, *arguments],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )


def import_errors(modules: Iterable[str], prelude: str = "") -> str:
    return run(prelude + IMPORT_EACH, *modules).stderr


def test_each_module_imports_alone() -> None:
    assert import_errors(module_names()) == ""


def test_a_plain_install_imports_the_gateway_without_any_extra() -> None:
    modules = [
        name
        for name in module_names()
        if name.partition(".")[0] == "gateway" and name not in NEED_AN_EXTRA
    ]

    errors = import_errors(modules, REFUSE.format(extras=EXTRAS))

    assert errors == ""


@pytest.mark.parametrize("arguments", [["--help"], ["generate-config", "--help"]])
def test_a_plain_install_answers_on_the_command_line(arguments: list[str]) -> None:
    code = "import runpy; runpy.run_module('gateway', run_name='__main__')"

    answer = run(REFUSE.format(extras=EXTRAS) + code, *arguments)

    assert (answer.returncode, answer.stderr) == (0, "")
    assert "usage:" in answer.stdout.lower()
