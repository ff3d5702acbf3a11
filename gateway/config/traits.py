"""Trait types of the configuration, with the peer's names and our checks."""

import math
from collections.abc import Callable as CallableABC
from typing import Any, Final

from traitlets import Callable, Float, Integer, List, TraitError, Unicode
from traitlets import Type as _Type
from typing_extensions import override

from gateway.config.classpaths import resolve_class
from gateway.domain.quantities import parse_cores, parse_memory

__all__ = (
    "Address",
    "Callable",
    "Command",
    "Cores",
    "LogLevel",
    "MemoryLimit",
    "Seconds",
    "Type",
    "parse_address",
)

_MOST_PORT: Final = 65535
_MOST_PORT_DIGITS: Final = 6
_LEVELS: Final = {10: "DEBUG", 20: "INFO", 30: "WARNING", 40: "ERROR", 50: "CRITICAL"}


class MemoryLimit(Integer):  # type: ignore[type-arg]  # a class with parameters in stubs only
    """An amount of memory in bytes; takes texts such as "2 G" and "22.5 G"."""

    info_text = "an amount of memory such as '2 G'"

    def __init__(self, default_value: int | str | None = 0, **kwargs: Any) -> None:  # noqa: ANN401 - traitlets' signature
        super().__init__(default_value, **kwargs)  # type: ignore[arg-type]  # texts are validated as they are read

    @override
    def validate(self, obj: Any, value: Any) -> Any:
        return super().validate(obj, _parse(parse_memory, value))


class Cores(Float):  # type: ignore[type-arg]  # a class with parameters in stubs only
    """A number of cores, three decimals; whole numbers are integers."""

    info_text = "a number of cores"

    @override
    def validate(self, obj: Any, value: Any) -> Any:
        cores = _parse(parse_cores, value)
        super().validate(obj, float(cores))
        return cores


class Seconds(Float):  # type: ignore[type-arg]  # a class with parameters in stubs only
    """A finite number of seconds, at least 0."""

    info_text = "a number of seconds, at least 0"

    @override
    def validate(self, obj: Any, value: Any) -> Any:
        number = super().validate(obj, value)
        if isinstance(value, bool) or not math.isfinite(number) or number < 0:
            raise TraitError(f"must be a number of seconds >= 0, got {value!r}")
        return number


class Address(Unicode):  # type: ignore[type-arg]  # a class with parameters in stubs only
    """``[host]:port``; empty where a default says so."""

    info_text = "an address [host]:port"

    @override
    def validate(self, obj: Any, value: Any) -> Any:
        text = super().validate(obj, value)
        if text:
            parse_address(text)
        return text


class LogLevel(Unicode):  # type: ignore[type-arg]  # a class with parameters in stubs only
    """A level of the log by name, or by the number that `logging` gives it."""

    info_text = "one of DEBUG, INFO, WARNING, ERROR, CRITICAL"

    @override
    def validate(self, obj: Any, value: Any) -> Any:
        name = str(_LEVELS.get(value, value) if isinstance(value, int) else value)
        name = {"WARN": "WARNING", "FATAL": "CRITICAL"}.get(name.upper(), name.upper())
        if name not in _LEVELS.values():
            self.error(obj, value)
        return name


def parse_address(text: str) -> tuple[str, int]:
    """Split ``[host]:port``; the host is empty if all interfaces are meant.

    Raises
    ------
    TraitError
        If it is no such thing. Port 0, a free one, is allowed.

    Examples
    --------
    >>> parse_address(":8000"), parse_address("[::1]:80")
    (('', 8000), ('::1', 80))
    """
    host, colon, port = text.rpartition(":")
    bare = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    is_number = port.isascii() and port.isdigit() and len(port) < _MOST_PORT_DIGITS
    if not colon or not is_number or int(port) > _MOST_PORT:
        raise TraitError(f"must be host:port, got {text!r:.100}")
    if ":" in bare and bare == host:
        raise TraitError(f"needs brackets around an IPv6 address, got {text!r:.100}")
    if "/" in bare or any(c.isspace() for c in bare):
        raise TraitError(f"must be host:port and no URL, got {text!r:.100}")
    return bare, int(port)


class Type(_Type):  # type: ignore[type-arg]  # a class with parameters in stubs only
    """A class, or a text that names one: a path, the peer's too, or a short name."""

    @override
    def validate(self, obj: Any, value: Any) -> Any:
        if isinstance(value, str):
            try:
                value = resolve_class(value)
            except ImportError as error:
                raise TraitError(
                    f"the class {value!r} cannot be imported: {error}"
                ) from error
        return super().validate(obj, value)


class Command(List):  # type: ignore[type-arg]  # a class with parameters in stubs only
    """A command as a list of words; a text is its only word, not split."""

    def __init__(self, default_value: Any = None, **kwargs: Any) -> None:  # noqa: ANN401 - traitlets' signature
        kwargs.setdefault("minlen", 1)
        if isinstance(default_value, str):
            default_value = [default_value]
        super().__init__(Unicode(), default_value, **kwargs)

    @override
    def validate(self, obj: Any, value: Any) -> Any:
        return super().validate(obj, [value] if isinstance(value, str) else value)


def _parse(parser: CallableABC[[Any], Any], value: Any) -> Any:  # noqa: ANN401 - any trait's value
    try:
        return parser(value)
    except ValueError as error:
        raise TraitError(str(error)) from error
