"""Base of all backends: from a user's options to one cluster's configuration."""

import asyncio
import inspect
from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar

import structlog
from traitlets import Bool, Instance, Integer, TraitError, Unicode, Union, default

from gateway.config.cluster import ClusterConfig
from gateway.config.live import find_changes, take_snapshot
from gateway.config.policy import UserPolicy
from gateway.config.proxy import Proxy
from gateway.config.section import Section
from gateway.config.traits import Callable, Seconds, Type
from gateway.domain.errors import (
    InvalidRequest,
    RefusedOptions,
    Unavailable,
    UserError,
)
from gateway.domain.options import Options, refusals
from gateway.domain.policy import Policy
from gateway.domain.user import User

_log = structlog.get_logger()

# Names that a handler returns are an operator's, so they are few; a handler
# that makes them up must not fill the memory.
_MOST_REPORTED = 1000


class PublicException(UserError):
    """A refusal by a site's own backend; the text is shown to the user."""

    code = "refused"


class Backend(Section):
    """Base of backends, with what sites configure and override.

    Derived classes implement `gateway.ports.Backend`.
    """

    cluster_options = Union(
        [Callable(), Instance(Options, args=())],
        help="""
        What users may choose for a cluster: an `Options` object, or a function or
        coroutine function that takes the user and returns one.

        By default nothing.
        """,
    ).tag(config=True)

    cluster_config_class = Type(
        klass="gateway.config.cluster.ClusterConfig",
        help="Class of a cluster's configuration, or the path of one.",
    ).tag(config=True)

    api_url = Unicode(
        help="""
        URL at which Dask schedulers reach this gateway's API, ending in `/api`.

        By default it is derived from the addresses of gateway and proxy.
        """,
    ).tag(config=True)

    adaptive_maximum = Integer(
        100,
        min=0,
        help="""
        Most workers of an adaptive cluster for which neither the user nor a limit
        gives a maximum.
        """,
    ).tag(config=True)

    strict = Bool(
        default_value=False,
        help="""
        Fail a request whose options handler returns a name that no setting has.
        By default that is logged.
        """,
    ).tag(config=True)

    cluster_options_timeout = Seconds(
        60,
        help="""
        Longest time in seconds that options and their handler may take for one
        request; 0 is no limit. Handlers of different requests run one after
        another, because a handler may change the configuration.
        """,
    ).tag(config=True)

    # Classes that other processes read from the same file, so that it is checked
    # as a whole.
    companions: ClassVar[tuple[type[Section], ...]] = ()

    # From the application; the defaults serve a backend that stands alone.
    gateway_address = Unicode()
    gateway_url = Unicode()
    data_directory = Unicode()
    proxy = Instance(Proxy)
    policy = Instance(Policy)

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - any trait's value
        super().__init__(**kwargs)
        self._options_lock = asyncio.Lock()
        self._reported: set[object] = set()

    @default("cluster_config_class")
    def _default_cluster_config_class(self) -> type[ClusterConfig]:
        return ClusterConfig

    @default("gateway_address")
    def _default_gateway_address(self) -> str:
        return str(getattr(self.parent, "address", ""))

    @default("gateway_url")
    def _default_gateway_url(self) -> str:
        return str(getattr(self.parent, "gateway_url", ""))

    @default("data_directory")
    def _default_data_directory(self) -> str:
        return str(getattr(self.parent, "data_directory", ""))

    @default("proxy")
    def _default_proxy(self) -> Proxy:
        proxy: Proxy | None = getattr(self.parent, "proxy", None)
        return Proxy(parent=self) if proxy is None else proxy

    @default("policy")
    def _default_policy(self) -> Policy:
        return UserPolicy(parent=self).resolve()

    def find_problems(self) -> Sequence[str]:
        """Return what is wrong with the settings as a whole, one line each.

        Called before anything is started. Backends add their own.
        """
        return self.proxy.find_problems()

    async def get_cluster_options(self, user: User) -> Options:
        """Return the options that ``user`` is offered.

        Raises
        ------
        RefusedOptions
            If the operator's function refuses this user.
        """
        offered: Any = self.cluster_options
        with refusals():
            if callable(offered):
                offered = offered(user)
            if inspect.isawaitable(offered):
                offered = await offered
        if not isinstance(offered, Options):
            raise TypeError(
                f"Backend.cluster_options must give Options, got "
                f"{type(offered).__name__}"
            )
        return offered

    async def process_cluster_options(
        self,
        user: User,
        request: Any,  # noqa: ANN401 - whatever a body holds
    ) -> tuple[dict[str, Any], ClusterConfig]:
        """Return the options to store, and the configuration that they make.

        Parameters
        ----------
        user
            Who asks.
        request
            ``cluster_options`` as they came.

        Raises
        ------
        RefusedOptions, InvalidRequest
            If they do not fit; the text is the user's.
        Unavailable
            If the operator's handler takes too long.
        """
        try:
            async with (
                asyncio.timeout(self.cluster_options_timeout or None),
                self._options_lock,
            ):
                return await self._make_config(user, request)
        except TimeoutError as error:
            raise Unavailable("the options handler took too long") from error

    async def _make_config(
        self,
        user: User,
        request: Any,  # noqa: ANN401 - whatever a body holds
    ) -> tuple[dict[str, Any], ClusterConfig]:
        before = take_snapshot(self.config)
        offered = await self.get_cluster_options(user)
        chosen = offered.parse_options(request)
        overrides = offered.get_configuration(chosen, user)
        if inspect.isawaitable(overrides):
            overrides = await overrides
        self._report_live_changes(before)
        config = self._build_config(offered, chosen, overrides)
        config.resolve()
        return chosen, config

    def _build_config(
        self, offered: Options, chosen: Mapping[str, Any], overrides: dict[str, Any]
    ) -> ClusterConfig:
        cls = self.cluster_config_class
        names = cls.setting_names()
        unknown = sorted(str(name) for name in overrides if name not in names)
        if unknown:
            self._report_unknown(unknown, sorted(names), offered)
        known = {k: v for k, v in overrides.items() if k in names}
        self._report_replaced(known)
        try:
            config: ClusterConfig = cls(parent=self, **known)
        except (TraitError, ValueError) as error:
            raise self._explain(error, offered, chosen, known) from error
        return config

    def _explain(
        self,
        error: Exception,
        offered: Options,
        chosen: Mapping[str, Any],
        known: Mapping[str, Any],
    ) -> UserError:
        """Return the user's error, with the field that the bad value came from."""
        for name, value in known.items():
            try:
                self.cluster_config_class(parent=self, **{name: value})
            except (TraitError, ValueError) as alone:
                field = _find_source(offered, chosen, name, value)
                if field is None:
                    return RefusedOptions(f"{name}: {alone}")
                return InvalidRequest(f"cluster_options.{field}", str(alone))
        return RefusedOptions(str(error))

    def _report_unknown(
        self, unknown: Sequence[str], names: Sequence[str], offered: Options
    ) -> None:
        problems = [_describe_unknown(name, names) for name in unknown]
        if self.strict and offered.handler is not None:
            raise LookupError(
                f"the options handler returned what is no setting of "
                f"{self.cluster_config_class.__name__}: {'; '.join(problems)}"
            )
        for name, text in zip(unknown, problems, strict=True):
            if self._is_news(("unknown", name)):
                _log.warning("option is no setting", name=name, problem=text)

    def _report_replaced(self, known: Mapping[str, Any]) -> None:
        """Say which keys of a mapping are lost, since a handler replaces it whole."""
        mappings = {k: v for k, v in known.items() if isinstance(v, Mapping)}
        if not mappings:
            return
        standing = self.cluster_config_class(parent=self)
        for name, value in mappings.items():
            default_value = getattr(standing, name, None)
            if not isinstance(default_value, Mapping):
                continue
            lost = tuple(sorted(str(k) for k in default_value if k not in value))
            if lost and self._is_news(("replaced", name, lost)):
                _log.info("option replaces setting", name=name, lost_keys=lost)

    def _report_live_changes(self, before: dict[str, Any]) -> None:
        changed = find_changes(before, take_snapshot(self.config))
        if changed and self._is_news("live"):
            _log.warning(
                "options handler changes the configuration for later clusters too",
                settings=changed,
            )

    def _is_news(self, what: object) -> bool:
        if what in self._reported or len(self._reported) >= _MOST_REPORTED:
            return False
        self._reported.add(what)
        return True


# Backends of ours derive from it under this name, beside `gateway.ports.Backend`.
BackendBase = Backend


def _find_source(
    offered: Options,
    chosen: Mapping[str, Any],
    name: str,
    value: Any,  # noqa: ANN401 - any trait's value
) -> str | None:
    for field in offered.fields:
        if field.target == name:
            return field.field
    for field in offered.fields:
        if chosen.get(field.field) is value:
            return field.field
    return None


def _describe_unknown(name: str, names: Sequence[str]) -> str:
    near = get_close_matches(name, names, n=1)
    return f"{name!r} is no setting" + (f", did you mean {near[0]!r}?" if near else "")
