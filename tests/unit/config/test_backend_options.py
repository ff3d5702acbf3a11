"""From a request to a cluster's configuration, as `Backend` does it."""

# ruff: noqa: ARG005 - handlers take what the contract gives them

import asyncio

import pytest
import structlog
from traitlets.config import Config

from gateway.config.backend import Backend, PublicException
from gateway.config.cluster import ClusterConfig
from gateway.domain.errors import InvalidRequest, RefusedOptions, Unavailable, UserError
from gateway.domain.options import (
    Float,
    Integer,
    Mapping,
    Options,
    Select,
    String,
)
from gateway.domain.user import User

ALICE = User("alice", groups=["lab"])
BOB = User("bob")


def make(cluster_options=None, config: Config | None = None, **settings) -> Backend:
    config = Config() if config is None else config
    if cluster_options is not None:
        config.Backend.cluster_options = cluster_options
    return Backend(config=config, **settings)


async def test_no_options_are_offered_by_default() -> None:
    backend = make()

    assert (await backend.get_cluster_options(ALICE)).get_specification() == []
    chosen, config = await backend.process_cluster_options(ALICE, {})
    assert chosen == {}
    assert config.resolve() == ClusterConfig().resolve()


def for_user(user):
    return Options(Integer("n", 4 if "lab" in user.groups else 1))


async def for_user_later(user):
    await asyncio.to_thread(len, "directory")
    return for_user(user)


class Callables:
    def __call__(self, user):
        return for_user(user)


@pytest.mark.parametrize("offer", [for_user, for_user_later, Callables()])
async def test_options_may_depend_on_the_user(offer) -> None:
    backend = make(offer)

    chosen, _ = await backend.process_cluster_options(ALICE, {})
    assert chosen == {"n": 4}
    chosen, _ = await backend.process_cluster_options(BOB, {})
    assert chosen == {"n": 1}


async def test_options_may_be_a_property_or_a_method_of_a_derived_class() -> None:
    class ByProperty(Backend):
        @property
        def cluster_options(self):
            return Options(String("a"))

    class ByMethod(Backend):
        async def cluster_options(self, user):
            return Options(String(user.name))

    for backend, want in ((ByProperty(), "a"), (ByMethod(), "alice")):
        options = await backend.get_cluster_options(ALICE)
        assert [field.field for field in options.fields] == [want]


async def test_options_that_are_none_are_a_bug_and_not_the_users() -> None:
    with pytest.raises(TypeError, match="must give Options"):
        await make(lambda user: None).process_cluster_options(ALICE, {})


async def test_options_may_refuse_a_user() -> None:
    def offer(user):
        raise ValueError(f"{user.name} has no quota")

    with pytest.raises(RefusedOptions, match="alice has no quota"):
        await make(offer).process_cluster_options(ALICE, {})


async def test_a_value_that_a_setting_refuses_names_the_field_it_came_from() -> None:
    backend = make(Options(String("memory", "1 G", target="worker_memory")))

    with pytest.raises(InvalidRequest) as refused:
        await backend.process_cluster_options(ALICE, {"memory": "a lot"})

    assert str(refused.value).startswith("cluster_options.memory: 'a lot' is no amount")


async def test_a_value_that_a_handler_passes_on_names_the_field_it_came_from() -> None:
    backend = make(
        Options(
            String("how_much"),
            handler=lambda options: {"worker_memory": options.how_much},
        )
    )

    with pytest.raises(InvalidRequest) as refused:
        await backend.process_cluster_options(ALICE, {"how_much": "a lot"})

    assert refused.value.field == "cluster_options.how_much"


async def test_a_value_that_a_handler_made_up_names_the_setting() -> None:
    backend = make(Options(handler=lambda options: {"worker_cores": -1}))

    with pytest.raises(RefusedOptions, match="worker_cores: cores must be >= 0"):
        await backend.process_cluster_options(ALICE, {})


async def test_limits_are_checked_before_anything_is_stored() -> None:
    config = Config()
    config.ClusterConfig.cluster_max_memory = "4 G"
    backend = make(
        Options(Float("gib", 1), handler=lambda o: {"scheduler_memory": f"{o.gib} G"}),
        config,
    )

    with pytest.raises(RefusedOptions, match=r"Scheduler memory request of 8\.00"):
        await backend.process_cluster_options(ALICE, {"gib": 8})


async def test_w19_a_name_that_is_no_setting_warns_with_the_nearest_one() -> None:
    backend = make(Options(handler=lambda options: {"worker_core": 2}))

    with structlog.testing.capture_logs() as logs:
        _, config = await backend.process_cluster_options(ALICE, {})
        await backend.process_cluster_options(BOB, {})

    assert config.worker_cores == 1
    assert [entry["problem"] for entry in logs] == [
        "'worker_core' is no setting, did you mean 'worker_cores'?"
    ]


