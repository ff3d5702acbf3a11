"""Sites' files load unchanged, with the meaning that they had."""

import asyncio
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import make_mocked_request

from gateway.domain.errors import UserError
from gateway.domain.user import User

ANN = User("ann", groups=["power-users", "staff"], admin=True)
BOB = User("bob", groups=["students"])


def test_the_file_of_a_hub_offers_profiles_by_group(load_site) -> None:
    site = load_site(Path("hub_profiles.conf"))

    assert site.warnings == []
    assert site.application.proxy.prefix == "/services/dask-gateway"
    assert site.application.authenticator.password == "aloha"


async def test_profiles_images_and_environments_come_through(load_site) -> None:
    backend = (
        await asyncio.to_thread(load_site, Path("hub_profiles.conf"))
    ).application.backend

    for user, want in ((ANN, ["small", "medium", "large"]), (BOB, ["small", "medium"])):
        offered = (await backend.get_cluster_options(user)).get_specification()
        assert offered[0]["spec"] == {"type": "select", "options": want}

    chosen, config = await backend.process_cluster_options(
        ANN,
        {"profile": "large", "image": "pangeo/base:2024.01", "environment": {"A": "1"}},
    )
    resolved = config.resolve()

    assert chosen == {
        "profile": "large",
        "image": "pangeo/base:2024.01",
        "environment": {"A": "1"},
    }
    assert (resolved.worker_cores, resolved.worker_threads) == (4, 4)
    assert resolved.worker_memory_bytes == int(22.5 * 2**30)
    # (80 - 2) / 22.5 by memory, (20 - 1) / 4 by cores.
    assert resolved.max_workers == 3
    assert resolved.environment == {
        "SCRATCH_BUCKET": "s3://scratch/ann",
        "IMAGE": "pangeo/base",
        "IMAGE_TAG": "2024.01",
        "A": "1",
    }
    with pytest.raises(UserError, match="image must have a tag"):
        await backend.process_cluster_options(BOB, {"image": "untagged"})
    with pytest.raises(UserError, match="'large' is not a valid option for profile"):
        await backend.process_cluster_options(BOB, {"profile": "large"})


async def test_sliders_between_bounds_are_worked_out_by_the_handler(load_site) -> None:
    site = await asyncio.to_thread(load_site, Path("slider_options.conf"))
    backend = site.application.backend

    chosen, config = await backend.process_cluster_options(
        BOB, {"worker_cores": 3, "worker_memory": 8}
    )
    resolved = config.resolve()

    assert chosen["worker_memory"] == 8.0
    assert (resolved.worker_cores, resolved.worker_threads) == (0.88, 3)
    assert resolved.worker_memory_bytes == int(0.95 * 8 * 2**30)
    assert resolved.scheduler_cores == 0.5
    assert resolved.max_workers == 30
    with pytest.raises(UserError) as refused:
        await backend.process_cluster_options(BOB, {"worker_memory": 32})
    assert str(refused.value) == (
        "More than 4 GiB per core is wasteful.\nAsk for more cores instead."
    )


async def test_an_authenticator_of_ones_own_works_with_its_session(load_site) -> None:
    application = (
        await asyncio.to_thread(load_site, Path("own_authenticator.conf"))
    ).application
    authenticator = application.authenticator

    assert authenticator.cache_max_age == 60
    assert authenticator.cookie_name == "site-gateway"
    await authenticator.setup(web.Application())
    try:
        headers = {"Authorization": "Bearer s3cr3t-of-ann"}
        request = make_mocked_request("GET", "/", headers=headers)
        user, context = await authenticator.authenticate(request)
        response = web.Response()
        await authenticator.pre_response(request, response, context)
        with pytest.raises(web.HTTPUnauthorized) as refused:
            await authenticator.authenticate(make_mocked_request("GET", "/"))
    finally:
        await authenticator.cleanup()

    assert user == User("ann", ["staff"], admin=True)
    assert response.headers["X-Auth-Kind"] == "Bearer"
    assert refused.value.headers["WWW-Authenticate"] == "Bearer"


async def test_bounds_may_depend_on_groups_in_a_coroutine(load_site) -> None:
    backend = (
        await asyncio.to_thread(load_site, Path("own_authenticator.conf"))
    ).application.backend

    _, config = await backend.process_cluster_options(ANN, {"worker_cores": 64})
    assert config.worker_cores == 64
    with pytest.raises(UserError, match=r"worker_cores must be <= 4\.000000, got 64"):
        await backend.process_cluster_options(BOB, {"worker_cores": 64})


async def test_a_backend_of_ones_own_keeps_its_hooks(load_site) -> None:
    site = await asyncio.to_thread(load_site, Path("guarded_backend.conf"))
    backend = site.application.backend

    assert site.warnings == [
        (
            "guarded_backend.conf:57: DBBackendBase.cluster_heartbeat_period: has no "
            "effect: schedulers ask the gateway themselves, so there is nothing to set"
        ),
        (
            "guarded_backend.conf:58: Proxy.max_events: has no effect: the proxy "
            "reads a file and keeps no events"
        ),
    ]
    chosen, config = await backend.process_cluster_options(ANN, {"queue": "long"})
    resolved = config.resolve()
    assert chosen == {"queue": "long"}
    assert resolved.idle_timeout_s == 7200
    assert resolved.environment == {"OWNER": "ann"}
    assert resolved.worker_cmd == ("dask-worker",)
    assert resolved.scheduler_cmd == ("dask-scheduler",)
    assert resolved.scheduler_start_timeout_s == 120
    assert resolved.worker_start_failure_limit == 5
    assert resolved.extra["spill_memory"] == 2 * 2**30
    assert resolved.extra["tunnel_cmd"] == ["ssh"]


async def test_refusals_of_a_backend_of_ones_own_are_the_users(load_site) -> None:
    backend = (
        await asyncio.to_thread(load_site, Path("guarded_backend.conf"))
    ).application.backend

    async def one_cluster(username=None, statuses=None):
        assert (username, len(statuses)) == ("bob", 2)
        return ["a cluster"]

    backend.list_clusters = one_cluster

    with pytest.raises(UserError, match=r"bob has 1 cluster\(s\) already") as refused:
        await backend.start_cluster(BOB, {})
    assert refused.value.http_status == 422
    with pytest.raises(UserError, match="guests may not start clusters"):
        await backend.process_cluster_options(User("guest"), {})


async def test_settings_that_grew_over_years_load_and_go_on_living(load_site) -> None:
    site = await asyncio.to_thread(load_site, Path("live_settings.conf"))
    backend = site.application.backend

    assert site.warnings == [
        (
            "live_settings.conf:7: SimpleAuthenticator.pasword: no setting has this "
            "name, did you mean 'password'?"
        ),
        (
            "live_settings.conf:9: KubeClusterConfig: has no effect: "
            "KubeClusterConfig is not in use"
        ),
        "live_settings.conf:11: YarnBackend: has no effect: dask-gateway dropped YARN",
    ]
    chosen, config = await backend.process_cluster_options(BOB, {"node": "gpu"})
    resolved = config.resolve()
    assert chosen == {"node": "GPU", "memory": 2.0}
    assert (resolved.worker_cores, resolved.worker_threads) == (8, 8)
    assert resolved.worker_memory_bytes == 2 * 2**30
    assert resolved.environment == {"OMP_NUM_THREADS": "1", "TEAM": "students"}

    # The next cluster starts from what the last handler left behind.
    _, later = await backend.process_cluster_options(ANN, {})
    assert later.resolve().environment["TEAM"] == "power-users"
    assert site.loaded.config.LocalClusterConfig.worker_cores == 2
