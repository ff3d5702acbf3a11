"""Find everything that is wrong with a configuration, all at once."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final

from traitlets import TraitError
from traitlets.config import Config, Configurable
from traitlets.config.loader import DeferredConfig, LazyConfigValue

from gateway.config.application import DaskGateway, make_application
from gateway.config.backend import Backend
from gateway.config.cluster import ClusterConfig
from gateway.config.dropin import has_real_peer, install_peer_names
from gateway.config.loader import LoadedConfig, load_config
from gateway.config.peer import Later
from gateway.config.problems import (
    Level,
    Problem,
    describe_bad_value,
    find_line,
)
from gateway.config.retired import find_reason
from gateway.config.roles import Roles, blank, find_roles, find_unused_class
from gateway.config.section import find_section_names
from gateway.domain.errors import ConfigError, GatewayError
from gateway.domain.options import Options

# What an operator's own class may raise as it is made.
_OWN_ERRORS: Final = (
    TraitError,
    GatewayError,
    ArithmeticError,
    AttributeError,
    ImportError,
    LookupError,
    OSError,
    RuntimeError,
    TypeError,
    ValueError,
)

# Sections that some class reads, and that no one means when they mistype.
_TRAITLETS: Final = frozenset(
    {"Configurable", "LoggingConfigurable", "Section", "SingletonConfigurable"}
)


@dataclass(frozen=True, slots=True)
class Checked:
    """What a check found.

    Parameters
    ----------
    problems
        Errors first.
    application
        With its parts made; ``None`` if that failed or was not tried.
    """

    problems: Sequence[Problem]
    application: DaskGateway | None = None


def check_file(path: Path | None) -> Sequence[Problem]:
    """Return all problems of the file ``path``, errors first.

    Its code is run, and the peer's names stay importable afterwards.
    """
    install_peer_names()
    try:
        loaded = load_config(path)
    except ConfigError as error:
        return [Problem(Level.ERROR, "", text) for text in error.problems]
    return check_config(loaded).problems


def check_config(loaded: LoadedConfig) -> Checked:
    """Check a loaded configuration, and make its parts if nothing speaks against it.

    They are made once only: a site's own class may not stand a second time.
    """
    roles = find_roles(loaded.config)
    found = [
        *_check_names(loaded, roles),
        *_check_values(loaded, roles),
        *_check_peer(loaded),
    ]
    application = None
    if not any(p.level is Level.ERROR for p in found):
        application, whole = _check_whole(loaded)
        found += whole
    order = list(Level)
    found.sort(key=lambda problem: order.index(problem.level))
    return Checked(found, application)


def _check_names(loaded: LoadedConfig, roles: Roles) -> Iterator[Problem]:
    for section, settings in loaded.config.items():
        if not isinstance(settings, Config):
            text = "is set on c itself; write c.<Class>.<name>"
            yield Problem(Level.UNKNOWN, section, text)
            continue
        readers = roles.find_readers(section)
        if readers:
            yield from _check_setting_names(loaded, section, settings, readers)
        else:
            yield _describe_unread(loaded, section, settings, roles)


def _describe_unread(
    loaded: LoadedConfig, section: str, settings: Config, roles: Roles
) -> Problem:
    line = next(
        (at for name in settings if (at := find_line(loaded.lines, section, name))),
        None,
    )
    cls = find_unused_class(section)
    if isinstance(cls, Later):
        text = f"has no effect yet: {section} {cls.successor}"
        return Problem(Level.WARNING, section, text, line)
    if cls is not None:
        text = f"has no effect: {section} is not in use"
        return Problem(Level.WARNING, section, text, line)
    if reason := find_reason(section, "*", ()):
        return Problem(Level.WARNING, section, f"has no effect: {reason}", line)
    known = roles.section_names() - _TRAITLETS
    text = f"no class is named {section!r}{_suggest(section, known)}"
    return Problem(Level.UNKNOWN, section, text, line)


def _check_setting_names(
    loaded: LoadedConfig,
    section: str,
    settings: Config,
    readers: Sequence[type[Configurable]],
) -> Iterator[Problem]:
    known = {name for cls in readers for name in cls.class_traits(config=True)}
    parents = tuple(p for cls in readers for p in find_section_names(cls))
    for name, value in settings.items():
        if name in known:
            continue
        setting = f"{section}.{name}"
        line = find_line(loaded.lines, section, name)
        if isinstance(value, Config):
            # `c.DaskGateway.Proxy.address`: a part, addressed through its owner.
            continue
        if reason := find_reason(section, name, parents):
            yield Problem(Level.WARNING, setting, f"has no effect: {reason}", line)
        else:
            text = f"no setting has this name{_suggest(name, known)}"
            yield Problem(Level.UNKNOWN, setting, text, line)


def _check_values(loaded: LoadedConfig, roles: Roles) -> Iterator[Problem]:
    for cls in roles.classes.values():
        instance = blank(cls)
        traits = cls.class_traits(config=True)
        for section in find_section_names(cls):
            if section not in loaded.config:
                continue
            for name, value in loaded.config[section].items():
                if name not in traits:
                    continue
                if text := _find_value_problem(instance, name, value):
                    line = find_line(loaded.lines, section, name)
                    yield Problem(Level.ERROR, f"{section}.{name}", text, line)


def _find_value_problem(instance: Configurable, name: str, value: Any) -> str | None:  # noqa: ANN401 - any setting
    try:
        if isinstance(value, LazyConfigValue):
            value = value.get_value(getattr(instance, name))
        elif isinstance(value, DeferredConfig):
            value = value.get_value(instance.traits()[name])
        setattr(instance, name, value)
    except (TraitError, ValueError, TypeError, AttributeError) as error:
        return describe_bad_value(name, value, error)
    return None


def _check_peer(loaded: LoadedConfig) -> Iterator[Problem]:
    if has_real_peer() and loaded.path is not None:
        yield Problem(
            Level.WARNING,
            "",
            "dask_gateway_server itself is installed, so the file's imports find "
            "it and not Daskfleet; uninstall it where the gateway runs",
        )


def _check_whole(loaded: LoadedConfig) -> tuple[DaskGateway | None, list[Problem]]:
    try:
        application = make_application(loaded.config)
        backend, _ = application.backend, application.authenticator
    except _OWN_ERRORS as error:
        return None, [Problem(Level.ERROR, "", f"{type(error).__name__}: {error}")]
    parts = [*_check_parts(application, backend), *_check_options(loaded, backend)]
    return application, parts


def _check_parts(application: DaskGateway, backend: Backend) -> Iterator[Problem]:
    for text in dict.fromkeys(backend.find_problems()):
        yield Problem(Level.ERROR, "", text)
    if not application.address:
        yield Problem(Level.ERROR, "DaskGateway.address", "must not be empty")
    section = backend.cluster_config_class.__name__
    try:
        cluster: ClusterConfig = backend.cluster_config_class(parent=backend)
        cluster.resolve()
    except (TraitError, GatewayError, ValueError) as error:
        yield Problem(Level.ERROR, section, str(error))
        return
    for name in ("scheduler_cmd", "worker_cmd"):
        words = getattr(cluster, name)
        if words and len(words) == 1 and " " in words[0]:
            text = (
                f"{words[0]!r} is one word with a space in it, which is the name "
                f"of a program; write a list: {words[0].split()!r}"
            )
            yield Problem(Level.WARNING, f"{section}.{name}", text)


def _check_options(loaded: LoadedConfig, backend: Backend) -> Iterator[Problem]:
    options = backend.cluster_options
    if not isinstance(options, Options):
        return  # made for each user, so only a user's request can tell
    setting = "Backend.cluster_options"
    line = find_line(loaded.lines, "Backend", "cluster_options")
    names = [field.field for field in options.fields]
    for name in sorted({n for n in names if names.count(n) > 1}):
        text = f"has two fields named {name!r}; remove one"
        yield Problem(Level.WARNING, setting, text, line)
    if options.handler is not None:
        return
    known = backend.cluster_config_class.setting_names()
    for field in options.fields:
        if field.target not in known:
            text = (
                f"without a handler, field {field.field!r} sets nothing: "
                f"{field.target!r} is no setting of "
                f"{backend.cluster_config_class.__name__}"
                f"{_suggest(field.target, known)}"
            )
            yield Problem(Level.UNKNOWN, setting, text, line)


def _suggest(name: str, known: set[str] | frozenset[str]) -> str:
    near = get_close_matches(name, sorted(known), n=1)
    return f", did you mean {near[0]!r}?" if near else ""
