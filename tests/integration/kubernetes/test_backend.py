"""API servers on a real Kubernetes API server, under the chart's Role alone."""

import asyncio
from collections.abc import Iterator
from datetime import datetime, timedelta

import pytest
from traitlets.config import Config

from backends.kubernetes.backend.backend import KubeBackend
from backends.kubernetes.backend.keys import PERIOD
from gateway.aio.clock import SystemClock
from gateway.config.backend import PublicException
from gateway.domain.cluster import PublicStatus
from gateway.domain.errors import (
    ClusterNotFound,
    ClusterNotRunning,
    InvalidRequest,
    LimitExceeded,
    Rejected,
    Unavailable,
)
from gateway.domain.options import Options, Select, String
from gateway.domain.policy import Caps, Policy
from gateway.domain.sync import SyncReport
from gateway.domain.user import User
from tests.harness.control_plane import ControlPlane
from tests.support.audit import find_refused
from tests.support.database import ALICE, BOB
from tests.support.eventually import eventually
from tests.support.kube_backend import (
    GatewaySite,
    KubeSubject,
    running,
)
from tests.support.kube_kind import install_kind

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

REPORT = SyncReport(protocol=1)


@pytest.fixture(scope="session")
def plane(apiserver: ControlPlane) -> ControlPlane:
    return install_kind(apiserver)


@pytest.fixture
def site(plane: ControlPlane, make_namespace) -> GatewaySite:
    return GatewaySite(plane, make_namespace("gateway"))


def container(extra: dict[str, object]) -> Config:
    settings = {"worker_extra_container_config": extra}
    return Config({"KubeClusterConfig": settings})


# Replicas.


async def test_a_name_is_known_to_every_replica_at_once(site) -> None:
    one, two = site.make_backend(), site.make_backend()
    async with running(one, two):
        for _ in range(10):
            name = await one.start_cluster(ALICE, {})

            assert (await two.get_cluster(name)).owner == "alice"
            assert (await two.scale_cluster(name, 3)).replicas == 3
            await two.stop_cluster(name)

            with pytest.raises(ClusterNotRunning):
                await two.scale_cluster(name, 1)

        async def both_list_the_same() -> bool:
            lists = [await b.list_clusters("alice", PublicStatus) for b in (one, two)]
            return len(lists[0]) == 10 and lists[0] == lists[1]

        await eventually(both_list_the_same)


async def test_a_replica_with_an_old_cache_refuses_wishes_of_a_stopped_cluster(
    site,
) -> None:
    one, two = site.make_backend(), site.make_backend()
    async with running(one, two):
        name = await one.start_cluster(ALICE, {})
        await two.get_cluster(name)

        for _ in range(5):
            await asyncio.gather(one.stop_cluster(name), two.stop_cluster(name))
            with pytest.raises(ClusterNotRunning):
                await two.scale_cluster(name, 1)
            with pytest.raises(ClusterNotRunning):
                await two.end_adaptive(name)


async def test_a_scheduler_that_knows_more_than_a_replica_is_answered_from_the_source(
    site,
) -> None:
    one, two = site.make_backend(), site.make_backend()
    async with running(one, two):
        name = await one.start_cluster(ALICE, {})
        for number in range(1, 9):
            await one.scale_cluster(name, number)
            seen = (await one.sync(name, REPORT)).generation

            reply = await two.sync(name, SyncReport(protocol=1, seen=seen))

            assert (reply.generation, reply.replicas) == (seen, number)


async def test_the_last_wish_wins_whichever_replica_takes_it(site) -> None:
    one, two = site.make_backend(), site.make_backend()
    async with running(one, two):
        name = await one.start_cluster(ALICE, {})
        for _ in range(10):
            # Each has just written, and hardly heard of the other's write.
            await one.scale_cluster(name, 3)
            await two.scale_cluster(name, 5)
            await one.scale_cluster(name, 3)
            assert site.cluster(name)["spec"]["workers"] == {"replicas": 3}

            await two.adapt_cluster(name, 2, 6)
            await one.end_adaptive(name)
            assert "adaptive" not in site.cluster(name)["spec"]["workers"]


