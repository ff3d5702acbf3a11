"""The cache of an informer: by name, by cluster, with our own writes over it."""

from backends.kubernetes.api.views import Cache
from backends.kubernetes.observed.services import ServiceView


def view(
    name: str, version: int, *, cluster: str = "c1", uid: str = "u"
) -> ServiceView:
    return ServiceView(
        namespace="team",
        name=name,
        uid=uid,
        resource_version=str(version),
        cluster=cluster,
    )


def test_our_own_write_is_seen_until_the_informer_has_it() -> None:
    cache: Cache[ServiceView] = Cache()
    cache.put(view("a", 1))
    cache.record(view("b", 5))

    before = {v.name for v in cache.of_cluster("c1")}
    cache.reached(5)

    assert before == {"a", "b"}
    assert {v.name for v in cache.of_cluster("c1")} == {"a"}


def test_an_object_that_changes_its_cluster_is_in_the_new_one_alone() -> None:
    cache: Cache[ServiceView] = Cache()
    cache.put(view("a", 1))

    cache.put(view("a", 2, cluster="c2"))

    assert cache.of_cluster("c1") == ()
    assert [v.name for v in cache.of_cluster("c2")] == ["a"]


def test_nothing_is_kept_of_what_is_gone() -> None:
    cache: Cache[ServiceView] = Cache()
    cache.put(view("a", 1))

    cache.remove(view("a", 2))

    assert len(cache) == 0
    assert cache.find("team", "a") is None
    assert cache._by_cluster == {}
