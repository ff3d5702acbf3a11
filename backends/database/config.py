"""What an operator configures of a database backend, with the peer's names."""

import os
from collections.abc import Sequence
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

from traitlets import Bool, Integer, List, Unicode, default
from typing_extensions import override

from backends.database.engine import is_in_memory, parse_url
from backends.database.vault import ENVIRONMENT, parse_keys
from gateway.config.backend import BackendBase
from gateway.config.traits import Seconds, parse_address
from gateway.domain.errors import ConfigError

KEY_FILE: Final = "encrypt-keys"
DATABASE_FILE: Final = "daskfleet.sqlite"


class DBBackendBase(BackendBase):
    """Settings of backends that keep their clusters in a database."""

    db_url = Unicode(
        help="""
        URL of the database, such as `postgresql://user:password@host/name` or
        `sqlite:////srv/daskfleet.sqlite`. Any number of gateways may share one
        PostgreSQL; `sqlite://` is kept in memory and ends with the gateway.

        By default the file `daskfleet.sqlite` in `DaskGateway.data_directory`.
        """,
    ).tag(config=True)

    db_encrypt_keys: Any = List(
        help=f"""
        Keys that seal clusters' secrets in the database: 32 bytes each, raw or in
        urlsafe base64. The first seals, all of them open; to rotate, put a new one
        in front. All gateways on one database need the same.

        By default the environment variable `{ENVIRONMENT}`, split at `;`, else the
        file `{KEY_FILE}` in `DaskGateway.data_directory`, which is made on first
        start with mode 0600.
        """,
    ).tag(config=True)

    db_debug = Bool(
        default_value=False,
        help="Log every SQL statement, without its parameters.",
    ).tag(config=True)

    db_timeout = Seconds(
        10,
        help="""
        Longest time in seconds that the database may take for one read or write;
        then the request is answered with 503 and may be repeated.
        """,
    ).tag(config=True)

    db_cleanup_period = Seconds(
        600,
        help="Seconds between two looks for clusters older than `db_cluster_max_age`.",
    ).tag(config=True)

    db_cluster_max_age = Seconds(
        86400,
        help="""
        Seconds for which an ended cluster is kept, with its events and logs.
        """,
    ).tag(config=True)

    cluster_start_timeout = Seconds(
        60,
        help="""
        Seconds from when a scheduler begins to run until its cluster must answer
        at the public port. Time in a queue of the platform does not count.
        """,
    ).tag(config=True)

    worker_start_timeout = Seconds(
        60,
        help="""
        Seconds from when a worker begins to run until it must have connected. Time
        in a queue of the platform does not count.
        """,
    ).tag(config=True)

    worker_start_failure_limit = Integer(
        3,
        min=1,
        help="""
        Failed starts of workers in a row, none having connected in between, that
        make a cluster without connected workers fail.
        """,
    ).tag(config=True)

    stop_clusters_on_shutdown = Bool(
        None,
        allow_none=True,
        help="""
        Stop all clusters when the gateway ends. By default they go on and the next
        gateway takes them over; with a database in memory they always stop.
        """,
    ).tag(config=True)

    shutdown_timeout = Seconds(
        60,
        help="""
        Longest time in seconds that `stop_clusters_on_shutdown` waits for clusters
        to stop.
        """,
    ).tag(config=True)

    parallelism = Integer(
        20,
        min=1,
        help="Clusters that are looked after at once, and jobs started at once.",
    ).tag(config=True)

    backoff_base_delay = Seconds(
        0.1,
        help="Seconds until what failed is first tried again; doubled each time.",
    ).tag(config=True)

    backoff_max_delay = Seconds(
        30,
        help="Longest time in seconds until what failed is tried again.",
    ).tag(config=True)

    observe_period = Seconds(
        1,
        help="Seconds between two looks at all jobs, and at other gateways' changes.",
    ).tag(config=True)

    lease_duration = Seconds(
        15,
        help="""
        Seconds of silence after which the other gateways on the same database take
        over a gateway's clusters.
        """,
    ).tag(config=True)

    @default("db_url")
    def _default_db_url(self) -> str:
        if not self.data_directory:
            return "sqlite://"
        return f"sqlite:///{Path(self.data_directory).absolute() / DATABASE_FILE}"

    @default("db_encrypt_keys")
    def _default_db_encrypt_keys(self) -> list[str]:
        written = os.environ.get(ENVIRONMENT, "")
        return [key.strip() for key in written.split(";") if key.strip()]

    @default("api_url")
    def _default_api_url(self) -> str:
        # Through the proxy: its port stays the same when the gateway is started
        # again, and schedulers keep the URL that they were started with.
        proxy = self.proxy
        host, port = parse_address(proxy.address)
        scheme = "https" if proxy.tls_cert else "http"
        return f"{scheme}://{_reachable(host)}:{port}{proxy.prefix}/api"

    @override
    def find_problems(self) -> Sequence[str]:
        problems = list(super().find_problems())
        for check in (self._check_url, self._check_keys):
            try:
                check()
            except ConfigError as error:
                problems += error.problems
        if self._loses_clusters():
            problems.append(
                f"{type(self).__name__}.stop_clusters_on_shutdown: must be True with "
                "a database in memory; nothing would know the clusters afterwards"
            )
        if 0 < self.backoff_max_delay < self.backoff_base_delay:
            name = type(self).__name__
            problems.append(f"{name}.backoff_max_delay: is below backoff_base_delay")
        return problems

    def _loses_clusters(self) -> bool:
        if self.stop_clusters_on_shutdown is not False:
            return False
        with suppress(ConfigError):  # told elsewhere
            return is_in_memory(parse_url(self.db_url))
        return False

    def _check_url(self) -> Any:  # noqa: ANN401 - not needed
        return parse_url(self.db_url)

    def _check_keys(self) -> Any:  # noqa: ANN401 - not needed
        return parse_keys(self.db_encrypt_keys)


def _reachable(host: str) -> str:
    """Return the name of this machine for what listens on ``host``."""
    try:
        address = ip_address(host)
    except ValueError:
        return host or "127.0.0.1"
    if address.is_unspecified:
        return "127.0.0.1"
    return f"[{host}]" if address.version == 6 else host  # noqa: PLR2004 - IPv6