async def test_row_66_caps_hold_over_replicas(site) -> None:
    policy = Policy(
        default=Caps(clusters=3), groups={"lab": Caps(clusters=4, workers=6)}
    )
    one, two = site.make_backend(policy), site.make_backend(policy)

    async def create(number: int, user: User) -> str | None:
        try:
            return await (one, two)[number % 2].start_cluster(user, {})
        except LimitExceeded:
            return None

    async with running(one, two):
        tries = [create(n, ALICE if n % 4 < 2 else BOB) for n in range(20)]
        names = [name for name in await asyncio.gather(*tries) if name]

        # Of the group; and none of the two has more than three.
        assert len(names) == 4
        assert {c["metadata"]["name"] for c in site.list_objects()} == set(names)
        owners = [c["spec"]["owner"]["user"] for c in site.list_objects()]
        assert max(owners.count("alice"), owners.count("bob")) <= 3

        wishes = [(one, two)[n % 2].scale_cluster(names[n], 5) for n in range(4)]
        accepted = [outcome.replicas for outcome in await asyncio.gather(*wishes)]

        assert sum(accepted) == 6
        wanted = [c["spec"]["workers"]["replicas"] for c in site.list_objects()]
        assert sum(wanted) == 6


async def test_what_was_promised_to_a_cluster_that_never_came_is_taken_back(
    site, monkeypatch
) -> None:
    policy = Policy(default=Caps(clusters=1))
    backend = site.make_backend(policy)
    async with running(backend):
        # As if the process had been killed between promise and creation.
        dead = site.make_backend(policy)
        async with running(dead):
            monkeypatch.setattr(
                dead._run.store, "create", lambda _: asyncio.Event().wait()
            )
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(5):
                    await dead.start_cluster(ALICE, {})

        with pytest.raises(LimitExceeded):
            await backend.start_cluster(ALICE, {})
        backend._run.shares._clock = Later(timedelta(seconds=61))

        assert await backend.start_cluster(ALICE, {})


async def test_a_cluster_that_is_refused_leaves_no_promise(site) -> None:
    policy = Policy(default=Caps(clusters=1))
    bad = site.make_backend(policy, config=container({"nonsense": 1}))
    good = site.make_backend(policy)
    async with running(bad, good):
        for _ in range(3):
            with pytest.raises(InvalidRequest, match="nonsense"):
                await bad.start_cluster(ALICE, {})

        assert await good.start_cluster(ALICE, {})


# What the API server refuses.


@pytest.mark.parametrize(
    ("extra", "want"),
    [
        ({"nonsense": 1}, r"nonsense"),
        ({"env": "A=1"}, r"spec\.worker\.template.*env"),
        ({"ports": [{"containerPort": "x"}]}, r"containerPort"),
        ({"workingDir": "x" * 4_000_000}, r"too large|limit"),
    ],
)
async def test_what_the_api_server_refuses_reaches_the_user_with_its_field(
    site, extra, want
) -> None:
    backend = site.make_backend(config=container(extra))
    async with running(backend):
        with pytest.raises(InvalidRequest, match=want):
            await backend.start_cluster(ALICE, {})

        assert site.list_objects() == []


