"""A site's file, loaded as the gateway loads it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from gateway.config.application import DaskGateway
from gateway.config.check import check_config
from gateway.config.dropin import peer_names
from gateway.config.loader import LoadedConfig, load_config

FILES = Path(__file__).parent / "files"


@dataclass(frozen=True)
class Site:
    """A loaded file with what the check found."""

    loaded: LoadedConfig
    application: DaskGateway
    warnings: list[str]


@pytest.fixture(autouse=True)
def _names() -> Iterator[None]:
    with peer_names():
        yield


@pytest.fixture
def load_site(tmp_path: Path) -> Callable[[str | Path], Site]:
    """Load a file of ``files/`` by name, or a text, without any error."""

    def load(source: str | Path) -> Site:
        path = FILES / source if isinstance(source, Path) else tmp_path / "config.py"
        if isinstance(source, str):
            path.write_text(source)
        loaded = load_config(path)
        loaded.config.DaskGateway.data_directory = str(tmp_path / "data")
        checked = check_config(loaded)
        errors = [p.format() for p in checked.problems if p.is_error(strict=False)]
        assert errors == []
        assert checked.application is not None
        warnings = [p.format().partition(": ")[2] for p in checked.problems]
        short = [text.removeprefix(f"{path.parent}/") for text in warnings]
        return Site(loaded, checked.application, short)

    return load
