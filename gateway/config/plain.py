"""Check that what an operator's code made of a cluster's settings can be kept.

Values may come from anywhere: a handler of options, a file, an environment that was
decoded with surrogates. What no store keeps, and no program can be started with, is
refused here with its name, rather than by some statement later.
"""

import math
from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, Final

from gateway.domain.config import ResolvedConfig
from gateway.domain.errors import RefusedOptions

_MOST_DEPTH: Final = 64
_MOST_INTEGER: Final = 2**63
# MAX_ARG_STRLEN of Linux, less the NUL: no word of a command and no NAME=value may
# be longer. Nothing else that a cluster is started with comes near it.
_MOST_BYTES: Final = 2**17 - 1
_SHOWN: Final = 100


def check_plain(config: ResolvedConfig) -> ResolvedConfig:
    """Return ``config`` if JSON, every store and every platform can hold it.

    Raises
    ------
    RefusedOptions
        Naming the setting, and the key or the place in it.
    """
    for field in fields(config):
        value = getattr(config, field.name)
        for path, problem in _find_problems(value, field.name, 0):
            raise RefusedOptions(f"{path} {problem}")
    for words in (config.scheduler_cmd, config.worker_cmd):
        for word in words or ():
            _check_length(word, "a word of the command")
    for name, text in config.environment.items():
        _check_length(f"{name}={text}", f"environment variable {_show(name)}")
    return config


def _find_problems(value: Any, path: str, depth: int) -> Iterator[tuple[str, str]]:  # noqa: ANN401 - whatever it is
    if depth > _MOST_DEPTH:
        yield path[:_SHOWN], f"is nested more than {_MOST_DEPTH} deep"
    elif isinstance(value, Mapping):
        for key, item in value.items():
            below = f"{path}[{_show(key)}]"
            problem = _find_fault(key) if isinstance(key, str) else "is no text"
            if problem:
                yield below, f"has a key that {problem}"
            yield from _find_problems(item, below, depth + 1)
    elif isinstance(value, list | tuple):
        for number, item in enumerate(value):
            yield from _find_problems(item, f"{path}[{number}]", depth + 1)
    elif problem := _find_fault(value):
        yield path, problem


def _find_fault(value: Any) -> str:  # noqa: ANN401 - whatever it is
    match value:
        case None | bool():
            return ""
        case str():
            return _find_fault_of_text(value)
        case int() if not -_MOST_INTEGER <= value < _MOST_INTEGER:
            return "is an integer of more than 64 bits"
        case float() if not math.isfinite(value):
            return f"must be a finite number, got {value}"
        case int() | float():
            return ""
        case _:
            return f"holds a {type(value).__name__}, which JSON cannot"


def _find_fault_of_text(text: str) -> str:
    if "\0" in text:
        return "holds a NUL character"
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"holds half a character (a surrogate) at {error.start}"
    return ""


def _check_length(text: str, what: str) -> None:
    size = len(text.encode())
    if size > _MOST_BYTES:
        raise RefusedOptions(
            f"{what} has {size} bytes; no program can be given more than {_MOST_BYTES}"
        )


def _show(key: object) -> str:
    """Return a key as it can be shown, and no more of it than helps."""
    return ascii(key)[:_SHOWN]
