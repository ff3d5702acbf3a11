"""Typed view of an anchor: the headless Service that owns a cluster's objects."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct

from backends.kubernetes.names import ANNOTATION_CLUSTER_UID, LABEL_CLUSTER


class ServiceView(Struct, frozen=True, gc=False, kw_only=True):
    """A Service of ours.

    Parameters
    ----------
    cluster
        Name of its ``DaskCluster``, by the label.
    cluster_uid
        Uid of the ``DaskCluster`` that it was made for.
    is_terminating
        Whether it is being deleted.
    """

    namespace: str
    name: str
    uid: str
    resource_version: str
    cluster: str
    cluster_uid: str = ""
    is_terminating: bool = False


class _Metadata(Struct, gc=False, rename="camel"):
    name: str
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] | None = None
    annotations: dict[str, str] | None = None


class _Service(Struct, gc=False):
    metadata: _Metadata


_DECODER: Final = msgspec.json.Decoder(_Service)


def parse_service(raw: bytes | Mapping[str, Any]) -> ServiceView:
    """Return the Service in ``raw``, JSON or the same decoded.

    Raises
    ------
    ValueError
        If it has no name: then it is no object of an API server.
    """
    metadata = (
        _DECODER.decode(raw)
        if isinstance(raw, bytes | bytearray | memoryview)
        else msgspec.convert(raw, _Service)
    ).metadata
    return ServiceView(
        namespace=metadata.namespace,
        name=metadata.name,
        uid=metadata.uid,
        resource_version=metadata.resource_version,
        cluster=(metadata.labels or {}).get(LABEL_CLUSTER, ""),
        cluster_uid=(metadata.annotations or {}).get(ANNOTATION_CLUSTER_UID, ""),
        is_terminating=metadata.deletion_timestamp is not None,
    )
