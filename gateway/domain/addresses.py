"""What an address tells by itself. Pure: no name is looked up."""

from ipaddress import ip_address
from urllib.parse import urlsplit


def is_loopback(host: str) -> bool:
    """Return whether ``host`` is this machine by its very name.

    Examples
    --------
    >>> [is_loopback(t) for t in ("127.0.0.5", "::1", "localhost", "node-7")]
    [True, True, True, False]
    """
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def is_loopback_url(url: str) -> bool:
    """Return whether ``url`` leads to this machine by its very name.

    Examples
    --------
    >>> [is_loopback_url(t) for t in ("http://[::1]:80", "http://n7:80", "http://[")]
    [True, False, False]
    """
    try:
        return is_loopback(urlsplit(url).hostname or "")
    except ValueError:
        return False
