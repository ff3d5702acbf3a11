"""Base of our configurable classes: which sections of a file they read."""

from typing import Any, Final

from traitlets.config import Config, Configurable, LoggingConfigurable
from typing_extensions import override

# Names under which sites' files address our classes, by our name. Where both
# set a value, ours wins.
PEER_SECTIONS: Final = {"DaskGateway": ("Application",)}


class Section(LoggingConfigurable):
    """Something that ``c.<class name>`` in a configuration file configures.

    Names that it does not know are dropped here and reported by the check at
    start, where the file and the line are known.
    """

    @classmethod
    @override
    def section_names(cls) -> list[str]:
        return find_section_names(cls)

    @override
    def _find_my_config(self, cfg: Config) -> Any:
        found = super()._find_my_config(cfg)
        known = self.traits(config=True)
        for name in [n for n in found if not _is_section(n) and n not in known]:
            del found[name]
        return found


def find_section_names(cls: type[Configurable]) -> list[str]:
    """Return names of the sections that configure ``cls``, the weakest first."""
    names: list[str] = []
    for base in reversed(cls.__mro__):
        if issubclass(base, Configurable):
            names += [*PEER_SECTIONS.get(base.__name__, ()), base.__name__]
    return names


def _is_section(name: str) -> bool:
    return bool(name) and name[0].isupper()