@pytest.fixture
def large_clusters_forbidden(site) -> Iterator[None]:
    """A rule of the platform's, as a site's own admission policy."""
    group = "/apis/admissionregistration.k8s.io/v1"
    policies = f"{group}/validatingadmissionpolicies"
    bindings = f"{group}/validatingadmissionpolicybindings"
    name = f"no-large-{site.home}"
    rules = {
        "apiGroups": ["daskfleet.io"],
        "apiVersions": ["*"],
        "operations": ["CREATE"],
        "resources": ["daskclusters"],
    }
    expression = "object.spec.options.?size.orValue(0) < 5"
    policy = {
        "metadata": {"name": name},
        "spec": {
            "matchConstraints": {"resourceRules": [rules]},
            "validations": [
                {
                    "expression": expression,
                    "message": "no large clusters here",
                    "reason": "Forbidden",
                }
            ],
        },
    }
    selector = {"matchLabels": {"kubernetes.io/metadata.name": site.home}}
    binding = {
        "metadata": {"name": name},
        "spec": {
            "policyName": name,
            "validationActions": ["Deny"],
            "matchResources": {"namespaceSelector": selector},
        },
    }
    site.api.post(policies, policy)
    site.api.post(bindings, binding)
    yield
    site.api.delete(f"{bindings}/{name}")
    site.api.delete(f"{policies}/{name}")


@pytest.mark.usefixtures("large_clusters_forbidden")
async def test_a_rule_of_the_platform_is_a_refusal_with_its_text(site) -> None:
    backend = site.make_backend()
    async with running(backend):
        # In force some moments after it was made.
        async def is_refused() -> bool:
            try:
                await backend.start_cluster(ALICE, {"size": 6})
            except Rejected as error:
                return "no large clusters here" in str(error)
            return False

        await eventually(is_refused)
        assert await backend.start_cluster(ALICE, {"size": 4})


# Where pods go.


@pytest.mark.parametrize(
    ("namespace", "chosen", "want"),
    [
        ("team-{group}", {}, "team-lab"),
        ("dask", {}, "dask"),
        ("dask", {"namespace": "team-lab"}, "team-lab"),
    ],
)
async def test_pods_go_where_setting_rule_or_option_say(
    site, namespace, chosen, want
) -> None:
    backend = site.make_backend(
        config=Config({"KubeClusterConfig": {"namespace": namespace}}),
        target_namespaces=["dask", "team-*"],
        cluster_options=Options(Select("namespace", ["dask", "team-lab"]))
        if chosen
        else Options(),
    )
    async with running(backend):
        name = await backend.start_cluster(ALICE, chosen)

        assert site.cluster(name)["spec"]["targetNamespace"] == want


async def test_a_namespace_that_is_not_on_the_list_is_refused(site) -> None:
    backend = site.make_backend(
        cluster_options=Options(String("namespace", default="default"))
    )
    async with running(backend):
        with pytest.raises(InvalidRequest, match="may not go to 'kube-system'"):
            await backend.start_cluster(ALICE, {"namespace": "kube-system"})

        assert site.list_objects() == []


# Who asks, and sites' own classes.


@pytest.mark.parametrize(
    "name", ["a@b.co", "x_y.", "-lead", "u" * 70, "Zoë", "system:admin", "a b"]
)
async def test_row_31_any_name_of_a_user_makes_a_cluster_that_is_found(
    site, name
) -> None:
    user = User(name, groups=["Größe & co"])
    backend = site.make_backend()
    async with running(backend):
        made = await backend.start_cluster(user, {})

        assert [c.name for c in await backend.list_clusters(name)] == [made]
        found = site.cluster(made)
        assert found["spec"]["owner"] == {"user": name, "groups": ["Größe & co"]}
        label = found["metadata"]["labels"]["daskfleet.io/owner"]
        selected = site.list_objects(labelSelector=f"daskfleet.io/owner={label}")
        assert [c["metadata"]["name"] for c in selected] == [made]


class SitesOwn(KubeBackend):
    """A site's class, written for dask-gateway."""

    def make_cluster_object(self, username, options, config):
        made = super().make_cluster_object(username, options, config)
        made["metadata"]["annotations"]["site/cost-centre"] = "42"
        made["spec"]["retentionSeconds"] = 60
        return made

    async def start_cluster(self, user, cluster_options):
        if user.name == "mallory":
            raise PublicException("not you")
        return await super().start_cluster(user, cluster_options)


