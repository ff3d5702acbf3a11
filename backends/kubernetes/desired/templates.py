"""Layers of a pod: what lies over what, and a configuration as a layer.

A layer is a sparse PodTemplateSpec. The rule: maps are merged, recursively. In
lists whose items Kubernetes tells apart by a key (`LIST_KEYS`), an item lies over
the one with the same key, and the others are added behind. Every other list, and
every plain value, replaces what was there. ``None`` changes nothing.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from backends.kubernetes.desired.blueprint import Manifest, PodSettings
from gateway.domain.errors import InvalidRequest
from gateway.domain.quantities import format_millicores

# By the list's name; the same keys as in Kubernetes' own schema.
LIST_KEYS: Final[Mapping[str, tuple[str, ...]]] = {
    "containers": ("name",),
    "initContainers": ("name",),
    "env": ("name",),
    "ports": ("containerPort", "protocol"),
    "volumes": ("name",),
    "volumeMounts": ("mountPath",),
    "volumeDevices": ("devicePath",),
    "imagePullSecrets": ("name",),
    "hostAliases": ("ip",),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "resourceClaims": ("name",),
    "schedulingGates": ("name",),
}
_DEFAULTS: Final = {"protocol": "TCP"}


def lay(base: Mapping[str, Any], layer: Mapping[str, Any], path: str = "") -> Manifest:
    """Return ``layer`` laid over ``base``; neither is changed.

    Parameters
    ----------
    base, layer
        JSON values.
    path
        Where they stand, for errors.

    Raises
    ------
    InvalidRequest
        If the two do not fit, such as a map over a list.

    Examples
    --------
    >>> lay({"a": {"b": 1}, "args": ["x"]}, {"a": {"c": 2}, "args": ["y"]})
    {'a': {'b': 1, 'c': 2}, 'args': ['y']}
    >>> lay({"env": [{"name": "A", "value": "1"}]},
    ...     {"env": [{"name": "B", "value": "2"}, {"name": "A", "value": "3"}]})
    {'env': [{'name': 'A', 'value': '3'}, {'name': 'B', 'value': '2'}]}
    """
    merged = dict(base)
    for key, value in layer.items():
        if value is not None:
            where = f"{path}.{key}" if path else key
            merged[key] = _lay_value(key, merged.get(key), value, where)
    return merged


def build_template(settings: PodSettings, container: str) -> Manifest:
    """Return a configuration as a layer; the operator's own template lies over it.

    Parameters
    ----------
    container
        Name of the Dask container.
    """
    requests = _amounts(settings.cores, settings.memory_bytes)
    limits = _amounts(
        settings.cores if settings.cores_limit is None else settings.cores_limit,
        settings.memory_bytes
        if settings.memory_limit_bytes is None
        else settings.memory_limit_bytes,
    )
    # What is limited and not requested is requested as limited.
    resources = {"limits": limits}
    if requests != limits:
        resources["requests"] = requests
    dask: Manifest = {
        "name": container,
        "image": settings.image,
        "resources": resources,
    }
    if settings.image_pull_policy is not None:
        dask["imagePullPolicy"] = settings.image_pull_policy
    if settings.environment:
        dask["env"] = [
            {"name": name, "value": value}
            for name, value in settings.environment.items()
        ]
    spec: Manifest = {"containers": [dask]}
    if settings.image_pull_secrets:
        spec["imagePullSecrets"] = [{"name": n} for n in settings.image_pull_secrets]
    return lay({"spec": spec}, settings.template)


def _amounts(cores: float, memory_bytes: int) -> dict[str, str]:
    return {"cpu": format_millicores(cores), "memory": str(memory_bytes)}


def _lay_value(key: str, old: Any, new: Any, path: str) -> Any:  # noqa: ANN401 - any JSON
    if isinstance(new, Mapping):
        if old is not None and not isinstance(old, Mapping):
            raise InvalidRequest(path, "must not be a map")
        return lay(old or {}, new, path)
    if isinstance(old, Mapping):
        raise InvalidRequest(path, "must be a map")
    if _is_list(new):
        if old is not None and not _is_list(old):
            raise InvalidRequest(path, "must not be a list")
        return _lay_list(key, old or [], new, path)
    if _is_list(old):
        raise InvalidRequest(path, "must be a list")
    return new


def _is_list(value: Any) -> bool:  # noqa: ANN401 - any JSON
    return isinstance(value, Sequence) and not isinstance(value, str)


def _lay_list(key: str, old: Sequence[Any], new: Sequence[Any], path: str) -> list[Any]:
    names = LIST_KEYS.get(key)
    if names is None:
        return list(new)
    merged = {_identify(item, names, path): item for item in old}
    for item in new:
        identity = _identify(item, names, path)
        where = f"{path}[{identity[0]}]"
        merged[identity] = lay(merged.get(identity, {}), item, where)
    return list(merged.values())


def _identify(item: Any, names: tuple[str, ...], path: str) -> tuple[str, ...]:  # noqa: ANN401 - any JSON
    if not isinstance(item, Mapping):
        raise InvalidRequest(path, "must be a list of maps")
    found = [item.get(name, _DEFAULTS.get(name)) for name in names]
    for name, value in zip(names, found, strict=True):
        if value is None:
            raise InvalidRequest(path, f"each item must have a {name}")
    return tuple(map(str, found))
