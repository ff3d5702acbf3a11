"""Settings of the peer that mean nothing here, and why. They are accepted."""

from collections.abc import Mapping
from typing import Final

_SYNC: Final = "schedulers ask the gateway themselves, so there is nothing to set"
_RECONCILER: Final = "the reconciler is woken by changes and sets its own pace"
_LOG: Final = "the log has fields; see DaskGateway.log_style"
_COMMAND_LINE: Final = "it belongs to the peer's command line"

# Section and name -> reason. Consulted only where no class of ours knows it.
RETIRED: Final[Mapping[tuple[str, str], str]] = {
    ("Application", "log_datefmt"): _LOG,
    ("Application", "log_format"): _LOG,
    ("Application", "logging_config"): _LOG,
    ("Application", "show_config"): _COMMAND_LINE,
    ("Application", "show_config_json"): _COMMAND_LINE,
    ("DaskGateway", "log_datefmt"): _LOG,
    ("DaskGateway", "log_format"): _LOG,
    ("DaskGateway", "logging_config"): _LOG,
    ("Backend", "scheduler_api_retries"): "nothing is ever sent to a scheduler",
    ("DBBackendBase", "check_timeouts_period"): _RECONCILER,
    ("DBBackendBase", "cluster_heartbeat_period"): _SYNC,
    ("DBBackendBase", "cluster_heartbeat_timeout"): (
        "a silent scheduler is not taken for a dead one"
    ),
    ("DBBackendBase", "cluster_status_period"): _RECONCILER,
    ("DBBackendBase", "worker_status_period"): _RECONCILER,
    ("Proxy", "api_token"): "the proxy reads a file and needs no token",
    ("Proxy", "max_events"): "the proxy reads a file and keeps no events",
    ("Proxy", "proxy_status_period"): "the proxy is watched all the time",
    ("UserLimits", "*"): "the peer dropped it too; see UserPolicy",
    ("ClusterLimits", "*"): "see ClusterConfig.cluster_max_workers and its like",
    ("InProcessBackend", "*"): "use UnsafeLocalBackend",
    ("YarnBackend", "*"): "dask-gateway dropped YARN",
    ("YarnClusterConfig", "*"): "dask-gateway dropped YARN",
    ("ProxyApp", "*"): _COMMAND_LINE,
    ("GenerateConfig", "*"): _COMMAND_LINE,
}


def find_reason(section: str, name: str, parents: tuple[str, ...]) -> str | None:
    """Return why a setting means nothing here; ``None`` if it is unknown.

    Parameters
    ----------
    section, name
        As in ``c.section.name``.
    parents
        Names of the sections that the class inherits from: a setting of a base
        class may be written under the derived one.
    """
    for candidate in (section, *parents):
        reason = RETIRED.get((candidate, name)) or RETIRED.get((candidate, "*"))
        if reason is not None:
            return reason
    return None