async def test_a_sites_own_class_shapes_the_object_and_refuses(site) -> None:
    backend = site.make_backend(cls=SitesOwn)
    async with running(backend):
        with pytest.raises(PublicException, match="not you"):
            await backend.start_cluster(User("mallory"), {})
        name = await backend.start_cluster(ALICE, {})

    made = site.cluster(name)
    assert made["metadata"]["annotations"]["site/cost-centre"] == "42"
    assert made["spec"]["retentionSeconds"] == 60
    assert made["spec"]["owner"] == {"user": "alice", "groups": ["lab"]}


# What kubectl makes.


async def test_a_cluster_made_by_kubectl_is_its_owners(site) -> None:
    backend = site.make_backend()
    async with running(backend):
        site.make_cluster("mine", workers={"replicas": 2})

        assert (await backend.get_cluster("mine")).owner == "alice"
        assert [c.name for c in await backend.list_clusters("alice")] == ["mine"]
        assert await backend.list_clusters("bob") == ()
        assert (await backend.sync("mine", REPORT)).replicas == 2
        assert not await backend.check_token("mine", "guess")
        # Its keys are whoever's who comes first.
        await backend._run.keys.ensure(backend._run.store.find("mine"))
        assert await backend.check_token("mine", site.master("mine")["api-token"])
        await backend.scale_cluster("mine", 3)
        await backend.stop_cluster("mine")
        assert site.cluster("mine")["spec"]["active"] is False


async def test_what_kubectl_changes_wakes_who_waits(site) -> None:
    backend = site.make_backend()
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        version = (await backend.get_cluster(name)).version

        async with asyncio.timeout(30), asyncio.TaskGroup() as group:
            group.create_task(backend.wait_for_change(name, version, 60))
            await asyncio.sleep(0)
            site.api.patch(site.path(name), {"spec": {"workers": {"replicas": 4}}})

        async def is_known() -> bool:
            return (await backend.get_wanted(name)).replicas == 4

        await eventually(is_known)


async def test_a_cluster_that_kubectl_deletes_is_gone(site) -> None:
    backend = site.make_backend()
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        kept = await backend.list_clusters("alice")
        assert await backend.list_clusters("alice") is kept
        site.api.delete(site.path(name))

        async def is_gone() -> bool:
            return await backend.list_clusters("alice") == ()

        await eventually(is_gone)
        with pytest.raises(ClusterNotFound):
            await backend.get_cluster(name)
        assert backend._run.store.epoch_of("alice") == 0
        again = await backend.start_cluster(ALICE, {})
        assert [c.name for c in await backend.list_clusters("alice")] == [again]


# What is written, and by whom.


async def test_a_new_cluster_is_two_writes_and_belongs_to_the_release(
    site, audit
) -> None:
    backend = site.make_backend()
    async with running(backend):
        await backend.start_cluster(BOB, {})
        mark = audit.mark()
        name = await backend.start_cluster(ALICE, {})
        asked = audit.since(mark, user=site.account.user)

    made = site.cluster(name)["metadata"]
    uid = site.anchor["metadata"]["uid"]
    assert [owner["uid"] for owner in made["ownerReferences"]] == [uid]
    assert made["labels"]["gateway.dask.org/instance"] == "test"
    assert made["labels"]["daskfleet.io/owner"] == "alice"
    # The Secret is looked for before it is made.
    verbs = [(r.right.verb, r.right.resource) for r in asked]
    assert verbs == [
        ("create", "daskclusters"),
        ("get", "secrets"),
        ("create", "secrets"),
    ]


async def test_a_settled_cluster_costs_no_call(site, audit) -> None:
    backend = site.make_backend()
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        subject = KubeSubject([backend], site)
        await subject.run(name)
        report = SyncReport(protocol=1, workers=(f"{name}-worker-0",))
        await backend.sync(name, report)
        token = await subject.token(name)
        mark = audit.mark()

        for _ in range(20):
            assert await backend.check_token(name, token)
            await backend.sync(name, report)
            await backend.get_wanted(name)
            await backend.get_cluster(name)
            await backend.list_clusters("alice")
            await backend.check_ready()

        assert audit.since(mark, user=site.account.user) == []


