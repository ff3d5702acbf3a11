"""Something wrong with a configuration, as one line for its author."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gateway.domain.errors import ConfigError
from gateway.domain.option_fields import cut_repr

_REPR_LIMIT: Final = 60
_SECRET_WORDS: Final = ("password", "token", "secret", "key", "db_url")


class Level(StrEnum):
    """How bad it is. `UNKNOWN` is an error only where names are taken strictly."""

    ERROR = "error"
    UNKNOWN = "unknown"
    WARNING = "warning"


@dataclass(frozen=True, slots=True)
class Problem:
    """One problem.

    Parameters
    ----------
    level
        How bad it is.
    setting
        ``Section.name``, or a section, or "" if it is about no setting.
    text
        What is wrong, and what to do.
    line
        ``file:line`` where it is set, if that is known.
    """

    level: Level
    setting: str
    text: str
    line: str | None = None

    def format(self, *, strict: bool = False) -> str:
        """Return the problem as one line."""
        level = "error" if self.is_error(strict=strict) else "warning"
        parts = (level, self.line, self.setting, " ".join(self.text.split()))
        return ": ".join(part for part in parts if part)

    def is_error(self, *, strict: bool = False) -> bool:
        """Return whether a gateway must not start with it."""
        return self.level is Level.ERROR or (strict and self.level is Level.UNKNOWN)


def refuse_errors(problems: Iterable[Problem], *, strict: bool) -> None:
    """Raise `ConfigError` with all errors among ``problems``, if there is one."""
    errors = [p.format(strict=strict) for p in problems if p.is_error(strict=strict)]
    if errors:
        raise ConfigError(errors)


def describe_bad_value(name: str, value: Any, error: Exception) -> str:  # noqa: ANN401 - any setting
    """Return what is wrong with a value; a secret is not repeated."""
    if any(word in name.lower() for word in _SECRET_WORDS):
        return f"is not valid ({type(value).__name__})"
    shown = cut_repr(value, limit=_REPR_LIMIT)
    text = str(error)
    return text if shown in text else f"{shown} is not valid: {text}"


def find_line(
    lines: Mapping[tuple[str, str], str], section: str, name: str
) -> str | None:
    """Return where ``c.section.name`` is set, if that is known."""
    return lines.get((section, name))