async def test_w19_strictly_such_a_name_is_an_error_of_the_handler() -> None:
    backend = make(Options(handler=lambda options: {"worker_core": 2}), strict=True)

    with pytest.raises(LookupError, match="did you mean 'worker_cores'") as error:
        await backend.process_cluster_options(ALICE, {})
    assert not isinstance(error.value, UserError | ValueError)


async def test_without_a_handler_names_of_no_setting_are_stored_all_the_same() -> None:
    backend = make(Options(String("note"), Integer("worker_cores", 1)), strict=True)

    chosen, config = await backend.process_cluster_options(
        ALICE, {"note": "x", "worker_cores": 3}
    )

    assert chosen == {"note": "x", "worker_cores": 3}
    assert config.worker_cores == 3


async def test_a_mapping_replaces_the_setting_and_the_lost_keys_are_logged() -> None:
    config = Config()
    config.ClusterConfig.environment = {"TZ": "UTC", "PROXY": "p"}
    options = Options(
        Mapping("env"), handler=lambda o: {"environment": {"PROXY": "q", **o.env}}
    )
    backend = make(options, config)

    with structlog.testing.capture_logs() as logs:
        for _ in range(2):
            _, made = await backend.process_cluster_options(ALICE, {"env": {"A": "1"}})

    assert made.resolve().environment == {"PROXY": "q", "A": "1"}
    assert [(e["name"], e["lost_keys"]) for e in logs] == [("environment", ("TZ",))]


@pytest.mark.parametrize("how", ["in place", "assignment", "nested"])
async def test_what_a_handler_writes_into_c_shapes_this_cluster_and_later_ones(
    how,
) -> None:
    c = Config()
    c.ClusterConfig.environment = {"A": "1"}

    def handler(options):
        if how == "in place":
            c.ClusterConfig.worker_cores = options.n
        elif how == "assignment":
            c.ClusterConfig = Config({"worker_cores": options.n})
        else:
            c["ClusterConfig"]["worker_cores"] = options.n
            c.ClusterConfig.environment["N"] = str(options.n)
        return {}

    backend = make(Options(Integer("n", 0), handler=handler), c)

    with structlog.testing.capture_logs() as logs:
        _, first = await backend.process_cluster_options(ALICE, {"n": 5})
        _, second = await backend.process_cluster_options(ALICE, {"n": 6})
    later = ClusterConfig(parent=backend)

    assert (first.worker_cores, second.worker_cores, later.worker_cores) == (5, 6, 6)
    assert len(logs) == 1
    assert "ClusterConfig.worker_cores" in logs[0]["settings"]
    if how == "nested":
        assert first.environment == {"A": "1", "N": "5"}
        assert second.environment == {"A": "1", "N": "6"}


async def test_handlers_that_wait_do_not_write_into_each_others_clusters() -> None:
    c = Config()

    async def handler(options):
        c.ClusterConfig.worker_cores = options.n
        await asyncio.to_thread(len, "directory")
        return {}

    backend = make(Options(Integer("n", 0), handler=handler), c)

    made = await asyncio.gather(
        *(backend.process_cluster_options(ALICE, {"n": n}) for n in range(1, 8))
    )

    assert [config.worker_cores for _, config in made] == list(range(1, 8))


async def test_a_handler_that_never_ends_ends_the_request_and_no_other() -> None:
    async def handler(options):
        if options.stuck == "yes":
            await asyncio.Event().wait()
        return {}

    backend = make(
        Options(Select("stuck", ["no", "yes"]), handler=handler),
        cluster_options_timeout=0.05,
    )

    with pytest.raises(Unavailable):
        await backend.process_cluster_options(ALICE, {"stuck": "yes"})
    backend.cluster_options_timeout = 0
    assert (await backend.process_cluster_options(ALICE, {}))[0] == {"stuck": "no"}


async def test_a_derived_class_may_refuse_and_may_change_what_was_made() -> None:
    class Site(Backend):
        async def process_cluster_options(self, user, request):
            if user.name == "bob":
                raise PublicException("bob is on leave")
            chosen, config = await super().process_cluster_options(user, request)
            config.environment = {"OWNER": user.name}
            return chosen, config

    backend = Site()

    _, config = await backend.process_cluster_options(ALICE, {})
    assert config.resolve().environment == {"OWNER": "alice"}
    with pytest.raises(UserError, match="bob is on leave") as refused:
        await backend.process_cluster_options(BOB, {})
    assert refused.value.http_status == 422


async def test_a_bad_value_in_the_live_configuration_is_told_too() -> None:
    c = Config()

    def handler(options):
        c.ClusterConfig.worker_memory = options.memory
        return {}

    backend = make(Options(String("memory"), handler=handler), c)

    with pytest.raises(UserError, match="'lots' is no amount of memory"):
        await backend.process_cluster_options(ALICE, {"memory": "lots"})