async def test_p13_many_wishes_at_once_are_few_writes_and_the_last_one_stays(
    site, audit
) -> None:
    backend = site.make_backend()
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        mark = audit.mark()

        wishes = [backend.scale_cluster(name, n % 8) for n in range(200)]
        await asyncio.gather(*wishes)
        asked = audit.since(mark, user=site.account.user)

    assert 1 <= len(asked) <= 2, asked
    assert site.cluster(name)["spec"]["workers"] == {"replicas": 199 % 8}


async def test_firsts_are_written_once_by_whichever_replica(site) -> None:
    one, two = site.make_backend(), site.make_backend()
    async with running(one, two):
        two._run.client.clock = Later(timedelta(hours=1))
        name = await one.start_cluster(ALICE, {})
        report = SyncReport(protocol=1, workers=(f"{name}-worker-0",))

        await one.sync(name, report)
        before = site.cluster(name)["status"]
        await two.sync(name, report)

        assert site.cluster(name)["status"] == before
        assert set(before) == {"firstSyncTime", "firstWorkerTime"}


async def test_a_target_is_status_and_leaves_the_spec_alone(site) -> None:
    backend = site.make_backend()
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        await backend.adapt_cluster(name, 1, 6)
        bounds = (await backend.get_wanted(name)).adaptive
        generation = site.cluster(name)["metadata"]["generation"]

        report = SyncReport(protocol=1, adaptive_id=bounds.id, target=4)
        assert (await backend.sync(name, report)).replicas == 4

        found = site.cluster(name)
        assert found["metadata"]["generation"] == generation
        assert found["status"]["adaptiveTarget"] == {"id": bounds.id, "target": 4}
        # New bounds begin with what runs.
        await backend.adapt_cluster(name, 0, 5)
        assert (await backend.get_wanted(name)).replicas == 4


async def test_an_idle_cluster_is_stopped_by_its_own_report(site) -> None:
    backend = site.make_backend(
        config=Config({"KubeClusterConfig": {"idle_timeout": 60}})
    )
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        await KubeSubject([backend], site).run(name)

        busy = await backend.sync(name, SyncReport(protocol=1, idle_s=59))
        # A held call is answered when the time may be over.
        assert busy.due_s == 1
        idle = await backend.sync(name, SyncReport(protocol=1, idle_s=61))

        assert (busy.active, idle.active) == (True, False)
        cluster = await backend.get_cluster(name)
        assert cluster.status is PublicStatus.STOPPING
        assert cluster.reason == "IdleTimeout"


async def test_r8_a_clock_that_is_wrong_by_days_ends_nothing_and_orders_nothing(
    site,
) -> None:
    settings = {"max_lifetime": 3600}
    right, wrong = (
        site.make_backend(config=Config({"KubeClusterConfig": settings}))
        for _ in range(2)
    )
    wrong.clock = Later(timedelta(days=400))
    async with running(right, wrong):
        names = [await b.start_cluster(ALICE, {}) for b in (wrong, right, wrong)]
        await KubeSubject([wrong], site).run(names[0])

        assert (await wrong.sync(names[0], REPORT)).active
        client = (await wrong.get_cluster(names[0])).client
        assert client.certificate == site.master(names[0])["client.crt"]

        async def all_are_listed() -> bool:
            found = await right.list_clusters("alice")
            return {c.name for c in found} == set(names)

        await eventually(all_are_listed)


async def test_row_40_the_end_of_the_longest_life_is_told_before_it_comes(site) -> None:
    backend = site.make_backend(
        config=Config({"KubeClusterConfig": {"max_lifetime": 100}})
    )
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        await KubeSubject([backend], site).run(name)
        replies = []
        for age_s in (70, 90, 110):
            backend._run.client.clock = Later(timedelta(seconds=age_s))
            replies.append(await backend.sync(name, REPORT))

        assert [reply.active for reply in replies] == [True, True, False]
        assert [bool(reply.notice) for reply in replies] == [False, True, False]
        assert "max_lifetime" in replies[1].notice
        assert (await backend.get_cluster(name)).reason == "MaxLifetime"


