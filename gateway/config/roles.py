"""Which classes a configuration uses, and which sections are theirs."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from traitlets.config import Config, Configurable

from gateway.config.application import DaskGateway
from gateway.config.peer import MODULES, Later, MissingPeerName, load_name
from gateway.config.policy import UserPolicy
from gateway.config.proxy import Proxy
from gateway.config.section import find_section_names


@dataclass(frozen=True, slots=True)
class Roles:
    """Classes in use, the application first.

    Parameters
    ----------
    classes
        By what they do: ``gateway``, ``proxy``, ``policy``, ``authenticator``,
        ``backend``, ``cluster``; a companion of the backend by its own name. One
        that cannot be imported is absent.
    """

    classes: Mapping[str, type[Configurable]]

    def find_readers(self, section: str) -> list[type[Configurable]]:
        """Return the classes in use that read ``section``."""
        return [
            cls for cls in self.classes.values() if section in find_section_names(cls)
        ]

    def section_names(self) -> set[str]:
        """Return all sections that some class in use reads."""
        return {s for cls in self.classes.values() for s in find_section_names(cls)}


def find_roles(config: Config) -> Roles:
    """Return the classes that ``config`` chooses; wrong choices are left out."""
    classes: dict[str, type[Configurable]] = {"gateway": DaskGateway}
    gateway = blank(DaskGateway)
    for role, name in (
        ("authenticator", "authenticator_class"),
        ("backend", "backend_class"),
    ):
        choose(classes, role, gateway, name, find_value(config, DaskGateway, name))
    classes |= {"proxy": Proxy, "policy": UserPolicy}
    backend = classes.get("backend")
    if backend is not None:
        name = "cluster_config_class"
        value = find_value(config, backend, name)
        choose(classes, "cluster", blank(backend), name, value)
        for companion in getattr(backend, "companions", ()):
            classes[companion.__name__] = companion
    return Roles(classes)


def choose(
    classes: dict[str, type[Configurable]],
    role: str,
    owner: Configurable,
    name: str,
    value: Any,  # noqa: ANN401 - as an operator wrote it
) -> None:
    """Set ``classes[role]`` to what trait ``name`` of ``owner`` makes of ``value``."""
    try:
        if value is not None:
            setattr(owner, name, value)
        classes[role] = getattr(owner, name)
    except Exception:  # noqa: BLE001 - an import of a site's module; the check of values tells why
        return


def blank(cls: type[Configurable]) -> Any:  # noqa: ANN401 - an instance of cls
    """Return an instance whose traits work and whose ``__init__`` did not run."""
    return cls.__new__(cls)


def find_value(config: Config, cls: type[Configurable], name: str) -> Any:  # noqa: ANN401 - any setting
    """Return what ``config`` sets trait ``name`` of ``cls`` to, else ``None``."""
    found = None
    for section in find_section_names(cls):
        if section in config and name in config[section]:
            found = config[section][name]
    return found


def find_unused_class(section: str) -> type[Configurable] | Later | None:
    """Return the class of a section that no class in use reads, if there is one."""
    for module, names in MODULES.items():
        target = {} if isinstance(names, Later) else names
        if section not in target:
            continue
        if isinstance(entry := target[section], Later):
            return entry
        try:
            found = load_name(module, section)
        except MissingPeerName as error:
            return Later(str(error))
        except ImportError:
            return Later("needs an extra that is not installed")
        if isinstance(found, type) and issubclass(found, Configurable):
            return found
    return next((c for c in _subclasses(Configurable) if c.__name__ == section), None)


def _subclasses(cls: type[Configurable]) -> Iterable[type[Configurable]]:
    for derived in cls.__subclasses__():
        yield derived
        yield from _subclasses(derived)
