from pathlib import Path

import pytest
from traitlets import TraitError
from traitlets.config import Config

from backends.local.backend import LocalBackend, UnsafeLocalBackend
from backends.local.config import LocalClusterConfig
from backends.routing.configured import EndingRoutes, build_settings
from backends.routing.routes import TraefikRoutes
from gateway.config.application import make_application


def make(cls=UnsafeLocalBackend, **sections):
    """Return a backend as an operator's file makes it."""
    config = Config({"DaskGateway": {"data_directory": "/srv/daskfleet"}})
    config.merge(Config(sections))
    return cls(parent=make_application(config))


def settings_of(backend):
    return backend.make_launcher()._settings


def test_clusters_are_kept_in_the_data_directory():
    assert settings_of(make()).directory == Path("/srv/daskfleet/clusters")


def test_users_can_reach_the_directory_of_the_privileged_backend():
    """Each data directory, and so each database, has its own."""
    one = settings_of(make(LocalBackend)).directory
    two = settings_of(
        make(LocalBackend, DaskGateway={"data_directory": "/srv/other"})
    ).directory

    assert one != two
    assert one.parent == two.parent == Path("/var/lib/daskfleet")


def test_settings_of_the_peers_file_reach_the_launcher():
    """`c.LocalBackend` sets the unsafe backend too, as with the peer."""
    settings = settings_of(
        make(
            LocalBackend={
                "sigint_timeout": 1,
                "sigterm_timeout": 2,
                "sigkill_timeout": 3,
                "clusters_directory": "/scratch/dask",
                "inherited_environment": ["PATH", "MODULEPATH"],
                "log_limit": "1 M",
            }
        )
    )

    patience = settings.patience
    assert (patience.sigint_s, patience.sigterm_s, patience.sigkill_s) == (1, 2, 3)
    assert settings.directory == Path("/scratch/dask")
    assert settings.inherited_environment == ("PATH", "MODULEPATH")
    assert settings.log_limit_bytes == 2**20


def test_only_the_privileged_backend_changes_accounts():
    assert settings_of(make()).find_account is None
    assert settings_of(make(LocalBackend)).find_account is not None


@pytest.mark.parametrize(
    ("sections", "want"),
    [
        ({}, None),
        ({"Proxy": {"tls_cert": "/c.pem", "tls_key": "/k.pem"}}, Path("/c.pem")),
        (
            {
                "Proxy": {"tls_cert": "/c.pem", "tls_key": "/k.pem"},
                "Backend": {"api_url": "https://dask.example.org/api"},
            },
            None,
        ),
    ],
    ids=["plain", "https by our own name", "https by the operator's name"],
)
def test_schedulers_trust_the_proxys_certificate_where_they_are_sent_to_it(
    sections, want
):
    assert settings_of(make(**sections)).api_ca_file == want


def test_clusters_have_an_environment_and_a_directory_of_their_own_choice():
    backend = make(LocalClusterConfig={"python": "/env/bin/python"})

    config = backend.cluster_config_class(parent=backend, working_directory="/w")

    assert isinstance(config, LocalClusterConfig)
    assert config.resolve().extra == {
        "python": "/env/bin/python",
        "working_directory": "/w",
    }


@pytest.mark.parametrize(
    "setting", [{"sigint_timeout": -1}, {"log_limit": 10}, {"minimum_uid": 0}]
)
def test_values_that_make_no_sense_are_refused(setting):
    with pytest.raises(TraitError):
        make(LocalBackend=setting)


def test_the_proxys_settings_become_routes():
    backend = make(
        Proxy={
            "address": "127.0.0.1:9000",
            "tcp_address": "127.0.0.1:9001",
            "prefix": "/services/dask",
            "log_level": "info",
            "dashboard_host": "dash.example.org",
            "trusted_proxies": ["10.0.0.0/8"],
            "externally_managed": True,
        }
    )

    settings = build_settings(backend.proxy, Path("/d"), "http://127.0.0.1:1")

    assert settings.address == "127.0.0.1:9000"
    assert settings.tcp_address == "127.0.0.1:9001"
    assert settings.prefix == "/services/dask"
    assert settings.log_level == "INFO"
    assert settings.dashboard_host == "dash.example.org"
    assert settings.trusted_proxies == ("10.0.0.0/8",)
    assert settings.externally_managed
    assert settings.binary is None


@pytest.mark.parametrize(
    ("stop_on_exit", "want"), [(False, TraefikRoutes), (True, EndingRoutes)]
)
def test_the_proxy_ends_with_the_gateway_only_if_it_is_told_to(stop_on_exit, want):
    backend = make(Proxy={"stop_on_exit": stop_on_exit})

    assert type(backend.make_routes()) is want