async def test_who_waits_for_workers_is_not_idle(site) -> None:
    backend = site.make_backend(
        config=Config({"KubeClusterConfig": {"idle_timeout": 60}})
    )
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        await KubeSubject([backend], site).run(name)
        await backend.scale_cluster(name, 2)
        idle = SyncReport(protocol=1, idle_s=100, workers=(f"{name}-worker-0",))

        assert (await backend.sync(name, idle)).active
        # A worker may take ten minutes, and the cluster may then idle for one.
        backend._run.client.clock = Later(timedelta(seconds=661))
        assert not (await backend.sync(name, idle)).active


# Keys.


async def test_a_clients_leaf_is_renewed_in_time_and_is_the_same_everywhere(
    site,
) -> None:
    one, two = site.make_backend(), site.make_backend()
    async with running(one, two):
        name = await one.start_cluster(ALICE, {})
        subject = KubeSubject([one], site)
        await subject.run(name)
        first = (await one.get_cluster(name)).client
        for backend in (one, two):
            backend._run.keys._clock = Later(PERIOD + timedelta(seconds=60))

        pairs = await asyncio.gather(
            *(b.get_cluster(name) for b in (one, two, one, two))
        )
        again = await one.get_cluster(name)

        assert len({pair.client.certificate for pair in pairs}) == 1
        assert again.client == pairs[0].client
        assert again.client != first
        assert first.certificate == site.master(name)["client.crt"]


# The API server away.


async def test_without_the_api_server_what_is_known_is_told_and_writes_end_in_time(
    plane, site
) -> None:
    backend = site.make_backend(k8s_api_timeout=1.0)
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        plane.apiserver.pause()
        try:
            assert (await backend.get_cluster(name)).name == name
            assert len(await backend.list_clusters("alice")) == 1
            assert (await backend.get_wanted(name)).active
            for call in (
                lambda: backend.start_cluster(ALICE, {}),
                lambda: backend.scale_cluster(name, 2),
                lambda: backend.stop_cluster(name),
                lambda: backend.get_cluster("c-unknown"),
            ):
                async with asyncio.timeout(15):
                    with pytest.raises(Unavailable):
                        await call()
        finally:
            plane.apiserver.resume()

        assert (await backend.scale_cluster(name, 2)).replicas == 2
        await backend.stop_cluster(name)
        assert site.cluster(name)["spec"]["active"] is False


async def test_a_gateway_without_an_api_server_does_not_start(site, tmp_path) -> None:
    path = tmp_path / "kubeconfig"
    text = site.account.kubeconfig.read_text()
    path.write_text(text.replace(site.plane.url, "https://127.0.0.1:1"))
    backend = site.make_backend(kubeconfig=str(path))
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(2):
            await backend.setup(None)

    with pytest.raises(Unavailable):
        await backend.check_ready()


async def test_the_role_is_enough(site, audit) -> None:
    mark = audit.mark()
    backend = site.make_backend(Policy(default=Caps(clusters=9)))
    async with running(backend):
        name = await backend.start_cluster(ALICE, {})
        await KubeSubject([backend], site).run(name)
        await backend.sync(name, REPORT)
        await backend.get_cluster(name)
        await backend.scale_cluster(name, 2)
        await backend.adapt_cluster(name, 0, 3)
        await backend.end_adaptive(name)
        await backend.list_events(name)
        await backend.list_workers(name)
        await backend.stop_cluster(name)

    assert find_refused(audit.since(mark, user=site.account.user)) == []


class Later(SystemClock):
    """The clock of a machine that is so much ahead."""

    def __init__(self, ahead: timedelta) -> None:
        self._ahead = ahead

    def now(self) -> datetime:
        return super().now() + self._ahead

    def note(self, date: str, sent_s: float) -> None:
        """Learn nothing from the API server."""
