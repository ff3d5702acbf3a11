"""Where a field stands in an object: steps, never a joined text.

A joined text would let the label ``team.x`` pass for ``x`` inside ``team``.
"""

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

_PLAIN: Final = re.compile(r"\$?[A-Za-z_][A-Za-z0-9_-]*\Z")
_DEFAULTS: Final = {"protocol": "TCP"}


class Item(NamedTuple):
    """A step to the item of a list that has these values.

    Parameters
    ----------
    pairs
        Names of the fields that tell items apart, with their values.
    """

    pairs: tuple[tuple[str, Any], ...]


class ItemPattern(NamedTuple):
    """A step of a rule to each item whose values match these globs."""

    pairs: tuple[tuple[str, str], ...]


Step = str | int | Item
Path = tuple[Step, ...]
RuleStep = str | ItemPattern
Rule = tuple[RuleStep, ...]


def identify(item: object, identity: Sequence[str]) -> Item | None:
    """Return the step to ``item``; ``None`` if it lacks what tells it apart.

    Examples
    --------
    >>> identify({"port": 80}, ("port", "protocol"))
    Item(pairs=(('port', 80), ('protocol', 'TCP')))
    """
    if not isinstance(item, Mapping):
        return None
    pairs = tuple((name, item.get(name, _DEFAULTS.get(name))) for name in identity)
    if any(not isinstance(value, str | int) for _, value in pairs):
        return None
    return Item(pairs)


def format_path(path: Sequence[Step]) -> str:
    """Return a path as people read it.

    Examples
    --------
    >>> format_path(("spec", "containers", Item((("name", "web"),)), "args"))
    'spec.containers[web].args'
    >>> format_path(("metadata", "labels", "team.x/y"))
    'metadata.labels[team.x/y]'
    """
    text = ""
    for step in path:
        if isinstance(step, Item):
            text += f"[{'/'.join(str(value) for _, value in step.pairs)}]"
        elif isinstance(step, str) and _PLAIN.match(step):
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return text


def format_rule(rule: Rule) -> str:
    """Return a rule as people read it.

    Examples
    --------
    >>> format_rule(("spec", "env", ItemPattern((("name", "*"),)), "value"))
    'spec.env[name=*].value'
    """
    text = ""
    for step in rule:
        if isinstance(step, ItemPattern):
            text += f"[{','.join(f'{name}={glob}' for name, glob in step.pairs)}]"
        elif _PLAIN.match(step):
            text += f".{step}" if text else step
        else:
            text += f"[{step}]"
    return text


def has_match(glob: str, text: str) -> bool:
    """Return whether the whole of ``text`` matches; ``*`` and ``?`` are wild.

    Examples
    --------
    >>> has_match("dask-worker-*", "dask-worker-7"), has_match("dask-worker", "dask")
    (True, False)
    """
    return _compile(glob).match(text) is not None


def is_covered(path: Path, rule: Rule) -> bool:
    """Return whether ``path`` is what ``rule`` names, or lies within it."""
    return len(path) >= len(rule) and all(map(_is_step, path, rule))


def _is_step(step: Step, pattern: RuleStep) -> bool:
    if isinstance(pattern, str):
        return isinstance(step, str) and has_match(pattern, step)
    if not isinstance(step, Item):
        return False
    found = dict(step.pairs)
    return all(
        name in found and has_match(glob, str(found[name]))
        for name, glob in pattern.pairs
    )


@lru_cache(maxsize=1024)
def _compile(glob: str) -> re.Pattern[str]:
    # Runs of stars would make matching slow, and mean no more than one.
    parts = re.findall(r"\*+|\?|[^*?]+", glob)
    wild = {"*": ".*", "?": "."}
    body = "".join(wild.get(part[0], re.escape(part)) for part in parts)
    return re.compile(rf"(?s:{body})\Z")
