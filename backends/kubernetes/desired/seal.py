"""What no layer may change of an object: checked and refused, never restored.

Whoever wrote the layer learns of it, by the field's path. The object that was
built from the base alone says how it has to be.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec

from backends.kubernetes.crd.values import Problem
from backends.kubernetes.desired.blueprint import Manifest
from backends.kubernetes.desired.wiring import Wiring
from backends.kubernetes.names import (
    ANNOTATION_CLUSTER_UID,
    ANNOTATION_HASH,
    SEALED_LABELS,
    hash_text,
)

# Dask reads a whole configuration from it, ours included.
_INHERITED: Final = "dask_internal_inherit_config"
_ANNOTATIONS: Final = (ANNOTATION_CLUSTER_UID, ANNOTATION_HASH)
_ONLY_OURS: Final = "is set by the gateway, leave it out"


def find_identity_problem(
    finished: Manifest, base: Manifest, path: str
) -> Problem | None:
    """Return what was changed that tells what, whose and where an object is.

    Parameters
    ----------
    finished
        With all layers.
    base
        Without any.
    path
        Where the layers stand, for errors.
    """
    return next(_find_identity_problems(finished, base, path), None)


def find_pod_problem(
    pod: Manifest, wiring: Wiring, arguments: Sequence[str], path: str
) -> Problem | None:
    """Return what of a finished pod would cut it off from its cluster.

    Parameters
    ----------
    wiring, arguments
        What its Dask container must have; the arguments at the end of its own.
    """
    return next(_find_pod_problems(pod, wiring, arguments, f"{path}.spec"), None)


def stamp(finished: Manifest, *, but: str = "") -> Manifest:
    """Return an object with the hash of what it is made of.

    Parameters
    ----------
    but
        A name that does not count, so that workers which differ in nothing
        else have one hash.
    """
    text = msgspec.json.encode(finished, order="sorted").decode()
    digest = hash_text(text.replace(but, "") if but else text)
    metadata = finished["metadata"]
    annotations = {**metadata.get("annotations", {}), ANNOTATION_HASH: digest}
    return {**finished, "metadata": {**metadata, "annotations": annotations}}


def _find_identity_problems(
    finished: Manifest, base: Manifest, path: str
) -> Iterator[Problem]:
    for key in ("apiVersion", "kind"):
        if finished.get(key) != base[key]:
            yield Problem(f"{path}.{key}", _ONLY_OURS)
    got, want = finished["metadata"], base["metadata"]
    for key in ("name", "namespace", "ownerReferences", "finalizers", "generateName"):
        if got.get(key) != want.get(key):
            yield Problem(f"{path}.metadata.{key}", _ONLY_OURS)
    for kind, sealed in (("labels", SEALED_LABELS), ("annotations", _ANNOTATIONS)):
        for key in sealed:
            if got.get(kind, {}).get(key) != want.get(kind, {}).get(key):
                yield Problem(f"{path}.metadata.{kind}[{key}]", _ONLY_OURS)


def _find_pod_problems(
    pod: Manifest, wiring: Wiring, arguments: Sequence[str], path: str
) -> Iterator[Problem]:
    spec = pod["spec"]
    if spec.get("restartPolicy") != "Never":
        yield Problem(f"{path}.restartPolicy", "must be Never: ended is final")
    volumes = {volume["name"]: volume for volume in spec.get("volumes", ())}
    for name, want in wiring.volumes.items():
        if volumes.get(name) != want:
            yield Problem(f"{path}.volumes[{name}]", _ONLY_OURS)
    dask = next(c for c in spec["containers"] if c["name"] == wiring.container)
    where = f"{path}.containers[{wiring.container}]"
    for key in ("restartPolicy", "restartPolicyRules"):
        if dask.get(key, "Never") != "Never":
            yield Problem(f"{where}.{key}", "must be left out: ended is final")
    if list(dask["args"][-len(arguments) :]) != list(arguments):
        yield Problem(
            f"{where}.args",
            "must end with what connects it to its cluster; leave them out, and set "
            "the program with command beside the template",
        )
    yield from _find_env_problems(dask.get("env", ()), wiring, where)
    yield from _find_mount_problems(dask.get("volumeMounts", ()), wiring, where)


def _find_env_problems(
    env: Sequence[Mapping[str, Any]], wiring: Wiring, path: str
) -> Iterator[Problem]:
    found = {variable["name"]: variable for variable in env}
    for name, value in wiring.env.items():
        if found.get(name) != {"name": name, "value": value}:
            yield Problem(f"{path}.env[{name}]", _ONLY_OURS)
    # Dask folds case and takes - for _, so one setting has many spellings.
    reserved = {_fold(name) for name in wiring.env} | {_INHERITED}
    for name in found:
        if name not in wiring.env and _fold(name) in reserved:
            yield Problem(f"{path}.env[{name}]", _ONLY_OURS)


def _find_mount_problems(
    mounts: Sequence[Mapping[str, Any]], wiring: Wiring, path: str
) -> Iterator[Problem]:
    found = {mount["mountPath"].rstrip("/"): mount for mount in mounts}
    for place, want in wiring.mounts.items():
        if found.get(place) != want:
            yield Problem(f"{path}.volumeMounts[{place}]", _ONLY_OURS)
    for place in found:
        for ours in wiring.mounts:
            if place != ours and (f"{place}/").startswith(f"{ours}/"):
                text = f"must not be inside {ours}"
                yield Problem(f"{path}.volumeMounts[{place}]", text)


def _fold(name: str) -> str:
    return name.lower().replace("-", "_")
