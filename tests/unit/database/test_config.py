import pytest
from traitlets.config import Config

from backends.database.backend import DatabaseBackend
from backends.database.config import DBBackendBase
from gateway.config.proxy import Proxy
from tests.support.database import FakeBackend, make_backend


def test_clusters_are_kept_in_a_file_of_the_data_directory_by_default():
    backend = DBBackendBase(data_directory="/srv/daskfleet")

    assert backend.db_url == "sqlite:////srv/daskfleet/daskfleet.sqlite"
    assert DBBackendBase().db_url == "sqlite://"


def test_keys_come_from_the_peers_variable(monkeypatch):
    monkeypatch.setenv("DASK_GATEWAY_ENCRYPT_KEYS", "one; two;")
    assert DBBackendBase().db_encrypt_keys == ["one", "two"]

    monkeypatch.delenv("DASK_GATEWAY_ENCRYPT_KEYS")
    assert DBBackendBase().db_encrypt_keys == []


@pytest.mark.parametrize(
    ("settings", "want"),
    [
        ({"address": ":8000"}, "http://127.0.0.1:8000/api"),
        ({"address": "0.0.0.0:80"}, "http://127.0.0.1:80/api"),
        ({"address": "[::]:80"}, "http://127.0.0.1:80/api"),
        ({"address": "10.0.0.7:80"}, "http://10.0.0.7:80/api"),
        ({"address": "[fd00::1]:80"}, "http://[fd00::1]:80/api"),
        ({"address": "node7:80"}, "http://node7:80/api"),
        (
            {"address": ":443", "prefix": "/services/dask", "tls_cert": "c"},
            "https://127.0.0.1:443/services/dask/api",
        ),
    ],
)
def test_schedulers_call_through_the_public_port(settings, want):
    assert DBBackendBase(proxy=Proxy(**settings)).api_url == want


@pytest.mark.parametrize("section", ["DBBackendBase", "DatabaseBackend", "FakeBackend"])
def test_settings_of_the_peers_base_class_reach_ours(section):
    config = Config({section: {"db_cluster_max_age": 5, "db_debug": True}})

    backend = FakeBackend(config=config)

    assert (backend.db_cluster_max_age, backend.db_debug) == (5, True)


def test_start_timeouts_reach_each_clusters_configuration():
    backend = make_backend(cluster_start_timeout=7, worker_start_timeout=8)

    resolved = backend.cluster_config_class(parent=backend).resolve()

    assert resolved.scheduler_start_timeout_s == 7
    assert resolved.worker_start_timeout_s == 8


def test_a_backend_with_its_defaults_has_no_problems():
    assert list(make_backend().find_problems()) == []


def test_all_problems_are_reported_at_once_and_no_key_is_shown():
    backend = make_backend(
        "mysql://u@h/d", db_encrypt_keys=["a secret"], backoff_base_delay=9
    )

    problems = "\n".join(backend.find_problems())

    assert "db_url" in problems
    assert "db_encrypt_keys: key 1" in problems
    assert "backoff_max_delay" in problems
    assert "a secret" not in problems


@pytest.mark.parametrize(
    ("url", "value", "is_problem"),
    [
        ("sqlite://", False, True),
        ("sqlite://", True, False),
        ("sqlite:////srv/a", False, False),
        ("nonsense", False, False),  # that is reported by itself
    ],
)
def test_clusters_cannot_outlive_a_database_in_memory(url, value, is_problem):
    backend = make_backend(url, stop_clusters_on_shutdown=value)

    found = [p for p in backend.find_problems() if "stop_clusters_on_shutdown" in p]

    assert bool(found) is is_problem


def test_a_derived_class_must_say_what_runs_its_jobs():
    with pytest.raises(NotImplementedError):
        DatabaseBackend().make_launcher()
    with pytest.raises(NotImplementedError):
        DatabaseBackend().make_routes()
