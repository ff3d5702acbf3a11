"""Backends that run clusters on the gateway's own machine."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from traitlets import Integer, List, Unicode, default, validate
from typing_extensions import override

from backends.database.backend import DatabaseBackend
from backends.database.launcher import Launcher
from backends.database.routes import Routes
from backends.local.accounts import FIRST_PERSON, Account, find_account
from backends.local.config import LocalClusterConfig
from backends.local.launcher import (
    DEFAULT_LOG_LIMIT,
    INHERITED,
    LocalSettings,
    ProcessLauncher,
)
from backends.local.stopping import Patience
from backends.routing.configured import build_settings, make_routes
from backends.routing.settings import find_problems
from gateway.config.traits import MemoryLimit, Seconds

# Users must get to their files, and the data directory is the gateway's alone.
_SHARED_ROOT: Final = Path("/var/lib/daskfleet")
_SOME_URL: Final = "http://127.0.0.1:1"


class LocalBackend(DatabaseBackend):
    """Runs clusters on this machine, each as its owner's account. Needs root."""

    sigint_timeout = Seconds(
        10,
        help="""
        Seconds that a process which is to end is given after SIGINT, until it gets
        SIGTERM.
        """,
    ).tag(config=True)

    sigterm_timeout = Seconds(5, help="Seconds after SIGTERM until SIGKILL.").tag(
        config=True
    )

    sigkill_timeout = Seconds(
        5,
        help="""
        Seconds after SIGKILL until the process that supervises a job is taken to
        hang, and is killed with it.
        """,
    ).tag(config=True)

    clusters_directory = Unicode(
        help=f"""
        Directory for clusters' keys, scratch space and logs; one of its own for
        each database, since what the database does not know is removed.

        By default `clusters` in `DaskGateway.data_directory`; for `LocalBackend`,
        whose users must get there, a directory below `{_SHARED_ROOT}`.
        """,
    ).tag(config=True)

    inherited_environment: Any = List(
        Unicode(),
        list(INHERITED),
        help="Variables of the gateway's own environment that all jobs get.",
    ).tag(config=True)

    log_limit = MemoryLimit(
        DEFAULT_LOG_LIMIT,
        min=2**17,
        help="""
        Most bytes of output that are kept of each scheduler and worker, such as
        "10 M". The oldest goes first.
        """,
    ).tag(config=True)

    minimum_uid = Integer(
        FIRST_PERSON,
        min=1,
        help="""
        Least user id that may run clusters under `LocalBackend`. Below it are root
        and the accounts of the system's services.
        """,
    ).tag(config=True)

    @default("cluster_config_class")
    @override
    def _default_cluster_config_class(self) -> type[LocalClusterConfig]:
        return LocalClusterConfig

    @default("clusters_directory")
    def _default_clusters_directory(self) -> str:
        # Two gateways must not take each other's clusters for orphans.
        digest = hashlib.sha256(self.data_directory.encode()).hexdigest()[:12]
        return str(_SHARED_ROOT / f"clusters-{digest}")

    @validate("clusters_directory")
    def _check_clusters_directory(self, proposal: Any) -> str:  # noqa: ANN401 - traitlets' bunch
        # As the process that finds a job later may stand elsewhere.
        return str(Path(proposal["value"]).expanduser().absolute())

    @override
    def make_launcher(self) -> Launcher:
        proxy = self.proxy
        is_ours = self.api_url == self._default_api_url()
        return ProcessLauncher(
            LocalSettings(
                directory=Path(self.clusters_directory),
                inherited_environment=tuple(self.inherited_environment),
                patience=Patience(
                    self.sigint_timeout, self.sigterm_timeout, self.sigkill_timeout
                ),
                log_limit_bytes=self.log_limit,
                find_account=self._account_finder(),
                api_ca_file=Path(proxy.tls_cert)
                if is_ours and proxy.tls_cert
                else None,
            )
        )

    @override
    def make_routes(self) -> Routes:
        return make_routes(
            self.proxy,
            data_directory=Path(self.data_directory),
            gateway_url=self.gateway_url,
            clock=self.clock,
        )

    @override
    def find_problems(self) -> Sequence[str]:
        problems = list(super().find_problems())
        problems += self._find_routing_problems()
        if not self.data_directory:
            problems.append(f"{type(self).__name__}.data_directory: must be set")
        return problems

    def _find_routing_problems(self) -> Sequence[str]:
        settings = build_settings(
            self.proxy, Path(self.data_directory), self.gateway_url
        )
        if settings.gateway_urls == (self.gateway_url,):
            # Ours; whether its port is a free one is known once it is taken.
            settings = replace(settings, gateway_urls=(_SOME_URL,))
        return find_problems(settings)

    def _account_finder(self) -> Callable[[str], Account] | None:
        minimum_uid = self.minimum_uid
        return lambda owner: find_account(owner, minimum_uid=minimum_uid)


class UnsafeLocalBackend(LocalBackend):
    """Runs clusters on this machine, all as the gateway's own user.

    Users can reach each other's processes and files: for one person, a demo, or
    people who trust each other.
    """

    @default("clusters_directory")
    @override
    def _default_clusters_directory(self) -> str:
        return str(Path(self.data_directory).absolute() / "clusters")

    @override
    def _account_finder(self) -> None:
        return None
