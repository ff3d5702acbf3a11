"""`Routes` by Traefik: the database backend's way to the public port."""

import asyncio
import json
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import structlog

from backends.database.routes import Route
from backends.routing.files import (
    ensure_certificate,
    locked,
    make_directory,
    read_text,
    write_atomically,
)
from backends.routing.probe import prove_tls
from backends.routing.process import TraefikProcess
from backends.routing.publisher import Publisher, interval_s
from backends.routing.settings import (
    RoutingSettings,
    find_problems,
    parse_address,
    parse_reachable,
)
from backends.routing.table import (
    DASK,
    PUBLIC,
    TableSettings,
    build_table,
    parse_gateways,
    parse_routes,
    select_routes,
)
from gateway.aio.tasks import Supervisor
from gateway.domain.errors import ConfigError
from gateway.domain.names import format_sni
from gateway.ports import Clock

log = structlog.get_logger(__name__)

# A handshake on one machine takes 5 ms; the rest is for a loaded one.
_PROOF_S: Final = 5.0
_CERTIFICATE_PERIOD_S: Final = 5.0

_Fingerprint = tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True, slots=True)
class _Table:
    routes: tuple[Route, ...]
    gateways: tuple[str, ...]


class TraefikRoutes:
    """Keeps a Traefik running and its table as it is published; a `Routes`.

    Parameters
    ----------
    settings
        Of the operator.
    clock
        Dates the default certificate.
    """

    def __init__(self, settings: RoutingSettings, clock: Clock) -> None:
        # Traefik runs elsewhere, and is recognised by its arguments.
        settings = replace(settings, data_directory=settings.data_directory.absolute())
        self._settings = settings
        self._clock = clock
        self._table_path = settings.directory / "routes.yml"
        self._lock_path = settings.directory / "routes.lock"
        self._process = TraefikProcess(settings, self._refresh)
        self._publisher = Publisher[_Table](self._write)
        self._supervisor = Supervisor()
        self._internal_port: int | None = None
        self._refused: tuple[str, ...] = ()
        self._gateways = settings.gateway_urls

    @property
    def pid(self) -> int | None:
        """Process id of the Traefik that serves; ``None`` if it is not ours to run."""
        running = self._process.running
        return None if running is None else running.process.pid

    async def setup(self) -> None:
        """Start or adopt the proxy, with the table that was last published.

        Raises
        ------
        ConfigError
            With all that is wrong with the settings, or if Traefik is missing
            or an address is taken.
        BackendError
            If Traefik does not come up.
        """
        problems = find_problems(self._settings)
        if problems:
            raise ConfigError(problems)
        await asyncio.to_thread(make_directory, self._settings.directory)
        if self._settings.externally_managed:
            await asyncio.to_thread(self._refresh, None)
        else:
            await self._process.ensure()
            self._supervisor.start("keep traefik", self._process.keep)
        if self._settings.tls_cert is not None:
            self._supervisor.start("watch certificate", self._watch_certificate)

    async def cleanup(self) -> None:
        """Release what this object holds; the proxy goes on serving."""
        await self._supervisor.stop()

    async def stop(self) -> None:
        """Release everything and end the proxy too: for demos and tests."""
        await self.cleanup()
        await self.end_proxy()

    async def end_proxy(self) -> None:
        """End the proxy, if it is ours to run."""
        if not self._settings.externally_managed:
            await self._process.stop()

    async def publish(
        self, routes: Sequence[Route], gateways: Sequence[str] = ()
    ) -> None:
        """Make the table exactly this; returns once it is written.

        A route that cannot be served is left out and logged: one cluster's
        fault must not keep others from theirs.

        Parameters
        ----------
        routes
            Of all running clusters.
        gateways
            URLs of all gateways that serve the API; none means the settings'.
        """
        self._gateways = tuple(gateways) or self._settings.gateway_urls
        chosen, refused = select_routes(routes, self._find_reserved_ports())
        for reason in refused:
            if reason not in self._refused:
                log.error("route refused", reason=reason)
        self._refused = refused
        await self._publisher.publish(
            _Table(chosen, self._gateways), interval_s=interval_s(len(chosen))
        )

    async def prove(self, cluster: str, ca_certificate: str) -> bool:
        """Return whether the cluster answers at the public port, by its own CA."""
        settings = self._settings
        address = settings.probe_address or settings.dask_address or settings.address
        host, port = parse_reachable(address)
        return await _prove(host, port, cluster, ca_certificate)

    async def prove_scheduler(self, route: Route, ca_certificate: str) -> bool:
        """Return whether the scheduler itself, behind the proxy, has that CA."""
        return await _prove(
            route.host, route.scheduler_port, route.cluster, ca_certificate
        )

    def _write(self, table: _Table) -> None:
        """Write the table; blocking."""
        with locked(self._lock_path):
            self._write_if_changed(table)

    def _write_if_changed(self, table: _Table) -> None:
        settings = self._table_settings(table.gateways)
        text = json.dumps(build_table(table.routes, settings))
        if text != read_text(self._table_path):
            write_atomically(self._table_path, text)

    def _refresh(self, internal_port: int | None) -> None:
        """Write the last table anew, as our settings now want it; blocking."""
        self._internal_port = internal_port
        # A publish in between would be undone.
        with locked(self._lock_path):
            try:
                table = json.loads(read_text(self._table_path) or "")
                routes, gateways = parse_routes(table), parse_gateways(table)
            except ValueError:
                routes, gateways = (), ()  # never written, or not by us
            # Who of the others still serves is known at the next publish.
            gateways = tuple(sorted({*gateways, *self._settings.gateway_urls}))
            chosen, _ = select_routes(routes, self._find_reserved_ports())
            self._write_if_changed(_Table(chosen, gateways))

    def _table_settings(self, gateways: tuple[str, ...]) -> TableSettings:
        settings = self._settings
        if settings.tls_cert is not None and settings.tls_key is not None:
            certificate, key = settings.tls_cert.absolute(), settings.tls_key.absolute()
        else:
            certificate = key = settings.directory / "default.pem"
            ensure_certificate(certificate, self._clock.now())
        return TableSettings(
            gateway_urls=gateways,
            certificate=str(certificate),
            key=str(key),
            base_path=settings.base_path,
            tls=settings.tls_cert is not None,
            dask_entry_point=PUBLIC if settings.dask_address is None else DASK,
            internal_port=self._internal_port,
            dashboard_host=settings.dashboard_host,
        )

    def _find_reserved_ports(self) -> frozenset[int]:
        settings = self._settings
        urls = {*settings.gateway_urls, *self._gateways}
        ports = {urlsplit(url).port or 80 for url in urls}
        ports.add(parse_address(settings.address)[1])
        if settings.dask_address is not None:
            ports.add(parse_address(settings.dask_address)[1])
        if self._internal_port is not None:
            ports.add(self._internal_port)
        return frozenset(ports)

    async def _watch_certificate(self) -> None:
        """Have Traefik read renewed files: it does so when its own file changes."""
        certificate, key = self._settings.tls_cert, self._settings.tls_key
        if certificate is None or key is None:
            return
        seen = await asyncio.to_thread(self._find_served, certificate, key)
        while True:
            now = await asyncio.to_thread(_fingerprint, certificate, key)
            if now != seen:
                seen = now
                problem = await asyncio.to_thread(_find_mismatch, certificate, key)
                if problem:
                    # The other half is about to come, or is forgotten.
                    log.warning(
                        "certificate not taken over",
                        file=str(certificate),
                        key_file=str(key),
                        problem=problem,
                    )
                else:
                    await asyncio.to_thread(self._rewrite)
                    log.info("certificate taken over", file=str(certificate))
            await asyncio.sleep(_CERTIFICATE_PERIOD_S)

    def _find_served(self, *paths: Path) -> _Fingerprint | None:
        """Return the files' fingerprint if Traefik has read them as they are.

        One that was adopted did so when the table was last written.
        """
        now = _fingerprint(*paths)
        table = _stat(self._table_path)
        is_fresh = table is not None and all(s is not None and s < table for s in now)
        return now if is_fresh else None

    def _rewrite(self) -> None:
        with locked(self._lock_path):
            text = read_text(self._table_path)
            if text is not None:
                write_atomically(self._table_path, text)


def _fingerprint(*paths: Path) -> _Fingerprint:
    """Return what changes with the files; blocking.

    One that is away, as in the middle of its renewal, is as good as changed.
    """
    return tuple(_stat(path) for path in paths)


def _stat(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    # Not what `cp -p` and archives set as they like.
    return status.st_ctime_ns, status.st_ino


def _find_mismatch(certificate: Path, key: Path) -> str:
    """Return why Traefik could not serve the pair, "" if it can; blocking."""
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # A key with a password is refused, as by Traefik, and asks nobody for it.
        context.load_cert_chain(certificate, key, password="")
    except OSError as error:  # ssl.SSLError is one
        return error.strerror or str(error)
    return ""


async def _prove(host: str, port: int, cluster: str, ca_certificate: str) -> bool:
    return await prove_tls(
        host,
        port,
        server_name=format_sni(cluster),
        ca_certificate=ca_certificate,
        timeout_s=_PROOF_S,
    )
