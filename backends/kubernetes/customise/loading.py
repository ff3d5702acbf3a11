"""Text of patches into plain values, strictly: what it says is what is meant.

JSON, or the part of YAML that reads the same to everyone: ``true``, ``false``,
``null`` and plain decimal numbers are what they look like, everything else is a
text. Nothing here knows what a patch is.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

# Larger than any list of 64 patches of 16 KiB may be; a ConfigMap has 1 MiB.
MOST_TEXT: Final = 1024 * 1024
MOST_DEPTH: Final = 32

_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,18})(?P<part>\.[0-9]{1,15})?\Z")
_PLAIN: Final[Mapping[str, Any]] = {"true": True, "false": False, "null": None}
_INTEGERS: Final = range(-(2**63), 2**63)
# Parsing again takes a second for each 64 KiB.
_MOST_LINES_TEXT: Final = 64 * 1024
_TOO_DEEP: Final = f"must not be deeper than {MOST_DEPTH} levels"
_NO_ALIAS: Final = "anchors, aliases and merge keys are not read: write it out"

Path = tuple[str | int, ...]


class LoadProblem(Exception):
    """A text that is not read.

    Parameters
    ----------
    text
        What is wrong, and what would be right.
    path
        Of the value.
    line
        From 1; ``None`` where it is not known.
    """

    def __init__(self, text: str, path: Path = (), line: int | None = None) -> None:
        super().__init__(text)
        self.text = text
        self.path = path
        self.line = line


@dataclass(frozen=True, slots=True)
class Document:
    """What a text says.

    Parameters
    ----------
    value
        Plain JSON.
    lines
        On which line each value begins, from 1; may lack some.
    """

    value: Any = field(repr=False)
    lines: Mapping[Path, int] = field(default_factory=dict, repr=False)

    def find_line(self, path: Sequence[Any]) -> int | None:
        """Return the line of a value, or of the nearest one that holds it."""
        for end in range(len(path), -1, -1):
            if tuple(path[:end]) in self.lines:
                return self.lines[tuple(path[:end])]
        return None


def load_document(text: str, *, most: int = MOST_TEXT) -> Document:
    r"""Return what ``text`` says.

    Parameters
    ----------
    most
        Largest size, in bytes of UTF-8.

    Raises
    ------
    LoadProblem
        If it is neither JSON nor of our part of YAML, or beyond the bounds.

    Examples
    --------
    >>> load_document("a: 0777\nb: [1.5, on, null]").value
    {'a': '0777', 'b': [1.5, 'on', None]}
    """
    size = len(text.encode("utf-8", "surrogatepass"))
    if size > most:
        raise LoadProblem(
            f"must not have more than {most // 1024} KiB, has {size} bytes"
        )
    if text.lstrip().startswith(("{", "[")):
        found = _load_json(text)
        if found is not None:
            return found
    return _load_yaml(text)


def check_value(value: Any, path: Path = ()) -> None:  # noqa: ANN401 - anything
    """Refuse what JSON does not have, or what is too deep.

    Raises
    ------
    LoadProblem
        With the path of the first such value.
    """
    if len(path) > MOST_DEPTH:
        raise LoadProblem(_TOO_DEEP, path[:MOST_DEPTH])
    if isinstance(value, dict):
        for key, inner in value.items():
            if not isinstance(key, str):
                raise LoadProblem("names must be texts: quote them", path)
            _check_text(key, path, None)
            check_value(inner, (*path, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            check_value(inner, (*path, index))
    else:
        _check_scalar(value, path)


def _check_scalar(value: object, path: Path) -> None:
    if isinstance(value, str):
        _check_text(value, path, None)
    elif isinstance(value, int) and value not in _INTEGERS:
        raise LoadProblem("is no 64-bit integer", path)
    elif not isinstance(value, str | int | float | None):
        raise LoadProblem(
            "must be a map, list, text, number, true, false or null", path
        )
    elif isinstance(value, float) and not abs(value) < 2**63:
        raise LoadProblem("is too large a number", path)


def _check_text(text: str, path: Path, line: int | None) -> None:
    if "\0" in text or any("\ud800" <= letter <= "\udfff" for letter in text):
        raise LoadProblem("holds a character that is none", path, line)


def _load_json(text: str) -> Document | None:
    """Return ``None`` for what is no JSON: it may still be YAML."""
    try:
        value = json.loads(
            text,
            object_pairs_hook=_take_pairs,
            parse_float=_take_float,
            parse_int=_take_integer,
            parse_constant=_take_float,
        )
    except json.JSONDecodeError:
        return None
    except RecursionError as error:
        raise LoadProblem(_TOO_DEEP) from error
    check_value(value)
    return Document(value, _find_lines(text))


def _find_lines(text: str) -> Mapping[Path, int]:
    """Return the lines of JSON as YAML has them; YAML does not take all of it."""
    if "\n" in text and len(text) <= _MOST_LINES_TEXT:
        try:
            return _load_yaml(text).lines
        except LoadProblem:
            pass
    return {(): 1}


def _take_pairs(pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    taken: dict[str, Any] = {}
    for key, value in pairs:
        if key in taken:
            raise LoadProblem(f"{key!r:.60} stands twice in one map", (key,))
        taken[key] = value
    return taken


def _take_float(text: str) -> float:
    if _NUMBER.match(text) is None:
        raise LoadProblem(f"{text:.40} must be a plain decimal, or quoted")
    return float(text)


def _take_integer(text: str) -> int:
    if _NUMBER.match(text) is None:
        raise LoadProblem(f"{text:.40} is no 64-bit integer: quote it if it is a text")
    return int(text)


def _load_yaml(text: str) -> Document:
    try:
        events = list(_read_events(text))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        line = None if mark is None else mark.line + 1
        why = getattr(error, "problem", None) or "a character is not allowed"
        raise LoadProblem(f"is neither JSON nor YAML: {why}", line=line) from error
    reader = _Reader(iter(events))
    value = reader.read_document()
    return Document(value, reader.lines)


def _read_events(text: str) -> Iterator[yaml.Event]:
    """Yield the events of a text; ends where it gets too deep."""
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > MOST_DEPTH:
            raise LoadProblem(_TOO_DEEP, line=_line(event))
        yield event


class _Reader:
    """Makes values of events; one level of recursion for each level of the text."""

    def __init__(self, events: Iterator[yaml.Event]) -> None:
        self._events = events
        self.lines: dict[Path, int] = {}

    def read_document(self) -> Any:  # noqa: ANN401 - any JSON
        next(self._events)  # the stream begins
        event = next(self._events)
        if not isinstance(event, yaml.DocumentStartEvent):
            raise LoadProblem("is empty")
        if event.tags or event.version:
            raise LoadProblem("directives are not read", line=_line(event))
        value = self._read(next(self._events), ())
        next(self._events)  # the document ends
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise LoadProblem("must be one document", line=_line(event))
        return value

    def _read(self, event: Any, path: Path) -> Any:  # noqa: ANN401 - any event, any JSON
        line = self.lines[path] = _line(event)
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise LoadProblem(_NO_ALIAS, path, line)
        if event.tag is not None:
            raise LoadProblem("tags are not read: quote what is a text", path, line)
        if isinstance(event, yaml.SequenceStartEvent):
            return self._read_list(path)
        if isinstance(event, yaml.MappingStartEvent):
            return self._read_map(path)
        return _take_scalar(event, path, line)

    def _read_list(self, path: Path) -> list[Any]:
        found: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            found.append(self._read(event, (*path, len(found))))
        return found

    def _read_map(self, path: Path) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            line = _line(event)
            key = self._read_key(event, path, line)
            if key in found:
                raise LoadProblem(
                    f"{key!r:.60} stands twice in one map", (*path, key), line
                )
            found[key] = self._read(next(self._events), (*path, key))
            self.lines[(*path, key)] = line
        return found

    def _read_key(self, event: yaml.Event, path: Path, line: int) -> str:
        if not isinstance(event, yaml.ScalarEvent):
            raise LoadProblem("names must be texts", path, line)
        if event.anchor is not None or (not event.style and event.value == "<<"):
            raise LoadProblem(_NO_ALIAS, path, line)
        key = None if event.tag else _take_scalar(event, path, line)
        if not isinstance(key, str):
            raise LoadProblem(f"name {event.value:.40} must be quoted", path, line)
        return key


def _take_scalar(event: yaml.ScalarEvent, path: Path, line: int) -> Any:  # noqa: ANN401 - any scalar
    text = event.value
    _check_text(text, path, line)
    if event.style:
        return text
    if not text:
        raise LoadProblem("has no value: write null, or quotes", path, line)
    if text in _PLAIN:
        return _PLAIN[text]
    found = _NUMBER.match(text)
    if found is None:
        return text
    if found["part"]:
        return float(text)
    if int(text) not in _INTEGERS:
        raise LoadProblem("is no 64-bit integer: quote it if it is a text", path, line)
    return int(text)


def _line(event: Any) -> int:  # noqa: ANN401 - an event; its type has no mark
    return int(event.start_mark.line) + 1
