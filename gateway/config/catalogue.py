"""All classes that a file can configure, as documents list them."""

import inspect
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from traitlets import (
    Bool,
    Dict,
    Enum,
    Integer,
    List,
    Set,
    TraitType,
    Undefined,
    Unicode,
    Union,
)
from traitlets.config import Configurable

from gateway.config.peer import MissingPeerName, load_name
from gateway.config.policy import UserPolicy
from gateway.config.traits import (
    Address,
    Command,
    LogLevel,
    MemoryLimit,
    Seconds,
    Type,
)

# In the order of documents: module below the peer's package and class there.
_PEER_CLASSES: Final = (
    ("app", "DaskGateway"),
    ("proxy", "Proxy"),
    ("auth", "Authenticator"),
    ("auth", "SimpleAuthenticator"),
    ("backends.base", "Backend"),
    ("backends.db_base", "DBBackendBase"),
    ("backends.local", "LocalBackend"),
    ("backends.local", "UnsafeLocalBackend"),
    ("backends.kubernetes", "KubeBackend"),
    ("backends.kubernetes", "KubeController"),
    ("backends.base", "ClusterConfig"),
    ("backends.local", "LocalClusterConfig"),
    ("backends.kubernetes", "KubeClusterConfig"),
)
# For people; the first that fits. Others say it themselves.
_TYPES: Final[Mapping[type, str]] = {
    Union: "an `Options`, or a function",
    Type: "a class, or a text that names one",
    Command: "a list of texts, or one text",
    List: "a list",
    Set: "a set",
    Dict: "a mapping",
    Bool: "True or False",
    MemoryLimit: "an amount of memory",
    Integer: "a whole number",
    Seconds: "a number of seconds, at least 0",
    LogLevel: "a level",
    Address: "an address",
    Unicode: "a text",
}
_NOT_DOCUMENTED: Final = frozenset({"log", "parent", "config"})


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting of one section.

    Parameters
    ----------
    section, name
        As in ``c.section.name``.
    help
        Paragraphs, without indentation.
    default
        As Python; "" if the help says what it is.
    type
        What values are, for people.
    """

    section: str
    name: str
    help: str
    default: str
    type: str


@dataclass(frozen=True, slots=True)
class SectionDocument:
    """One class with the settings that it adds to its bases."""

    name: str
    summary: str
    bases: tuple[str, ...]
    settings: tuple[Setting, ...]


def find_documented_classes() -> list[type[Configurable]]:
    """Return all configurable classes whose extras are installed."""
    found: list[type[Configurable]] = []
    for module, name in _PEER_CLASSES:
        try:
            found.append(load_name(module, name))
        except MissingPeerName:
            raise
        except ImportError:
            continue  # an extra that is not installed
    return [*found, UserPolicy]


def describe_sections() -> list[SectionDocument]:
    """Return all sections with their settings."""
    classes = find_documented_classes()
    documented = {cls.__name__ for cls in classes}
    return [_describe(cls, documented) for cls in classes]


def _describe(cls: type[Configurable], documented: set[str]) -> SectionDocument:
    name = cls.__name__
    bases = [b.__name__ for b in cls.__mro__[1:] if issubclass(b, Configurable)]
    return SectionDocument(
        name=name,
        summary=inspect.getdoc(cls).split("\n\n")[0].replace("\n", " "),  # type: ignore[union-attr]  # every class of ours has one
        bases=tuple(base for base in bases if base in documented),
        settings=tuple(_describe_settings(cls, name, documented)),
    )


def _describe_settings(
    cls: type[Configurable], section: str, documented: set[str]
) -> Iterator[Setting]:
    inherited: dict[str, Any] = {}
    for base in cls.__mro__[1:]:
        # What no document has a section for is told where it is used.
        if issubclass(base, Configurable) and base.__name__ in documented:
            inherited = base.class_traits(config=True) | inherited
    for name, trait in sorted(cls.class_traits(config=True).items()):
        if name in _NOT_DOCUMENTED or inherited.get(name) is trait:
            continue
        yield Setting(
            section=section,
            name=name,
            help=_clean(trait.help),
            default=_format_default(trait),
            type=_format_type(trait),
        )


def _clean(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", inspect.cleandoc(text).strip())
    return "\n\n".join(" ".join(p.split()) for p in paragraphs)


def _format_default(trait: TraitType[Any, Any]) -> str:
    value = trait.default()
    # The value then is a stand-in for what the help says.
    is_told = "By default" in trait.help and not isinstance(value, bool)
    return "" if is_told or value is Undefined else repr(value)


def _format_type(trait: TraitType[Any, Any]) -> str:
    if isinstance(trait, Enum):
        text = "one of " + ", ".join(repr(value) for value in trait.values or ())
    else:
        texts = (text for cls, text in _TYPES.items() if isinstance(trait, cls))
        text = next(texts, trait.info_text)
    return f"{text}, or None" if trait.allow_none else text
