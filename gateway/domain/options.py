"""Cluster options: what users may choose, and what is made of their choice.

Class, argument and method names are those of ``dask_gateway_server.options``,
because sites' configuration files use them. How a choice becomes a cluster's
configuration (traits, limits) does not belong here.
"""

import inspect
import math
from collections import abc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from difflib import get_close_matches
from typing import Any

from typing_extensions import override

from gateway.domain.errors import RefusedOptions
from gateway.domain.option_fields import (
    Bool,
    Field,
    Float,
    Integer,
    Mapping,
    Select,
    String,
    copy_containers,
    cut_repr,
)
from gateway.domain.user import User

__all__ = (
    "Bool",
    "Field",
    "Float",
    "Integer",
    "Mapping",
    "Options",
    "Select",
    "String",
)


class OptionValues(dict[str, Any]):
    """Chosen values by target, as a handler sees them: also as attributes.

    What a handler changes here is what is stored as the cluster's options.

    Examples
    --------
    >>> OptionValues(worker_cores=2).worker_cores
    2
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401 - any option's value
        try:
            return self[name]
        except KeyError:
            near = get_close_matches(name, self, n=1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise AttributeError(f"no option named {name!r}{hint}") from None

    @property
    def _mapping(self) -> "OptionValues":
        # Some sites' handlers reach for the peer's private dictionary.
        return self

    @override
    def __setattr__(self, name: str, value: Any) -> None:
        self[name] = value

    @override
    def __delattr__(self, name: str) -> None:
        try:
            del self[name]
        except KeyError:
            raise AttributeError(f"no option named {name!r}") from None

    @override
    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self})


Handler = Callable[..., Any]


class Options:
    """What users of a gateway may choose for a cluster.

    Parameters
    ----------
    *fields
        In the order in which a form shows them.
    handler
        ``handler(options)`` or ``handler(options, user)``, a function or a
        coroutine function. Gets the values by target and returns a mapping of
        configuration traits. Without one, targets are trait names. It refuses
        by `ValueError`; the text, of any number of lines, is the user's.

    Examples
    --------
    >>> options = Options(Integer("cores", 1, min=1, max=4, target="worker_cores"))
    >>> chosen = options.parse_options({"cores": 2})
    >>> options.get_configuration(chosen, User("alice"))
    {'worker_cores': 2}
    """

    def __init__(self, *fields: Field, handler: Handler | None = None) -> None:
        for field in fields:
            if not isinstance(field, Field):
                raise TypeError(
                    f"fields must be String, Bool, Integer, Float, Select or "
                    f"Mapping, got {type(field).__name__}"
                )
        self.fields = fields
        self.handler = handler

    @property
    def handler(self) -> Handler | None:
        """Function that turns values into configuration."""
        return self._handler

    @handler.setter
    def handler(self, handler: Handler | None) -> None:
        if handler is not None and not callable(handler):
            raise TypeError(f"handler must be callable, got {handler!r}")
        self._handler = handler
        self._takes_user = handler is not None and takes_user(handler)

    def get_specification(self) -> list[dict[str, Any]]:
        """Return the fields as the API describes them."""
        return [field.json_spec() for field in self.fields]

    def parse_options(self, request: Any) -> dict[str, Any]:  # noqa: ANN401 - whatever a body holds
        """Return all fields with their values, defaults filled in.

        Parameters
        ----------
        request
            As it came; an explicit null is a value, and refused as such.

        Raises
        ------
        RefusedOptions
            If it is no mapping, names unknown fields, or a value does not fit.
        """
        if not isinstance(request, dict):
            raise RefusedOptions(
                f"options must be a dict, got {type(request).__name__!r}"
            )
        unknown = sorted(set(request) - {field.field for field in self.fields})
        if unknown:
            raise RefusedOptions(f"Unknown fields {cut_repr(unknown, limit=1000)}")
        chosen = {}
        for field in self.fields:
            value = (
                copy_containers(request[field.field])
                if field.field in request
                else field.get_default()
            )
            try:
                chosen[field.field] = field.validate(value)
            except (TypeError, ValueError) as error:
                raise RefusedOptions(str(error)) from error
        return chosen

    def transform_options(self, options: abc.Mapping[str, Any]) -> dict[str, Any]:
        """Return the values by target, as a handler sees them.

        Mappings are shared with ``options``, not copied.
        """
        return {
            field.target: field.transform(
                options[field.field] if field.field in options else field.get_default()
            )
            for field in self.fields
        }

    def get_configuration(
        self, options: dict[str, Any], user: User
    ) -> dict[str, Any] | Awaitable[dict[str, Any]]:
        """Return configuration traits, or an awaitable of them.

        Parameters
        ----------
        options
            From `parse_options`. Changed in place: what the handler changes in
            its mapping is what is to be stored.
        user
            Who asks.

        Raises
        ------
        RefusedOptions
            If the handler refuses. Its other errors pass: they are bugs.
        """
        before = self.transform_options(options)
        if self._handler is None:
            return before
        values = OptionValues(before)
        arguments = (values, user) if self._takes_user else (values,)
        with refusals():
            result = self._handler(*arguments)
        if inspect.isawaitable(result):
            return self._await_configuration(result, options, before, values)
        return self._take_result(result, options, before, values)

    async def _await_configuration(
        self,
        pending: Awaitable[Any],
        options: dict[str, Any],
        before: dict[str, Any],
        values: OptionValues,
    ) -> dict[str, Any]:
        with refusals():
            result = await pending
        return self._take_result(result, options, before, values)

    def _take_result(
        self,
        result: Any,  # noqa: ANN401 - an operator's function returns anything
        options: dict[str, Any],
        before: dict[str, Any],
        values: OptionValues,
    ) -> dict[str, Any]:
        if not isinstance(result, abc.Mapping):
            raise TypeError(
                f"the options handler must return a mapping of traits, "
                f"got {type(result).__name__}"
            )
        self._store_changes(options, before, values)
        return dict(result)

    def _store_changes(
        self, options: dict[str, Any], before: dict[str, Any], values: OptionValues
    ) -> None:
        for field in self.fields:
            if field.target not in values:
                options.pop(field.field, None)
            elif values[field.target] is not before[field.target]:
                options[field.field] = values[field.target]
        options.update({k: v for k, v in values.items() if k not in before})
        for name, value in options.items():
            options[name] = _as_json(value)


def takes_user(function: Callable[..., Any]) -> bool:
    """Return whether ``function`` wants ``(options, user)``, not ``(options)``.

    Examples
    --------
    >>> takes_user(lambda options: {}), takes_user(lambda options, user: {})
    (False, True)
    """
    try:
        parameters = inspect.signature(function).parameters.values()
    except ValueError:  # some built-ins have no signature; `dict` takes one
        return False
    positional = {
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
    }
    return (
        any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters)
        or sum(p.kind in positional for p in parameters) > 1
    )


@contextmanager
def refusals() -> Iterator[None]:
    """Turn what an operator's function raises to refuse into `RefusedOptions`.

    That is any `ValueError`, and `Exception` itself; the rest are bugs and pass.
    """
    try:
        yield
    except Exception as error:
        # The interpreter never raises plain `Exception`: the handler wrote it.
        if isinstance(error, ValueError) or type(error) is Exception:
            raise RefusedOptions(str(error)) from error
        raise


def _as_json(x: Any) -> Any:  # noqa: ANN401 - any option's value
    if isinstance(x, str | bool | int) or x is None:
        return x
    if isinstance(x, float):
        return x if math.isfinite(x) else str(x)
    if isinstance(x, abc.Mapping):
        return {str(k): _as_json(v) for k, v in x.items()}
    if isinstance(x, set | frozenset):
        return sorted((_as_json(v) for v in x), key=repr)
    if isinstance(x, list | tuple):
        return [_as_json(v) for v in x]
    return str(x)
