"""`drop-in.md`, section "Configuration files and extraConfig": a test a bullet."""

import asyncio
import importlib
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from gateway.auth import Authenticator, SimpleAuthenticator, unauthorized
from gateway.config.check import check_file
from gateway.config.dropin import PeerFinder, install_peer_names, peer_names
from gateway.config.peer import MODULES, PEER, Later, MissingPeerName
from gateway.domain.cluster import Cluster, PublicStatus
from gateway.domain.options import Options
from gateway.domain.user import User

ROOT = Path(__file__).parents[3]
EXISTING = [
    (module, name)
    for module, names in MODULES.items()
    if not isinstance(names, Later)
    for name, target in names.items()
    if isinstance(target, str)
]
LATER = [
    (module, name)
    for module, names in MODULES.items()
    if not isinstance(names, Later)
    for name, target in names.items()
    if isinstance(target, Later)
]


def run_import(statement: str) -> dict[str, object]:
    names: dict[str, object] = {}
    exec(statement, names)  # noqa: S102 - the statement is a file's own
    return names


@pytest.mark.parametrize(("module", "name"), EXISTING)
def test_names_of_the_peer_are_ours(module: str, name: str) -> None:
    path = f"{PEER}.{module}".rstrip(".")

    found = run_import(f"from {path} import {name}")[name]

    assert getattr(importlib.import_module(path), name) is found
    assert found is not None


def test_the_names_that_files_lean_on_are_there() -> None:
    names = run_import(
        textwrap.dedent(
            """
            import dask_gateway_server
            import dask_gateway_server.options as o
            from dask_gateway_server import options, traitlets
            from dask_gateway_server.options import *
            from dask_gateway_server.auth import Authenticator, base64
            from dask_gateway_server.auth import SimpleAuthenticator, User, unauthorized
            from dask_gateway_server.backends.base import Backend, ClusterConfig
            from dask_gateway_server.backends.base import PublicException
            from dask_gateway_server.traitlets import Callable, Command
            from dask_gateway_server.traitlets import MemoryLimit, Type
            from dask_gateway_server.app import DaskGateway
            """
        )
    )

    assert names["Options"] is Options
    assert names["o"] is names["options"]
    assert names["User"] is User
    assert names["Authenticator"] is Authenticator
    assert names["SimpleAuthenticator"] is SimpleAuthenticator
    assert names["unauthorized"] is unauthorized
    assert names["base64"].b64decode("YQ==") == b"a"
    assert {"String", "Bool", "Integer", "Float", "Select", "Mapping"} < set(names)


@pytest.mark.parametrize(("module", "name"), LATER)
def test_a_name_that_comes_later_says_what_it_comes_with(module, name) -> None:
    with pytest.raises(MissingPeerName, match=rf"{name} (comes with|has no successor)"):
        run_import(f"from {PEER}.{module} import {name}")


@pytest.mark.parametrize(
    ("statement", "want"),
    [
        ("import dask_gateway_server.backends.yarn", "dropped YARN"),
        ("from dask_gateway_server.options import Colour", "it has Bool, Field"),
        ("import dask_gateway_server.managers", "no dask_gateway_server.managers"),
        ("from dask_gateway_server import managers", "no managers in dask_gateway"),
    ],
)
def test_a_name_that_never_was_says_what_there_is(statement, want) -> None:
    with pytest.raises(ImportError, match=want):
        run_import(statement)


def test_a_name_that_we_do_not_have_fails_with_line_name_and_successor(
    tmp_path,
) -> None:
    path = tmp_path / "config.py"
    path.write_text(
        "import os\n\nfrom dask_gateway_server.backends.jobqueue.slurm import "
        "SlurmBackend\n"
    )

    (problem,) = check_file(path)

    assert problem.format() == (
        f"error: {path}:3: dask_gateway_server.backends.jobqueue.slurm.SlurmBackend "
        "comes with the job-queue backends"
    )


def test_names_of_modules_answer_what_introspection_asks() -> None:
    module = importlib.import_module("dask_gateway_server.options")

    assert not hasattr(module, "__wrapped__")
    assert set(module.__all__) >= {"Options", "Select"}


def test_a_name_is_found_only_while_it_is_wanted() -> None:
    program = """
        import sys
        from gateway.config.dropin import peer_names
        with peer_names():
            from dask_gateway_server.options import Options
        try:
            import dask_gateway_server
        except ModuleNotFoundError:
            print("gone", [m for m in sys.modules if m.startswith("dask_gateway_s")])
    """
    found = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )

    assert found.stdout == "gone []\n"


