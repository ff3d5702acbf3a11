"""Names of clusters and workers: what is allowed, and how they are put together."""

import re
from typing import Final

from gateway.domain.errors import InvalidRequest

# SNI is `daskgateway-<name>`, and IDNA allows 63 characters in a label.
MAX_CLUSTER_NAME: Final = 51
SNI_PREFIX: Final = "daskgateway-"

_CLUSTER_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,49}[a-z0-9])?\Z")
_ORDINAL: Final = re.compile(r"(0|[1-9][0-9]{0,8})\Z")


def is_cluster_name(text: str) -> bool:
    """Return whether ``text`` is a DNS label of at most 51 characters.

    Examples
    --------
    >>> is_cluster_name("c0ffee"), is_cluster_name("c/../x"), is_cluster_name("")
    (True, False, False)
    """
    return _CLUSTER_NAME.match(text) is not None


def parse_cluster_name(text: str, *, field: str = "name") -> str:
    """Return ``text`` if it can name a cluster.

    Raises
    ------
    InvalidRequest
        If it is not a DNS label of at most 51 characters.
    """
    if not is_cluster_name(text):
        raise InvalidRequest(
            field,
            "must be lower-case letters, digits and hyphens, at most "
            f"{MAX_CLUSTER_NAME}, with no hyphen at either end",
        )
    return text


def format_sni(cluster: str) -> str:
    """Return the server name by which clients reach the scheduler of ``cluster``."""
    return f"{SNI_PREFIX}{cluster}"


def format_worker_name(cluster: str, ordinal: int) -> str:
    """Return the name of worker ``ordinal``, in Dask and for its process or pod.

    Examples
    --------
    >>> format_worker_name("c1", 7)
    'c1-worker-7'
    """
    return f"{cluster}-worker-{ordinal}"


def parse_worker_ordinal(cluster: str, name: str) -> int | None:
    """Return the ordinal of a worker of ours, ``None`` for an outsider's name.

    Examples
    --------
    >>> parse_worker_ordinal("c1", "c1-worker-7"), parse_worker_ordinal("c1", "gpu")
    (7, None)
    """
    prefix = f"{cluster}-worker-"
    tail = name.removeprefix(prefix) if name.startswith(prefix) else ""
    return int(tail) if _ORDINAL.match(tail) else None
