"""Read a ``DaskCluster``, whatever somebody wrote into it.

Nothing here raises for a spec or a status that makes no sense: an informer has
to go on. A field of the status that cannot be read is as if it were lost; one of
the spec is a problem that is told to the user.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct, field

from backends.kubernetes.crd.values import ClusterSpec, ClusterStatus, DaskCluster
from backends.kubernetes.crd.values import Problem as _Problem
from backends.kubernetes.names import (
    ANNOTATION_ASKED,
    ANNOTATION_CREATED,
    ANNOTATION_STOP_MESSAGE,
    ANNOTATION_STOP_REASON,
    MAX_NAME,
    is_namespace,
    is_object_name,
)

# More than any cluster that Dask can hold together.
MAX_WORKERS: Final = 100_000
_MAX_USER: Final = 253
_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
# Of two machines' clocks, and of a call.
_SKEW: Final = timedelta(seconds=60)
_PATH: Final = re.compile(r"`\$\.?([^.`\[]*)([^`]*)`\Z")

_Part = TypeVar("_Part", ClusterSpec, ClusterStatus)


class _Metadata(Struct, gc=False, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Envelope(Struct, gc=False):
    metadata: _Metadata
    spec: Any = None
    status: Any = field(default=None)


_DECODER: Final = msgspec.json.Decoder(_Envelope)


def parse_dask_cluster(raw: bytes | Mapping[str, Any]) -> DaskCluster:
    """Return the ``DaskCluster`` in ``raw``.

    Parameters
    ----------
    raw
        JSON as the API server sends it, or the same decoded.

    Returns
    -------
    DaskCluster
        With `DaskCluster.problems` where its spec must not be acted on.

    Raises
    ------
    ValueError
        If it is no JSON, or has no name: then it is no object of an API server.

    Examples
    --------
    >>> parse_dask_cluster({"metadata": {"name": "c1"}}).problems[0]
    Problem(field='spec.owner.user', text='must be set')
    """
    envelope = (
        _DECODER.decode(raw)
        if isinstance(raw, bytes | bytearray | memoryview)
        else msgspec.convert(raw, _Envelope)
    )
    found: list[_Problem] = []
    spec = _read(envelope.spec, ClusterSpec, found.append)
    metadata = envelope.metadata
    unread = {problem.field for problem in found}
    found += [p for p in _check(metadata.name, spec) if p.field not in unread]
    annotations = metadata.annotations or {}
    return DaskCluster(
        name=metadata.name,
        namespace=metadata.namespace,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        generation=metadata.generation,
        created=_refine(
            metadata.creation_timestamp, _read_time(annotations, ANNOTATION_CREATED)
        ),
        asked=_read_time(annotations, ANNOTATION_ASKED),
        is_deleting=metadata.deletion_timestamp is not None,
        labels=metadata.labels or {},
        stop_reason=annotations.get(ANNOTATION_STOP_REASON, ""),
        stop_message=annotations.get(ANNOTATION_STOP_MESSAGE, ""),
        spec=spec,
        status=_read(envelope.status, ClusterStatus, lambda _: None),
        problems=tuple(found),
    )


def _read(raw: Any, kind: type[_Part], report: Callable[[_Problem], None]) -> _Part:  # noqa: ANN401 - any JSON
    """Return ``raw`` as ``kind``, without the fields that cannot be read."""
    part = dict(raw) if isinstance(raw, Mapping) else {}
    while True:
        try:
            return msgspec.convert(part, kind)
        except msgspec.ValidationError as error:
            text, _, path = str(error).partition(" - at ")
            match = _PATH.match(path)
            key = match[1] if match else ""
            if key not in part:
                # Not to be named: nothing of it can be used.
                report(_Problem("spec", text))
                part = {}
                continue
            rest = match[2] if match else ""
            report(_Problem(f"spec.{key}{rest}", text[:1].lower() + text[1:]))
            del part[key]


def _read_time(annotations: Mapping[str, str], name: str) -> datetime | None:
    """Return an annotation as a time; ``None`` if it is none."""
    try:
        told = datetime.fromisoformat(annotations.get(name, ""))
    except ValueError:
        return None
    return told if told.tzinfo is not None else None


def _refine(created: datetime | None, told: datetime | None) -> datetime | None:
    """Return when an object was created, with the fraction of its maker's clock.

    The API server's own knows seconds, and lists of clusters are in this order.
    Anybody can write an annotation, so it counts only where the two are close.
    """
    if created is None or told is None or abs(told - created) > _SKEW:
        return created
    return told


def _check(name: str, spec: ClusterSpec) -> Iterator[_Problem]:
    if not is_object_name(name):
        yield _Problem(
            "metadata.name",
            "must begin with a letter and be lower-case letters, digits and "
            f"hyphens, at most {MAX_NAME}",
        )
    user = spec.owner.user
    if not user:
        yield _Problem("spec.owner.user", "must be set")
    elif len(user) > _MAX_USER or _CONTROL.search(user):
        yield _Problem(
            "spec.owner.user", f"must be at most {_MAX_USER} printable characters"
        )
    if not is_namespace(spec.target_namespace):
        yield _Problem("spec.targetNamespace", "must be the name of a namespace")
    yield from _check_numbers(spec)


def _check_numbers(spec: ClusterSpec) -> Iterator[_Problem]:
    workers = spec.workers
    if not 0 <= workers.replicas <= MAX_WORKERS:
        yield _Problem(
            "spec.workers.replicas",
            f"must be >= 0 and <= {MAX_WORKERS}, got {workers.replicas}",
        )
    bounds = workers.adaptive
    if bounds is not None and not 0 <= bounds.minimum <= bounds.maximum <= MAX_WORKERS:
        yield _Problem(
            "spec.workers.adaptive",
            f"must have 0 <= minimum <= maximum <= {MAX_WORKERS}, got "
            f"{bounds.minimum} and {bounds.maximum}",
        )
    amounts = {
        **{f"lifetimes.{k}": v for k, v in _said(spec.lifetimes).items()},
        **{f"limits.{k}": v for k, v in _said(spec.limits).items()},
        "retentionSeconds": spec.retention_seconds,
        "worker.threads": spec.worker.threads,
    }
    for path, amount in amounts.items():
        if amount is not None and not 0 <= amount < float("inf"):
            yield _Problem(f"spec.{path}", f"must be >= 0, got {amount}")


def _said(part: Struct) -> dict[str, Any]:
    return dict(msgspec.to_builtins(part))
