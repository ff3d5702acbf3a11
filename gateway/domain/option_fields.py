"""One choice of a cluster's options: its type, bounds, default and target.

Class, argument and method names are those of ``dask_gateway_server.options``,
because sites' configuration files use them and derive their own.
"""

import math
from collections import abc
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from typing_extensions import override

# A refused value is repeated to the user; a body may hold a mebibyte of it.
_REPR_LIMIT: Final = 200

_N = TypeVar("_N", int, float)


class Field:
    """One thing that a user may choose. Sites may derive their own.

    Parameters
    ----------
    field
        Name by which users set it.
    default
        Used where the user names nothing; must be valid.
    target
        Name under which the handler finds it; ``field`` if empty.
    label
        What a form shows; ``field`` if empty.

    Raises
    ------
    TypeError, ValueError
        If the default is not valid.
    """

    def __init__(
        self,
        field: str,
        default: Any = None,  # noqa: ANN401 - each subclass has its own type
        target: str | None = None,
        label: str | None = None,
    ) -> None:
        self.field = field
        self.validate(default)
        self.default = default
        self.target = target or field
        self.label = label or field

    def json_spec(self) -> dict[str, Any]:
        """Return this field as the API describes it."""
        return {
            "field": self.field,
            "label": self.label,
            "default": self.default,
            "spec": self.json_type_spec(),
        }

    def json_type_spec(self) -> dict[str, Any]:
        """Return the type; the stock client allows no key beyond those it knows."""
        raise NotImplementedError

    def get_default(self) -> Any:  # noqa: ANN401 - each subclass has its own type
        """Return the default, a fresh one where it can be changed."""
        return copy_containers(self.default)

    def validate(self, x: Any) -> Any:  # noqa: ANN401 - whatever JSON can hold
        """Return ``x``, normalised, as JSON can hold it.

        Raises
        ------
        TypeError, ValueError
            With the text that the user is shown.
        """
        raise NotImplementedError

    def transform(self, x: Any) -> Any:  # noqa: ANN401 - any Python object
        """Return what the handler sees for a valid ``x``: any Python object."""
        return x


class String(Field):
    """A text.

    Parameters
    ----------
    field, default, label, target
        As in `Field`.
    """

    def __init__(
        self,
        field: str,
        default: str = "",
        label: str | None = None,
        target: str | None = None,
    ) -> None:
        super().__init__(field, default=default, label=label, target=target)

    @override
    def validate(self, x: Any) -> Any:
        if not isinstance(x, str):
            raise TypeError(f"{self.field} must be a string, got {cut_repr(x)}")
        return x

    @override
    def json_type_spec(self) -> dict[str, Any]:
        return {"type": "string"}


class Bool(Field):
    """True or false, and nothing that merely looks like it.

    Parameters
    ----------
    field, default, label, target
        As in `Field`.
    """

    def __init__(
        self,
        field: str,
        default: bool = False,  # noqa: FBT001, FBT002 - the peer's signature
        label: str | None = None,
        target: str | None = None,
    ) -> None:
        super().__init__(field, default=default, label=label, target=target)

    @override
    def validate(self, x: Any) -> Any:
        if not isinstance(x, bool):
            raise TypeError(f"{self.field} must be a bool, got {cut_repr(x)}")
        return x

    @override
    def json_type_spec(self) -> dict[str, Any]:
        return {"type": "bool"}


class Integer(Field):
    """A whole number; booleans are none.

    Parameters
    ----------
    field, default, label, target
        As in `Field`.
    min, max
        Inclusive bounds; ``None`` is no bound.
    """

    def __init__(  # noqa: PLR0917 - the peer's signature
        self,
        field: str,
        default: int = 0,
        min: int | None = None,  # noqa: A002 - the peer's signature
        max: int | None = None,  # noqa: A002 - the peer's signature
        label: str | None = None,
        target: str | None = None,
    ) -> None:
        for bound in (min, max):
            if bound is not None:
                _parse_integer(field, bound)
        self.min = min
        self.max = max
        super().__init__(field, default=default, label=label, target=target)

    @override
    def validate(self, x: Any) -> Any:
        return _check_bounds(
            self.field, _parse_integer(self.field, x), self.min, self.max
        )

    @override
    def json_type_spec(self) -> dict[str, Any]:
        return {"type": "int", "min": self.min, "max": self.max}


