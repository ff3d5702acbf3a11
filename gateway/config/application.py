"""The gateway as a whole: its settings, and the parts that they make."""

import logging
import os
from pathlib import Path
from typing import Any

from traitlets import Bool, Enum, List, Unicode, default, validate
from traitlets.config import Config

from gateway.auth import Authenticator, SimpleAuthenticator
from gateway.config.backend import Backend
from gateway.config.policy import UserPolicy
from gateway.config.proxy import Proxy
from gateway.config.section import Section
from gateway.config.traits import Address, LogLevel, Seconds, Type


class DaskGateway(Section):
    """The API server."""

    address = Address(
        "127.0.0.1:0",
        help="""
        `host:port` on which the API listens for the proxy. Port 0 is any free one.
        Users do not come here; see `Proxy.address`.
        """,
    ).tag(config=True)

    authenticator_class = Type(
        klass="gateway.auth.Authenticator",
        help="""
        Class that tells who sent a request, its path, or a short name.

        By default `SimpleAuthenticator`.
        """,
    ).tag(config=True)

    backend_class = Type(
        klass="gateway.config.backend.Backend",
        help="""
        Class that runs clusters, its path, or a short name.

        By default `UnsafeLocalBackend`: processes of this machine, under the
        gateway's own account.
        """,
    ).tag(config=True)

    data_directory = Unicode(
        help="""
        Directory for all that the gateway keeps: database, keys, the proxy's files
        and clusters' logs. Made with mode 0700.

        By default `$XDG_DATA_HOME/daskfleet`, or `~/.local/share/daskfleet`.
        """,
    ).tag(config=True)

    signing_key_file = Unicode(
        help="""
        File with the keys that sign sessions and links, one a line, the newest
        first. All gateways that serve one address need the same. Made on first
        start with mode 0600.

        By default `signing-keys` in `data_directory`.
        """,
    ).tag(config=True)

    config_file = Unicode(
        "",
        help="""
        Has no effect in a file, which is loaded already; the command line's
        `-f` names it.
        """,
    ).tag(config=True)

    strict_config = Bool(
        default_value=False,
        help="""
        Do not start when the configuration has names that nothing knows. By
        default they are warned about.
        """,
    ).tag(config=True)

    log_level = LogLevel(
        "INFO",
        help="Least level of the log: DEBUG, INFO, WARNING, ERROR or CRITICAL.",
    ).tag(config=True)

    log_style = Enum(
        ["auto", "console", "json"],
        default_value="auto",
        help="""
        How the log is written to standard error: `console` for people, `json` with
        one object a line for programs. `auto` is `console` on a terminal.
        """,
    ).tag(config=True)

    trusted_origins = List(
        Unicode(),
        help="""
        Origins such as `https://hub.example.org` whose pages may use a session for
        calls that change something. The gateway's own origin always may.
        """,
    ).tag(config=True)

    dashboard_link_max_age = Seconds(
        86400,
        help="Seconds for which a dashboard's link opens without a login.",
    ).tag(config=True)

    credentials_in_list = Bool(
        default_value=False,
        help="""
        Hand out the keys of a user's running clusters in lists of clusters too, as
        the peer does. No client needs it.
        """,
    ).tag(config=True)

    shutdown_grace = Seconds(
        30,
        help="""
        Longest time in seconds that open requests are given when the gateway is
        told to stop. Held calls are answered at once.
        """,
    ).tag(config=True)

    gateway_url = Unicode()

    @default("authenticator_class")
    def _default_authenticator_class(self) -> Any:  # noqa: ANN401 - the trait checks it
        return SimpleAuthenticator

    @default("backend_class")
    def _default_backend_class(self) -> str:
        # By text: this folder knows no backend.
        return "backends.local.backend.UnsafeLocalBackend"

    @default("data_directory")
    def _default_data_directory(self) -> str:
        home = os.environ.get("XDG_DATA_HOME") or Path.home() / ".local/share"
        return str(Path(home) / "daskfleet")

    @validate("data_directory")
    def _check_data_directory(self, proposal: Any) -> str:  # noqa: ANN401 - traitlets' bunch
        return str(Path(proposal["value"]).expanduser().absolute())

    @default("signing_key_file")
    def _default_signing_key_file(self) -> str:
        return str(Path(self.data_directory) / "signing-keys")

    @default("log")
    def _default_log(self) -> logging.Logger:
        # Sites' own classes write to it by `self.log`.
        return logging.getLogger("daskfleet")

    @default("gateway_url")
    def _default_gateway_url(self) -> str:
        return f"http://{self.address}"

    def __init__(self, **kwargs: Any) -> None:  # noqa: ANN401 - any trait's value
        super().__init__(**kwargs)
        self._proxy: Proxy | None = None
        self._authenticator: Authenticator | None = None
        self._backend: Backend | None = None

    @property
    def proxy(self) -> Proxy:
        """The proxy's settings."""
        if self._proxy is None:
            self._proxy = Proxy(parent=self)
        return self._proxy

    @property
    def authenticator(self) -> Authenticator:
        """The configured authenticator, made once, not set up here."""
        if self._authenticator is None:
            self._authenticator = self.authenticator_class(parent=self)
        return self._authenticator

    @property
    def backend(self) -> Backend:
        """The configured backend, made once, not set up here."""
        if self._backend is None:
            policy = UserPolicy(parent=self).resolve()
            self._backend = self.backend_class(parent=self, policy=policy)
        return self._backend

    def announce(self, gateway_url: str) -> None:
        """Say where the API really listens, once its port is taken.

        A URL that the operator set for the proxy stays.
        """
        before, self.gateway_url = self.gateway_url, gateway_url
        if self.proxy.gateway_url == before:
            self.proxy.gateway_url = gateway_url
        self.backend.gateway_url = gateway_url


def make_application(config: Config) -> DaskGateway:
    """Return the application over ``config`` itself, which stays alive."""
    return DaskGateway(config=config)
