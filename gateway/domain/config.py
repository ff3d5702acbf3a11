"""A cluster's configuration after options, policy and defaults: plain values."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class ResolvedConfig:
    """What one cluster is started with. JSON can hold all of it.

    Parameters
    ----------
    scheduler_cmd, worker_cmd
        Command and leading arguments as the operator set them; ``None`` means
        the backend's own default, a form that old and new distributed have.
    environment
        Variables for scheduler and workers.
    scheduler_memory_bytes, worker_memory_bytes
        Bytes.
    scheduler_cores, worker_cores
        Three decimals count.
    worker_threads
        At least 1.
    max_workers
        Effective cap, see `gateway.domain.scaling.derive_max_workers`.
    adaptive_period_s
        Seconds between two targets of the adaptive loop.
    idle_timeout_s, no_client_timeout_s, max_lifetime_s
        Seconds; 0 is never.
    drain_timeout_s
        Longest time that a busy worker is waited for when it is to go.
    scheduler_start_timeout_s, worker_start_timeout_s
        Seconds from the start of the process until it is connected.
    worker_start_failure_limit
        Consecutive failed worker starts that make the cluster Failed.
    extra
        Values of the backend's own configuration class, by trait name.
    """

    scheduler_cmd: tuple[str, ...] | None = None
    worker_cmd: tuple[str, ...] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)
    scheduler_memory_bytes: int = 2 * 2**30
    worker_memory_bytes: int = 2 * 2**30
    scheduler_cores: float = 1
    worker_cores: float = 1
    worker_threads: int = 1
    max_workers: int | None = None
    adaptive_period_s: float = 3.0
    idle_timeout_s: float = 1800.0
    no_client_timeout_s: float = 1800.0
    max_lifetime_s: float = 0.0
    drain_timeout_s: float = 600.0
    scheduler_start_timeout_s: float = 60.0
    worker_start_timeout_s: float = 60.0
    worker_start_failure_limit: int = 3
    extra: Mapping[str, Any] = field(default_factory=dict)
