"""All problems at once: where, what, and what to do."""

from pathlib import Path

import pytest

from gateway.config.check import check_file
from gateway.config.dropin import peer_names
from gateway.config.retired import RETIRED
from gateway.config.roles import find_unused_class

# A backend that needs nothing: the check is about the file.
BASE = "c.DaskGateway.backend_class = 'gateway.config.backend.Backend'\n"


@pytest.fixture(autouse=True)
def _names():
    with peer_names():
        yield


@pytest.fixture
def check(tmp_path):
    def run(text: str, *, strict: bool = False, base: str = BASE) -> list[str]:
        path = tmp_path / "config.py"
        path.write_text(base + text)
        problems = check_file(path)
        return [
            problem.format(strict=strict).replace(f"{tmp_path}/", "")
            for problem in problems
        ]

    return run


def test_a_file_without_problems_has_none(check) -> None:
    assert (
        check("c.ClusterConfig.worker_memory = '2 G'\nc.Proxy.address = ':80'\n") == []
    )


def test_no_file_has_no_problem(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)

    assert [p for p in check_file(None) if p.is_error(strict=True)] == []


def test_all_wrong_values_are_told_at_once_with_line_value_and_remedy(check) -> None:
    found = check(
        "c.Proxy.address = '8000'\n"
        "c.ClusterConfig.worker_memory = '2 Q'\n"
        "c.ClusterConfig.worker_cores = 'many'\n"
        "c.UserPolicy.default = {'cluster': 3}\n"
        "c.DaskGateway.log_level = 'LOUD'\n"
    )

    assert {line.split(": ")[2] for line in found} == {
        "Proxy.address",
        "ClusterConfig.worker_memory",
        "ClusterConfig.worker_cores",
        "UserPolicy.default",
        "DaskGateway.log_level",
    }
    assert all(line.startswith("error: config.py:") for line in found)
    assert (
        "error: config.py:3: ClusterConfig.worker_memory: '2 Q' is no amount of "
        "memory; give bytes, or a number with one of K, M, G, T such as '2 G' "
        "(2**30 bytes each)"
    ) in found


def test_w19_unknown_names_warn_with_the_nearest_and_are_errors_strictly(check) -> None:
    text = (
        "c.ClusterConfig.worker_core = 2\n"
        "c.ClusterConfg.worker_cores = 2\n"
        "c.Backend.cluster_optins = None\n"
    )
    want = [
        (
            "config.py:2: ClusterConfig.worker_core: no setting has this name, "
            "did you mean 'worker_cores'?"
        ),
        (
            "config.py:3: ClusterConfg: no class is named 'ClusterConfg', "
            "did you mean 'ClusterConfig'?"
        ),
        (
            "config.py:4: Backend.cluster_optins: no setting has this name, "
            "did you mean 'cluster_options'?"
        ),
    ]

    assert check(text) == [f"warning: {line}" for line in want]
    assert check(text, strict=True) == [f"error: {line}" for line in want]


def test_settings_that_mean_nothing_here_are_accepted_with_the_reason(check) -> None:
    text = "c.Proxy.max_events = 100\nc.Backend.scheduler_api_retries = 3\n"

    assert check(text, strict=True) == [
        (
            "warning: config.py:2: Proxy.max_events: has no effect: the proxy reads a "
            "file and keeps no events"
        ),
        (
            "warning: config.py:3: Backend.scheduler_api_retries: has no effect: "
            "nothing is ever sent to a scheduler"
        ),
    ]


def test_a_section_of_a_class_that_comes_later_says_so(check) -> None:
    assert check("c.SlurmClusterConfig.queue = 'x'\n", strict=True) == [
        (
            "warning: config.py:2: SlurmClusterConfig: has no effect yet: "
            "SlurmClusterConfig comes with the job-queue backends"
        )
    ]


def test_a_section_of_a_class_that_is_not_in_use_is_told(check) -> None:
    text = (
        "from gateway.auth import Authenticator\n"
        "class Own(Authenticator):\n    pass\n"
        "c.DaskGateway.authenticator_class = Own\n"
        "c.SimpleAuthenticator.password = 'x'\n"
    )

    assert check(text, strict=True) == [
        (
            "warning: config.py:6: SimpleAuthenticator: has no effect: "
            "SimpleAuthenticator is not in use"
        )
    ]


def test_sections_of_a_sites_own_classes_are_known(check) -> None:
    text = (
        "from traitlets import Unicode\n"
        "from traitlets.config import Configurable\n"
        "from gateway.auth import Authenticator\n"
        "class Directory(Configurable):\n"
        "    url = Unicode(config=True)\n"
        "class Own(Authenticator):\n"
        "    realm = Unicode(config=True)\n"
        "c.DaskGateway.authenticator_class = Own\n"
        "c.Own.realm = 'x'\n"
        "c.Own.relm = 'x'\n"
        "c.Authenticator.realm = 'y'\n"
    )

    assert check(text) == [
        (
            "warning: config.py:11: Own.relm: no setting has this name, "
            "did you mean 'realm'?"
        )
    ]


