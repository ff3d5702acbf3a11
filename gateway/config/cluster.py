"""Configuration of one cluster: traits with the peer's names, as plain values."""

from collections.abc import Mapping
from typing import Any, Final

import structlog
from traitlets import Dict, Integer, default

from gateway.config.plain import check_plain
from gateway.config.section import Section
from gateway.config.traits import Command, Cores, MemoryLimit, Seconds
from gateway.domain.config import ResolvedConfig
from gateway.domain.errors import RefusedOptions
from gateway.domain.quantities import format_memory
from gateway.domain.scaling import derive_max_workers

_log = structlog.get_logger()

# Traits that traitlets itself needs.
_MACHINERY: Final = frozenset({"config", "log", "parent"})

_MEMORY_HELP: Final = """
Bytes, or a number with one of the suffixes K, M, G, T (powers of 1024), such as
"2 G".
"""


class ClusterConfig(Section):
    """Settings of each cluster; options of the user lie over them.

    Parameters
    ----------
    **kwargs
        Trait values, and ``parent``: the backend. Names that are no traits are
        dropped with a warning: handlers of sites return such.
    """

    scheduler_cmd = Command(
        None,
        allow_none=True,
        help="""
        Command that starts a Dask scheduler, as a list of words; a text is one
        word. It is used exactly as given, our arguments after it.

        By default a form that old and new distributed both have.
        """,
    ).tag(config=True)

    worker_cmd = Command(
        None,
        allow_none=True,
        help="Command that starts a Dask worker; see `scheduler_cmd`.",
    ).tag(config=True)

    environment = Dict(
        help="Environment variables of scheduler and workers.",
    ).tag(config=True)

    worker_memory = MemoryLimit(
        "2 G", help=f"Memory of one worker. {_MEMORY_HELP}"
    ).tag(config=True)

    worker_cores = Cores(1, help="Cores of one worker; three decimals count.").tag(
        config=True
    )

    worker_threads = Integer(
        min=0,
        allow_none=True,
        help="""
        Threads of one worker.

        By default the whole cores of `worker_cores`, at least 1.
        """,
    ).tag(config=True)

    scheduler_memory = MemoryLimit(
        "2 G", help=f"Memory of the scheduler. {_MEMORY_HELP}"
    ).tag(config=True)

    scheduler_cores = Cores(
        1, help="Cores of the scheduler; three decimals count."
    ).tag(config=True)

    adaptive_period = Seconds(
        3, help="Seconds between two decisions of an adaptive cluster."
    ).tag(config=True)

    idle_timeout = Seconds(
        1800,
        help="""
        Seconds without any task after which a cluster is stopped; 0 is never.
        """,
    ).tag(config=True)

    no_client_timeout = Seconds(
        1800,
        help="""
        Seconds without any connected client after which a cluster is stopped;
        0 is never.
        """,
    ).tag(config=True)

    max_lifetime = Seconds(
        0,
        help="Seconds after which a cluster is stopped in any case; 0 is never.",
    ).tag(config=True)

    drain_timeout = Seconds(
        600,
        help="""
        Longest time in seconds that a worker which is to go may take to end the
        tasks that it executes; it gets no new ones.
        """,
    ).tag(config=True)

    scheduler_start_timeout = Seconds(
        help="""
        Seconds from the start of the scheduler until it must have connected.

        By default `DBBackendBase.cluster_start_timeout`, else 60.
        """,
    ).tag(config=True)

    worker_start_timeout = Seconds(
        help="""
        Seconds from the start of a worker until it must have connected.

        By default `DBBackendBase.worker_start_timeout`, else 60.
        """,
    ).tag(config=True)

    worker_start_failure_limit = Integer(
        min=1,
        help="""
        Failed starts of workers in a row that make the cluster fail.

        By default `DBBackendBase.worker_start_failure_limit`, else 3.
        """,
    ).tag(config=True)

    cluster_max_memory = MemoryLimit(
        None,
        allow_none=True,
        help=f"""
        Most memory that one cluster may have, its scheduler included; no limit
        if `None`. {_MEMORY_HELP}
        """,
    ).tag(config=True)

    cluster_max_cores = Cores(
        None,
        allow_none=True,
        help="""
        Most cores that one cluster may have, its scheduler included; no limit if
        `None`.
        """,
    ).tag(config=True)

    cluster_max_workers = Integer(
        None,
        min=0,
        allow_none=True,
        help="""
        Most workers that one cluster may have; no limit if `None`. The limits on
        memory and cores count as well.
        """,
    ).tag(config=True)

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - any trait's value
        known = self.class_traits()
        unknown = sorted(k for k in kwargs if k not in known)
        if unknown:
            _log.warning(
                "settings that are none dropped",
                config=type(self).__name__,
                names=unknown,
            )
        super().__init__(**{k: v for k, v in kwargs.items() if k in known})

    @default("worker_threads")
    def _default_worker_threads(self) -> int:
        return max(int(self.worker_cores), 1)

    @default("scheduler_start_timeout")
    def _default_scheduler_start_timeout(self) -> float:
        return float(getattr(self.parent, "cluster_start_timeout", 60.0))

    @default("worker_start_timeout")
    def _default_worker_start_timeout(self) -> float:
        return float(getattr(self.parent, "worker_start_timeout", 60.0))

    @default("worker_start_failure_limit")
    def _default_worker_start_failure_limit(self) -> int:
        return int(getattr(self.parent, "worker_start_failure_limit", 3))

    @classmethod
    def setting_names(cls) -> frozenset[str]:
        """Return the names that an options handler may return."""
        return frozenset(cls.class_traits()) - _MACHINERY

    def find_max_workers(self) -> int | None:
        """Return the cap that all limits together make; ``None`` is no cap."""
        return derive_max_workers(
            max_workers=self.cluster_max_workers,
            cores=(self.cluster_max_cores, self.scheduler_cores, self.worker_cores),
            memory=(
                self.cluster_max_memory,
                self.scheduler_memory,
                self.worker_memory,
            ),
        )

    def check_limits(self) -> None:
        """Refuse a cluster whose scheduler alone is above the cluster's limits.

        Raises
        ------
        RefusedOptions
            With the peer's text, which programs match on.
        """
        memory, cores = self.cluster_max_memory, self.cluster_max_cores
        if memory is not None and self.scheduler_memory > memory:
            raise RefusedOptions(
                f"Scheduler memory request of {format_memory(self.scheduler_memory)} "
                f"exceeds cluster memory limit of {format_memory(memory)}"
            )
        if cores is not None and self.scheduler_cores > cores:
            raise RefusedOptions(
                f"Scheduler cores request of {self.scheduler_cores} exceeds "
                f"cluster cores limit of {cores}"
            )

    def resolve(self) -> ResolvedConfig:
        """Return all settings as plain values.

        Raises
        ------
        RefusedOptions
            As `check_limits`, or if a value cannot be kept or passed to a program.
        """
        self.check_limits()
        config = ResolvedConfig(
            scheduler_cmd=_freeze(self.scheduler_cmd),
            worker_cmd=_freeze(self.worker_cmd),
            environment=_parse_environment(self.environment),
            scheduler_memory_bytes=self.scheduler_memory,
            worker_memory_bytes=self.worker_memory,
            scheduler_cores=self.scheduler_cores,
            worker_cores=self.worker_cores,
            worker_threads=self.worker_threads or self._default_worker_threads(),
            max_workers=self.find_max_workers(),
            adaptive_period_s=self.adaptive_period,
            idle_timeout_s=self.idle_timeout,
            no_client_timeout_s=self.no_client_timeout,
            max_lifetime_s=self.max_lifetime,
            drain_timeout_s=self.drain_timeout,
            scheduler_start_timeout_s=self.scheduler_start_timeout,
            worker_start_timeout_s=self.worker_start_timeout,
            worker_start_failure_limit=self.worker_start_failure_limit,
            extra=self._extra(),
        )
        return check_plain(config)

    def to_dict(self) -> dict[str, Any]:
        """Return all settings by name; the cap on workers is the effective one."""
        settings = {n: getattr(self, n) for n in sorted(self.setting_names())}
        return {**settings, "cluster_max_workers": self.find_max_workers()}

    def _extra(self) -> dict[str, Any]:
        own = self.setting_names() - ClusterConfig.setting_names()
        return {name: getattr(self, name) for name in sorted(own)}


def _freeze(command: list[str] | None) -> tuple[str, ...] | None:
    return None if command is None else tuple(command)


def _parse_environment(environment: Mapping[Any, Any]) -> dict[str, str]:
    parsed = {str(name): str(value) for name, value in environment.items()}
    for name in parsed:
        if not name or "=" in name:
            raise RefusedOptions(f"{name!a:.200} cannot be an environment variable")
    return parsed
