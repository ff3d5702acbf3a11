"""Trait types of the configuration, with the peer's names and our checks."""

import math
from collections.abc import Callable as CallableABC
from typing import Any

from traitlets import Float, Integer, List, TraitError, TraitType, Unicode
from traitlets import Type as _Type
from typing_extensions import override

from gateway.config.classpaths import resolve_class
from gateway.domain.quantities import parse_cores, parse_memory

__all__ = ("Callable", "Command", "Cores", "MemoryLimit", "Seconds", "Type")


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


class Callable(TraitType):  # type: ignore[type-arg]  # a class with parameters in stubs only
    """Anything that can be called."""

    info_text = "a callable"

    def validate(self, obj: Any, value: Any) -> Any:  # noqa: ANN401 - traitlets' signature
        """Return ``value`` if it can be called."""
        if callable(value):
            return value
        return self.error(obj, value)


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
