"""Read which dashboard a path is about. Pure."""

from dataclasses import dataclass, field
from urllib.parse import unquote

from gateway.domain.names import is_cluster_name

# `login/<token>/status` below the cluster's path.
_LOGIN_PARTS = 3


@dataclass(frozen=True, slots=True)
class Target:
    """Which dashboard a path is about.

    Parameters
    ----------
    cluster
        A name that a cluster can have.
    token
        Of a link, if the path is one.
    is_bare
        Whether the path is the cluster's without a slash behind it, where no
        browser sends a cookie whose path has one.
    """

    cluster: str
    token: str | None = field(default=None, repr=False)
    is_bare: bool = False


def parse_target(uri: str, prefix: str) -> Target | None:
    """Return what ``uri`` is about, ``None`` if it is no dashboard's path.

    The path is read as it is written: an escaped name is no name, and nothing
    that another program might read as a way up is let through.

    Parameters
    ----------
    uri
        Path and query as the browser sent them.
    prefix
        What all public paths start with.

    Examples
    --------
    >>> parse_target("/dask/clusters/c1/status?x=1", "/dask")
    Target(cluster='c1', is_bare=False)
    >>> parse_target("/clusters/c1/login/abc/status", "").token
    'abc'
    >>> parse_target("/clusters/c1/../c2/status", "") is None
    True
    """
    # Not by `urlsplit`, which drops line ends and tabs.
    path = uri.partition("?")[0].partition("#")[0]
    head = f"{prefix}/clusters/"
    is_plain = path.isascii() and path.isprintable() and "//" not in path
    if not is_plain or not path.startswith(head):
        return None
    decoded = unquote(path).replace("\\", "/")
    if {".", ".."} & set(decoded.split("/")):
        return None
    cluster, slash, rest = path.removeprefix(head).partition("/")
    if not is_cluster_name(cluster):
        return None
    parts = rest.split("/")
    is_link = parts[0] == "login" and len(parts) == _LOGIN_PARTS
    return Target(cluster, parts[1] if is_link else None, is_bare=not slash)