class Float(Field):
    """A finite number; booleans, NaN and infinities are none.

    Parameters
    ----------
    field, default, label, target
        As in `Field`.
    min, max
        Inclusive bounds; ``None`` or an infinity is no bound.
    """

    def __init__(  # noqa: PLR0917 - the peer's signature
        self,
        field: str,
        default: float = 0,
        min: float | None = None,  # noqa: A002 - the peer's signature
        max: float | None = None,  # noqa: A002 - the peer's signature
        label: str | None = None,
        target: str | None = None,
    ) -> None:
        self.min = _parse_bound(field, min)
        self.max = _parse_bound(field, max)
        super().__init__(field, default=default, label=label, target=target)

    @override
    def validate(self, x: Any) -> Any:
        return _check_bounds(
            self.field, _parse_float(self.field, x), self.min, self.max
        )

    @override
    def json_type_spec(self) -> dict[str, Any]:
        return {"type": "float", "min": self.min, "max": self.max}


class Select(Field):
    """One of several texts, each of which may stand for any object.

    Parameters
    ----------
    field, label, target
        As in `Field`.
    options
        Each a key, or a tuple of key and the value that a handler sees.
    default
        A key; the first if ``None``.
    """

    def __init__(
        self,
        field: str,
        options: Sequence[str | tuple[str, Any]],
        default: str | None = None,
        label: str | None = None,
        target: str | None = None,
    ) -> None:
        if not isinstance(options, abc.Sequence):
            raise TypeError(f"options of {field} must be a sequence")
        self.options: dict[str, Any] = {}
        for option in options:
            key, value = option if isinstance(option, tuple) else (option, option)
            if not isinstance(key, str):
                raise TypeError(f"Select keys must be strings, got {key!r}")
            self.options[key] = value
        if not self.options:
            raise ValueError(f"{field} must have at least one option")
        if default is None:
            default = next(iter(self.options))
        super().__init__(field, default=default, label=label, target=target)

    @override
    def validate(self, x: Any) -> Any:
        if not isinstance(x, str):
            raise TypeError(f"{self.field} must be a string, got {cut_repr(x)}")
        if x not in self.options:
            raise ValueError(f"{cut_repr(x)} is not a valid option for {self.field}")
        return x

    @override
    def transform(self, x: Any) -> Any:
        # A handler that changes a profile must not change it for the next user.
        return copy_containers(self.options[self.validate(x)])

    @override
    def json_type_spec(self) -> dict[str, Any]:
        return {"type": "select", "options": list(self.options)}


class Mapping(Field):
    """A mapping of texts to anything that JSON can hold.

    Parameters
    ----------
    field, default, label, target
        As in `Field`.
    """

    def __init__(
        self,
        field: str,
        default: dict[str, Any] | None = None,
        label: str | None = None,
        target: str | None = None,
    ) -> None:
        super().__init__(
            field,
            default={} if default is None else default,
            label=label,
            target=target,
        )

    @override
    def validate(self, x: Any) -> Any:
        if not isinstance(x, dict):
            raise TypeError(f"{self.field} must be a mapping, got {cut_repr(x)}")
        return x

    @override
    def json_type_spec(self) -> dict[str, Any]:
        return {"type": "mapping"}


def _parse_integer(field: str, x: Any) -> int:  # noqa: ANN401 - whatever JSON can hold
    if not isinstance(x, int) or isinstance(x, bool):
        raise TypeError(f"{field} must be an integer, got {cut_repr(x)}")
    return x


def _parse_float(field: str, x: Any) -> float:  # noqa: ANN401 - whatever JSON can hold
    if isinstance(x, int | float) and not isinstance(x, bool):
        try:
            number = float(x)
        except OverflowError:
            number = math.inf
        if math.isfinite(number):
            return number
    raise TypeError(f"{field} must be a float, got {cut_repr(x)}")


def _parse_bound(field: str, x: float | None) -> float | None:
    if x is None or x in {math.inf, -math.inf}:
        return None
    return _parse_float(field, x)


def _check_bounds(field: str, x: _N, low: _N | None, high: _N | None) -> _N:
    if low is not None and x < low:
        raise ValueError(f"{field} must be >= {low:f}, got {cut_repr(x)}")
    if high is not None and x > high:
        raise ValueError(f"{field} must be <= {high:f}, got {cut_repr(x)}")
    return x


def cut_repr(x: Any, *, limit: int = _REPR_LIMIT) -> str:  # noqa: ANN401 - anything has a repr
    """Return ``repr(x)``, at most ``limit`` characters of it."""
    try:
        text = repr(x)
    except ValueError:  # an integer of more digits than Python prints
        text = f"an integer of {x.bit_length()} bits"
    return text if len(text) <= limit else f"{text[: limit - 3]}..."


def copy_containers(x: Any) -> Any:  # noqa: ANN401 - any option's value
    """Return ``x`` with fresh dictionaries, lists and sets; their leaves are shared."""
    # Not deepcopy: a profile may hold objects that cannot be copied.
    if type(x) is dict:
        return {k: copy_containers(v) for k, v in x.items()}
    if type(x) is list:
        return [copy_containers(v) for v in x]
    return set(x) if type(x) is set else x
