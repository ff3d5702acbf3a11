"""A gateway that is away, or talks nonsense, changes nothing in a cluster."""

import ssl
from datetime import UTC, datetime

import pytest

from gateway.credentials import make_credentials
from tests.support.eventually import eventually
from tests.support.sync_server import SyncServer

pytestmark = pytest.mark.integration


async def _start_computing(world):
    await world.start()
    await world.server.want(replicas=1)
    await world.start_worker(0)
    await world.run("a = client.submit(work, folder, 'a')")
    await eventually(lambda: world.started("a"))


async def _check_nothing_happened(world):
    reports = len(world.server.reports)
    await eventually(lambda: len(world.server.reports) > reports, within=60)
    assert world.server.last.workers == ("c1-worker-0",)
    assert world.server.last.draining == ()
    world.let_go("a")
    assert await world.run("answer = a.result()") == "a"
    assert world.started("a") == ["c1-worker-0"]
    assert world.log().count("no answer from the gateway") == 1
    await eventually(lambda: "the gateway answers again" in world.log())


async def test_outage_of_the_gateway_changes_nothing(world):
    """Row 20 of users.md: a compute outlives a gateway that was away."""
    await _start_computing(world)

    await world.server.stop()
    await world.start_worker("gpu", connected=False)
    await eventually(lambda: "no answer from the gateway" in world.log())
    await eventually(
        lambda: world.run("answer = len(client.scheduler_info()['workers']) == 2")
    )
    # Long enough for several tries: each is a wait of 0.5 s and then twice as long.
    for number in range(10):
        await world.run(f"time.sleep(0.5); answer = {number}")
    await world.server.start()

    await _check_nothing_happened(world)
    assert world.server.last.outsiders == 1


async def test_answer_that_makes_no_sense_changes_nothing(world):
    """A gateway that knows nothing of the cluster, a proxy's pages, a redirect."""
    await _start_computing(world)

    for status in (401, 302, 200):
        world.server.failing = status
        calls = world.server.calls
        await world.server.want(replicas=0)
        await eventually(lambda calls=calls: world.server.calls > calls, within=60)
    await world.server.want(replicas=1)
    world.server.failing = None

    await _check_nothing_happened(world)


async def test_lower_generation_is_ignored_and_later_protocols_are_understood(world):
    await world.start()
    world.server.extra = {"protocol": 7, "colour": "blue"}
    await world.server.want(replicas=2)
    await world.start_worker(0)
    await world.start_worker(1)
    seen = world.server.reply.generation

    # A replica whose cache lags: it answers at once, with what was before.
    world.server.extra = {"generation": seen - 1, "replicas": 0}
    await world.server.want(replicas=2)
    await eventually(lambda: world.server.last.seen == seen)
    world.server.extra = {}
    await world.server.want(replicas=2)

    await eventually(lambda: world.server.last.seen == world.server.reply.generation)
    assert len(world.server.last.workers) == 2
    assert not any(report.draining for report in world.server.reports)


async def test_cluster_that_is_to_stop_is_left_to_the_gateway(world):
    await _start_computing(world)

    await world.server.want(active=False, replicas=0)

    await eventually(lambda: world.server.last.seen == world.server.reply.generation)
    await world.start_worker("gpu", connected=False)
    await eventually(lambda: world.server.last.outsiders == 1)
    assert world.server.last.workers == ("c1-worker-0",)
    assert world.scheduler.returncode is None
    world.let_go("a")
    assert await world.run("answer = a.result()") == "a"


async def test_only_the_given_certificate_is_trusted(world):
    """The gateway's name does not count, and neither do the machine's authorities."""
    trusted = world.folder / "leaf.pem"
    tls = _renew(world, trusted)
    world.server = SyncServer(tls=tls)
    await world.server.start()
    world.environment["DASK_GATEWAY_API_URL"] = world.server.url
    # One trusts the leaf itself, the other another authority.
    strangers = make_credentials("api", datetime(2026, 1, 1, tzinfo=UTC))
    other = world.folder / "other.pem"
    other.write_text(strangers.ca_certificate)

    world.environment["DASK_GATEWAY_API_CA_FILE"] = str(other)
    await world.run_scheduler(name="stranger")
    await eventually(lambda: "no answer from the gateway" in world.log("stranger"))
    assert "CERTIFICATE_VERIFY_FAILED" in world.log("stranger")
    assert world.server.calls == 0

    world.environment["DASK_GATEWAY_API_CA_FILE"] = str(trusted)
    await world.run_scheduler()
    await eventually(lambda: world.server.last.ports)


async def test_certificate_that_shares_no_issuer_with_the_last_is_trusted_once_given(
    world,
):
    trusted = world.folder / "leaf.pem"
    world.server = SyncServer(tls=_renew(world, trusted))
    world.environment["DASK_GATEWAY_API_CA_FILE"] = str(trusted)
    await world.start()
    first = trusted.read_text()

    await world.server.stop()
    world.server.tls = _renew(world, trusted)
    given = trusted.read_text()
    trusted.write_text(first)  # the file comes later than the certificate
    greetings = []
    world.server.tls.sni_callback = lambda *hello: greetings.append(hello)
    calls = world.server.calls
    await world.server.start()
    await eventually(lambda: len(greetings) > 2, within=60)
    assert world.server.calls == calls
    trusted.unlink()  # and is away for a moment
    trusted.write_text(given)

    await eventually(lambda: world.server.calls > calls, within=60)
    await world.server.want(replicas=1)
    await world.start_worker(0)
    assert world.scheduler.returncode is None


def _renew(world, trusted):
    """Write a new certificate to trust; return the context that serves it."""
    leaf = make_credentials("api", datetime(2026, 1, 1, tzinfo=UTC)).scheduler
    trusted.write_text(leaf.certificate)
    key = world.folder / "key.pem"
    key.write_text(leaf.key)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(trusted, key)
    return tls
