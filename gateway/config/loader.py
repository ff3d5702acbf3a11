"""Run a configuration file, and remember where it sets what."""

import ast
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Final

from traitlets.config import Config

from gateway.domain.errors import ConfigError

# Looked for in this order where no file is named; the second is the peer's.
DEFAULT_FILES: Final = ("daskfleet_config.py", "dask_gateway_config.py")

# Classes of a file get this as their module, and find it among the modules.
_MODULE: Final = "__daskfleet_config__"


@dataclass(frozen=True, slots=True)
class LoadedConfig:
    """A configuration as its file made it.

    Parameters
    ----------
    path
        The file; ``None`` if there was none.
    config
        The very ``c`` of the file: what its functions write later is seen.
    lines
        ``file:line`` by section and name, where it could be found.
    """

    path: Path | None
    config: Config
    lines: Mapping[tuple[str, str], str] = field(default_factory=dict)


def load_config(path: Path | None) -> LoadedConfig:
    """Run the file ``path`` and return what it sets.

    Parameters
    ----------
    path
        ``None`` takes the first of `DEFAULT_FILES` in the working directory,
        and an empty configuration if there is none.

    Raises
    ------
    ConfigError
        If it is absent or fails, with file and line.
    """
    if path is None:
        path = next((p for n in DEFAULT_FILES if (p := Path(n)).is_file()), None)
    if path is None:
        return LoadedConfig(None, Config())
    run = _Run(Config(), {})
    run.execute(path)
    return LoadedConfig(path, run.config, run.lines)


@dataclass(frozen=True, slots=True)
class _Run:
    config: Config
    lines: dict[tuple[str, str], str]

    def execute(self, path: Path, *, is_main: bool = True) -> None:
        text = _read(path)
        try:
            tree = ast.parse(text, str(path))
            code = compile(tree, str(path), "exec")
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            # The last two: nested deeper than Python reads.
            line = getattr(error, "lineno", None) or 1
            text = str(error) or "nested too deeply"
            raise ConfigError([f"{path}:{line}: {text}"]) from error
        self.lines.update(_find_lines(tree, path))
        module = ModuleType(_MODULE)
        if is_main:
            sys.modules[_MODULE] = module
        names = module.__dict__
        names.update(
            __file__=str(path),
            c=self.config,
            get_config=lambda: self.config,
            load_subconfig=lambda name, *_: self.execute(
                path.parent / name, is_main=False
            ),
        )
        try:
            exec(code, names)  # noqa: S102 - the configuration is a program, by contract
        except (ConfigError, KeyboardInterrupt):
            raise
        except BaseException as error:  # an operator's program may fail in any way
            raise ConfigError([_describe(error, path)]) from error


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8")
    except FileNotFoundError:
        raise ConfigError(
            [f"{path}: no such file; `daskfleet generate-config` writes one"]
        ) from None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError([f"{path}: cannot be read: {error}"]) from error


def _describe(error: BaseException, path: Path) -> str:
    line = 1
    for frame in traceback.extract_tb(error.__traceback__):
        if frame.filename == str(path):
            line = frame.lineno or line
    kind = type(error).__name__
    try:
        words = str(error)
    except Exception:  # noqa: BLE001 - an error of the file's own
        words = ""
    text = f"{kind}: {words}" if words else kind
    return f"{path}:{line}: {words if isinstance(error, ImportError) else text}"


def _find_lines(tree: ast.AST, path: Path) -> dict[tuple[str, str], str]:
    """Return where ``c.Section.name`` is written, or else first named."""
    found: dict[tuple[str, str], tuple[bool, int]] = {}
    for node in ast.walk(tree):
        key = _parse_setting(node)
        if key is None:
            continue
        entry = (isinstance(getattr(node, "ctx", None), ast.Store), node.lineno)  # type: ignore[attr-defined]  # expressions have it
        found[key] = max(found.get(key, entry), entry)
    return {key: f"{path}:{line}" for key, (_, line) in found.items()}


def _parse_setting(node: ast.AST) -> tuple[str, str] | None:
    match node:
        case ast.Attribute(
            value=ast.Attribute(value=ast.Name(id="c"), attr=section), attr=name
        ):
            return section, name
        case _:
            return None
