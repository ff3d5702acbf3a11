"""Pods and strategic patches at random, the same for the same seed."""

from collections.abc import Callable
from random import Random
from typing import Any

Json = dict[str, Any]
_NAMES = ("a", "b", "c")


def random_pod(random: Random) -> Json:
    """Return a pod with some of the parts that patches are made for."""
    names = random.sample(_NAMES, random.randint(1, 3))
    spec: Json = {"containers": [_container(random, name) for name in names]}
    if random.random() < 0.7:
        spec["volumes"] = [_volume(random, n) for n in _some(random)]
    if random.random() < 0.6:
        spec["tolerations"] = [_toleration(random) for _ in _some(random)]
    if random.random() < 0.5:
        spec["nodeSelector"] = _texts(random)
    if random.random() < 0.5:
        spec["imagePullSecrets"] = [{"name": name} for name in _some(random)]
    if random.random() < 0.3:
        spec["securityContext"] = {"runAsUser": random.randint(1, 9)}
    metadata: Json = {"name": "p", "labels": _texts(random)}
    if random.random() < 0.5:
        metadata["finalizers"] = [f"x.io/{name}" for name in _some(random)]
    if random.random() < 0.5:
        metadata["annotations"] = _texts(random)
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def random_patch(random: Random) -> Json:
    """Return a strategic patch for such a pod; now and then an unsound one."""
    patch: Json = {}
    if random.random() < 0.4:
        patch["metadata"] = _patch_metadata(random)
    if random.random() < 0.9:
        patch["spec"] = _patch_spec(random)
    return patch


def _patch_metadata(random: Random) -> Json:
    metadata: Json = {}
    for name in ("labels", "annotations"):
        if random.random() < 0.5:
            metadata[name] = _patch_map(random, _texts(random))
    if random.random() < 0.3:
        metadata["finalizers"] = [f"x.io/{name}" for name in _some(random)]
        if random.random() < 0.4:
            order = [*metadata["finalizers"], "x.io/z"]
            metadata["$setElementOrder/finalizers"] = order
    elif random.random() < 0.3:
        doomed = [f"x.io/{name}" for name in _some(random)]
        metadata["$deleteFromPrimitiveList/finalizers"] = doomed
    return metadata


def _patch_spec(random: Random) -> Json:
    spec: Json = {}
    if random.random() < 0.7:
        _patch_list(random, spec, "containers", "name", _patch_container)
    if random.random() < 0.4:
        _patch_list(random, spec, "volumes", "name", _volume)
    if random.random() < 0.3:
        _patch_list(random, spec, "imagePullSecrets", "name", lambda _, n: {"name": n})
    if random.random() < 0.3:
        spec["tolerations"] = [_toleration(random) for _ in _some(random)]
    if random.random() < 0.2:
        spec["nodeSelector"] = _patch_map(random, _texts(random))
    if random.random() < 0.2:
        spec["securityContext"] = _patch_map(
            random, {"runAsUser": random.randint(1, 9), "fsGroup": 1}
        )
    if random.random() < 0.1:
        spec[random.choice(["tolerations", "volumes", "hostname"])] = None
    return spec


def _patch_container(random: Random, name: str) -> Json:
    container: Json = {"name": name}
    if random.random() < 0.5:
        _patch_list(random, container, "env", "name", _variable)
    if random.random() < 0.3:
        _patch_list(random, container, "volumeMounts", "mountPath", _mount)
    if random.random() < 0.3:
        _patch_list(random, container, "ports", "containerPort", _port)
    if random.random() < 0.3:
        container["args"] = _some(random)
    elif random.random() < 0.3:
        container["$deleteFromPrimitiveList/args"] = _some(random)
    return {**container, **_patch_scalars(random)}


def _patch_scalars(random: Random) -> Json:
    found: Json = {}
    if random.random() < 0.3:
        limits = _patch_map(random, {"cpu": "1", "x/y": "2"})
        found["resources"] = {"limits": limits}
    if random.random() < 0.2:
        found[random.choice(["image", "args", "env"])] = None
    if random.random() < 0.2:
        found["image"] = "patched"
    return found


def _patch_list(
    random: Random,
    owner: Json,
    name: str,
    key: str,
    make: Callable[[Random, str], Json],
) -> None:
    items = [make(random, found) for found in _some(random)]
    chance = random.random()
    if chance < 0.15 and items:
        items[-1] = {key: items[-1][key], "$patch": "delete"}
    elif chance < 0.22:
        items.insert(random.randint(0, len(items)), {"$patch": "replace"})
    elif chance < 0.26 and items:
        items[0].pop(key)
    elif chance < 0.4 and all(key in item for item in items):
        order = [{key: item[key]} for item in items]
        extra = make(random, random.choice(_NAMES))[key]
        if {key: extra} not in order:
            order.insert(random.randint(0, len(order)), {key: extra})
        if random.random() < 0.15:
            random.shuffle(order)
        owner[f"$setElementOrder/{name}"] = order
        if random.random() < 0.2:
            return
    owner[name] = items


def _patch_map(random: Random, values: Json) -> Json:
    chance = random.random()
    if chance < 0.1:
        return {"$patch": "replace", **values}
    if chance < 0.15:
        return {"$patch": "delete"}
    if chance < 0.18:
        return {"$patch": "merge", **values}
    if chance < 0.28:
        keys = [*values, "a"] if random.random() < 0.8 else ["a"]
        return {"$retainKeys": keys, **values}
    if chance < 0.45:
        return {**values, random.choice(_NAMES): None}
    return values


def _container(random: Random, name: str) -> Json:
    container: Json = {"name": name, "image": f"image-{name}"}
    if random.random() < 0.7:
        container["env"] = [_variable(random, n) for n in _some(random)]
    if random.random() < 0.5:
        container["args"] = _some(random)
    if random.random() < 0.5:
        container["volumeMounts"] = [_mount(random, n) for n in _some(random)]
    if random.random() < 0.5:
        container["ports"] = [_port(random, n) for n in _some(random)]
    if random.random() < 0.5:
        container["resources"] = {"limits": {"cpu": "3", "memory": "1Gi"}}
    return container


def _variable(random: Random, name: str) -> Json:
    return {"name": name.upper(), "value": str(random.randint(0, 9))}


def _mount(random: Random, name: str) -> Json:
    return {"mountPath": f"/{name}", "name": random.choice(_NAMES)}


def _port(random: Random, name: str) -> Json:
    return {"containerPort": ord(name), "name": f"p{random.randint(0, 9)}"}


def _volume(random: Random, name: str) -> Json:
    sources: tuple[Json, ...] = (
        {"emptyDir": {}},
        {"emptyDir": {"medium": "Memory"}},
        {"configMap": {"name": "m"}},
    )
    return {"name": name, **random.choice(sources)}


def _toleration(random: Random) -> Json:
    return {"key": random.choice(_NAMES), "operator": "Exists"}


def _texts(random: Random) -> Json:
    return {name: str(random.randint(0, 9)) for name in _some(random)}


def _some(random: Random) -> list[str]:
    return random.sample(_NAMES, random.randint(0, 2))