def test_a_secret_is_not_repeated(check) -> None:
    (found,) = check("c.SimpleAuthenticator.password = 1234567\n")

    assert "1234567" not in found
    assert "SimpleAuthenticator.password" in found


def test_a_long_value_is_cut(check) -> None:
    (found,) = check(f"c.ClusterConfig.worker_cores = {'x' * 5000!r}\n")

    assert len(found) < 500


def test_a_class_that_cannot_be_imported_is_named(check) -> None:
    found = check("c.DaskGateway.backend_class = 'no.such.Backend'\n", base="")

    assert found == [
        (
            "error: config.py:1: DaskGateway.backend_class: the class "
            "'no.such.Backend' cannot be imported: No module named 'no'"
        )
    ]


def test_a_class_of_the_wrong_kind_is_refused(check) -> None:
    (found,) = check("c.DaskGateway.authenticator_class = dict\n")

    assert found.startswith("error: config.py:2: DaskGateway.authenticator_class: ")


def test_what_does_not_fit_together_is_told(check) -> None:
    assert check(
        "c.Proxy.tls_cert = '/cert.pem'\nc.ClusterConfig.cluster_max_memory = '1 G'\n"
    ) == [
        "error: Proxy.tls_cert and Proxy.tls_key need each other: set both, or none",
        (
            "error: ClusterConfig: Scheduler memory request of 2.00 GiB exceeds "
            "cluster memory limit of 1.00 GiB"
        ),
    ]


def test_what_the_proxy_would_refuse_at_the_start_is_told_now(check) -> None:
    found = check(
        "c.DaskGateway.data_directory = '/srv/daskfleet'\n"
        "c.Proxy.trusted_proxies = ['x']\n"
        "c.Proxy.dashboard_host = 'a`b'\n"
        "c.Proxy.address = ':0'\n"
        "c.Proxy.gateway_url = 'http://gateway:80/api'\n"
        "c.Proxy.prefix = '/a b'\n",
        base="",
    )

    assert len(found) == 5
    for name in ("trusted_proxies", "dashboard_host", "address", "prefix"):
        assert any(line.startswith(f"error: Proxy.{name}") for line in found)
    assert any("'http://gateway:80/api' is no URL of a gateway" in x for x in found)


def test_an_option_that_sets_nothing_is_told(check) -> None:
    text = (
        "from dask_gateway_server.options import Options, Integer\n"
        "c.Backend.cluster_options = Options(Integer('worker_core'))\n"
    )

    assert check(text) == [
        (
            "warning: config.py:3: Backend.cluster_options: without a handler, field "
            "'worker_core' sets nothing: 'worker_core' is no setting of ClusterConfig, "
            "did you mean 'worker_cores'?"
        )
    ]


def test_a_command_in_one_word_is_told(check) -> None:
    (found,) = check("c.ClusterConfig.worker_cmd = 'dask worker'\n")

    assert "write a list: ['dask', 'worker']" in found


def test_a_sites_class_that_fails_to_be_made_is_told(check) -> None:
    text = (
        "from gateway.auth import Authenticator\n"
        "class Own(Authenticator):\n"
        "    def __init__(self, **kwargs):\n"
        "        super().__init__(**kwargs)\n"
        "        raise KeyError('LDAP_URL')\n"
        "c.DaskGateway.authenticator_class = Own\n"
    )

    assert check(text) == ["error: KeyError: 'LDAP_URL'"]


def test_values_made_by_append_are_checked_too(check) -> None:
    (found,) = check("c.Proxy.trusted_proxies.append(3)\n")

    assert "Proxy.trusted_proxies" in found


def test_no_setting_is_both_known_and_retired() -> None:
    for section, name in RETIRED:
        cls = find_unused_class(section)
        is_ours = isinstance(cls, type) and cls.__module__.startswith(
            ("gateway.", "backends.")
        )
        known = cls.class_traits() if is_ours else {}
        assert name not in known, (section, name)


def test_problems_come_errors_first(check) -> None:
    found = check("c.Proxy.adress = ':1'\nc.Proxy.address = 'x'\n")

    assert [line.split(":")[0] for line in found] == ["error", "warning"]


def test_a_file_that_cannot_be_loaded_is_one_problem(tmp_path: Path) -> None:
    (problem,) = check_file(tmp_path / "absent.py")

    assert problem.is_error()
