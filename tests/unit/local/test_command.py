import sys
from dataclasses import replace
from pathlib import Path

import pytest

from backends.local.accounts import Account
from backends.local.command import build_command, build_environment, build_files
from gateway.domain.config import ResolvedConfig
from gateway.domain.errors import InvariantError
from tests.support.jobs import WORKER, a_job, credentials_of

PLUGIN = Path("/clusters/c1/plugin/plugin.py")
FILES = Path("/clusters/c1/scheduler/files")


def environment_of(spec, *, account=None, api_ca_file=None, inherited=()):
    return build_environment(
        spec,
        directory=FILES,
        api_ca_file=api_ca_file,
        job_id="/clusters/c1/scheduler",
        inherited=dict(inherited),
        account=account,
    )


def test_a_scheduler_is_a_module_of_our_python_with_the_plugin():
    assert build_command(a_job(), plugin=PLUGIN) == (
        *(sys.executable, "-m", "distributed.cli.dask_scheduler"),
        *("--protocol", "tls", "--port", "0", "--host", "127.0.0.1"),
        *("--dashboard-address", "127.0.0.1:0", "--preload", str(PLUGIN)),
    )


def test_a_worker_has_its_name_its_share_and_its_nanny():
    config = ResolvedConfig(worker_memory_bytes=2**30, worker_threads=3)
    job = replace(a_job(ref=WORKER, scheduler_address="tls://h:1"), config=config)

    command = build_command(job, plugin=None)

    assert command == (
        *(sys.executable, "-m", "distributed.cli.dask_worker", "tls://h:1"),
        *("--dashboard-address", "127.0.0.1:0", "--name", "c1-worker-0"),
        *("--nthreads", "3", "--memory-limit", str(2**30)),
    )
    assert "--no-nanny" not in command


def test_a_python_that_was_configured_is_used():
    job = a_job(ref=WORKER, extra={"python": "/env/bin/python"})

    assert build_command(job, plugin=None)[0] == "/env/bin/python"


def test_a_command_that_was_set_is_used_exactly_as_given():
    job = a_job("dask", "scheduler", "--show", extra={"python": "/env/bin/python"})

    command = build_command(job, plugin=PLUGIN)

    assert command[:4] == ("dask", "scheduler", "--show", "--protocol")


@pytest.mark.parametrize(
    "job", [a_job(), a_job(ref=WORKER, scheduler_address=None)], ids=str
)
def test_a_job_without_what_it_needs_is_a_bug(job):
    with pytest.raises(InvariantError):
        build_command(job, plugin=None)


def test_each_role_gets_its_own_files_and_only_the_scheduler_the_token():
    credentials = credentials_of("c1")

    scheduler, worker = build_files(a_job()), build_files(a_job(ref=WORKER))

    assert scheduler["api-token"] == credentials.token
    assert credentials.token not in str(worker)
    for files in (scheduler, worker):
        assert files["ca.crt"] == credentials.ca_certificate
        assert credentials.ca_key not in files.values()
        assert credentials.client.key not in files.values()
    assert scheduler["dask.pem"] == credentials.scheduler.key
    assert worker["dask.pem"] == credentials.worker.key


def test_the_environment_has_an_order_of_precedence():
    """Ours binds, then the cluster's, then the account's, then what is inherited."""
    chosen = {"PATH": "/mine", "USER": "me", "DASK_GATEWAY_API_URL": "http://elsewhere"}
    inherited = {"PATH": "/ours", "LANG": "C", "USER": "root"}

    environment = environment_of(a_job(environment=chosen), inherited=inherited)

    assert environment["PATH"] == "/mine"
    assert environment["LANG"] == "C"
    assert environment["USER"] == "me"
    assert environment["DASK_GATEWAY_API_URL"] == "http://127.0.0.1:1/api"
    assert environment["DASK_TEMPORARY_DIRECTORY"] == str(FILES / "scratch")
    assert environment["DASKFLEET_JOB"] == "/clusters/c1/scheduler"


def test_a_job_of_another_account_knows_its_home():
    account = Account("alice", 1000, 1000, (1000,), "/homes/alice")

    environment = environment_of(a_job(owner="alice"), account=account)

    assert environment["HOME"] == "/homes/alice"
    assert environment["USER"] == environment["LOGNAME"] == "alice"


def test_the_plugin_learns_its_periods_from_the_clusters_configuration():
    config = ResolvedConfig(adaptive_period_s=1.5, drain_timeout_s=60)

    environment = environment_of(replace(a_job(), config=config))

    assert environment["DASKFLEET_ADAPTIVE_PERIOD"] == "1.5"
    assert environment["DASKFLEET_DRAIN_TIMEOUT"] == "60"


def test_certificates_for_the_api_reach_the_scheduler_alone():
    path = Path("/clusters/api-ca.crt")
    scheduler = environment_of(a_job(), api_ca_file=path)
    worker = environment_of(a_job(ref=WORKER), api_ca_file=path)

    assert scheduler["DASK_GATEWAY_API_CA_FILE"] == str(path)
    assert "DASK_GATEWAY_API_CA_FILE" not in worker
    assert "DASK_GATEWAY_API_CA_FILE" not in environment_of(a_job())