def test_the_real_package_is_left_alone_where_it_is_installed(tmp_path) -> None:
    package = tmp_path / PEER
    package.mkdir()
    (package / "__init__.py").write_text("REAL = True\n")
    path = tmp_path / "config.py"
    path.write_text(
        "from dask_gateway_server import REAL\n"
        "c.DaskGateway.backend_class = 'gateway.config.backend.Backend'\n"
    )

    found = subprocess.run(
        [sys.executable, "-m", "gateway", "check-config", "-f", str(path)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}"},
    )

    assert "uninstall it where the gateway runs" in found.stdout


def test_the_finder_stands_last_and_once() -> None:
    install_peer_names()

    ours = [finder for finder in sys.meta_path if isinstance(finder, PeerFinder)]
    assert ours == sys.meta_path[-1:]


def test_names_can_be_wanted_within_one_another() -> None:
    with peer_names(), peer_names():
        pass

    assert run_import("import dask_gateway_server")


@pytest.mark.parametrize(
    "text",
    [
        "dask_gateway_server.auth.SimpleAuthenticator",
        "dask_gateway_server.auth:SimpleAuthenticator",
        "simple",
        "SimpleAuthenticator",
    ],
)
def test_class_paths_given_as_text_resolve(load_site, text) -> None:
    site = load_site(
        "c.DaskGateway.backend_class = 'dask_gateway_server.backends.base.Backend'\n"
        f"c.DaskGateway.authenticator_class = {text!r}\n"
    )

    assert type(site.application.authenticator) is SimpleAuthenticator


def test_settings_on_a_base_class_reach_the_class_in_use(load_site) -> None:
    site = load_site(
        textwrap.dedent(
            """
            from dask_gateway_server.backends.base import Backend, ClusterConfig
            class OwnConfig(ClusterConfig):
                pass
            class OwnBackend(Backend):
                pass
            c.DaskGateway.backend_class = OwnBackend
            c.Backend.cluster_config_class = OwnConfig
            c.Backend.api_url = "http://gateway/api"
            c.ClusterConfig.worker_cores = 2
            c.OwnConfig.worker_cores = 3
            c.Authenticator.cache_max_age = 17
            """
        )
    )
    backend = site.application.backend

    assert backend.api_url == "http://gateway/api"
    assert backend.cluster_config_class(parent=backend).worker_cores == 3
    assert site.application.authenticator.cache_max_age == 17
    assert site.warnings == []


async def test_a_handler_may_import_while_it_serves(load_site) -> None:
    site = await asyncio.to_thread(
        load_site,
        textwrap.dedent(
            """
            c.DaskGateway.backend_class = "dask_gateway_server.backends.base.Backend"

            async def options(user):
                from dask_gateway_server.options import Integer, Options
                return Options(Integer("worker_cores", 2))

            c.Backend.cluster_options = options
            """
        ),
    )

    backend = site.application.backend
    chosen, _ = await backend.process_cluster_options(User("ann"), {})

    assert chosen == {"worker_cores": 2}


def test_settings_of_the_peers_application_are_ours(load_site) -> None:
    site = load_site(
        "c.DaskGateway.backend_class = 'dask_gateway_server.backends.base.Backend'\n"
        "c.Application.log_level = 10\n"
        "c.DaskGateway.log_format = '%(message)s'\n"
    )

    assert site.application.log_level == "DEBUG"
    assert site.warnings == [
        (
            "config.py:3: DaskGateway.log_format: has no effect: the log has fields; "
            "see DaskGateway.log_style"
        )
    ]


def test_statuses_have_the_peers_names_and_order() -> None:
    from dask_gateway_server.models import ClusterStatus

    names = ["PENDING", "RUNNING", "STOPPING", "STOPPED", "FAILED"]
    ordered = [ClusterStatus.from_name(name.lower()) for name in names]

    assert [status.name for status in ordered] == names
    assert sorted({*ordered}) == ordered
    assert ClusterStatus.FAILED > ClusterStatus.STOPPED >= ClusterStatus.STOPPED
    assert ClusterStatus.PENDING <= ClusterStatus.RUNNING < ClusterStatus.STOPPING
    with pytest.raises(ValueError, match="'lost' is not a valid ClusterStatus"):
        ClusterStatus.from_name("lost")


def test_a_cluster_has_the_peers_attributes() -> None:
    cluster = Cluster(
        name="c1", owner="ann", status=PublicStatus.RUNNING, version=1, start_ms=0
    )

    assert (cluster.name, cluster.username, cluster.options) == ("c1", "ann", {})


def test_user_has_name_groups_and_admin() -> None:
    user = User("ann", groups=["b", "a"], admin=True)

    assert (user.name, sorted(user.groups), user.admin) == ("ann", ["a", "b"], True)
