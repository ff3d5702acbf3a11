"""Fields of what was loaded, each with a type; all problems of a map together."""

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from backends.kubernetes.customise.loading import LoadProblem, Path

T = TypeVar("T")
D = TypeVar("D")
Read = Callable[[Any, Path], T]

_LABEL_NAME: Final = re.compile(
    r"([a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?/)?[A-Za-z0-9]([-\w.]{0,61}[A-Za-z0-9])?\Z",
    re.ASCII,
)
_MOST_GLOBS: Final = 256


class Fields:
    """A map whose fields are taken out one by one.

    Parameters
    ----------
    value
        Anything; a problem if it is no map.
    path
        Where it stands.

    Attributes
    ----------
    problems
        Found so far.
    """

    def __init__(self, value: Any, path: Path) -> None:  # noqa: ANN401 - anything
        self.problems: list[LoadProblem] = []
        self._path = path
        self._rest: dict[str, Any] = {}
        if isinstance(value, Mapping):
            self._rest = dict(value)
        else:
            self.problems.append(LoadProblem("must be a map", path))

    def take(self, name: str, read: Read[T], *, default: D) -> T | D:
        """Return a field as ``read`` makes it; the default if it is missing."""
        if name not in self._rest:
            return default
        try:
            return read(self._rest.pop(name), (*self._path, name))
        except LoadProblem as problem:
            self.problems.append(problem)
            return default

    def require(self, *names: str) -> None:
        """Note each of ``names`` that is missing; before any field is taken."""
        if self.problems:
            return
        for name in names:
            if name not in self._rest:
                self.problems.append(LoadProblem("is missing", (*self._path, name)))

    def finish(self) -> None:
        """Note each field that nobody took."""
        for name in self._rest:
            text = "is no field; look for a spelling mistake"
            self.problems.append(LoadProblem(text, (*self._path, name)))


def read_text(value: Any, path: Path) -> str:  # noqa: ANN401 - anything
    """Return a text that is not empty."""
    if not isinstance(value, str) or not value:
        raise LoadProblem("must be a text", path)
    return value


def read_flag(value: Any, path: Path) -> bool:  # noqa: ANN401 - anything
    """Return a truth value."""
    if not isinstance(value, bool):
        raise LoadProblem("must be true or false", path)
    return value


def read_order(value: Any, path: Path) -> int:  # noqa: ANN401 - anything
    """Return an integer of at most six digits."""
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) >= 10**6:
        raise LoadProblem("must be an integer of at most six digits", path)
    return value


def read_texts(value: Any, path: Path) -> tuple[str, ...]:  # noqa: ANN401 - anything
    """Return a list of texts, at least one."""
    items = read_list(value, path)
    return tuple(read_text(item, (*path, i)) for i, item in enumerate(items))


def read_list(value: Any, path: Path) -> list[Any]:  # noqa: ANN401 - anything
    """Return a list, with at least one item."""
    if not isinstance(value, list | tuple) or not 0 < len(value) <= _MOST_GLOBS:
        text = f"must be a list, with 1 to {_MOST_GLOBS} items"
        raise LoadProblem(text, path)
    return list(value)


def read_labels(value: Any, path: Path) -> dict[str, str]:  # noqa: ANN401 - anything
    """Return labels, at least one."""
    if not isinstance(value, Mapping) or not value:
        raise LoadProblem("must be a map of labels, with at least one", path)
    for name, label in value.items():
        read_label_name(name, (*path, name))
        if not isinstance(label, str):
            raise LoadProblem("must be a text", (*path, name))
    return dict(value)


def read_label_name(value: Any, path: Path) -> str:  # noqa: ANN401 - anything
    """Return the name of a label, with or without a prefix."""
    if not isinstance(value, str) or _LABEL_NAME.match(value) is None:
        raise LoadProblem("must be the name of a label", path)
    return value


def choose(names: type[T]) -> Read[T]:
    """Return what reads a member of an enumeration of texts."""

    def read(value: Any, path: Path) -> T:  # noqa: ANN401 - anything
        try:
            return names(value)  # type: ignore[call-arg]  # an enumeration
        except ValueError as error:
            known = ", ".join(map(str, names))  # type: ignore[call-overload]  # likewise
            raise LoadProblem(f"must be one of {known}", path) from error

    return read
