"""Typed view of a namespace that is served by its labels."""

import msgspec
from msgspec import Struct


class NamespaceView(Struct, frozen=True, gc=False, kw_only=True):
    """A namespace; it belongs to no namespace and to no cluster."""

    name: str
    resource_version: str = ""
    namespace: str = ""
    cluster: str = ""


class _Metadata(Struct, gc=False, rename="camel"):
    name: str
    resource_version: str = ""


class _Namespace(Struct, gc=False):
    metadata: _Metadata


_DECODER = msgspec.json.Decoder(_Namespace)


def parse_namespace(raw: bytes) -> NamespaceView:
    """Return the namespace in ``raw``.

    Raises
    ------
    ValueError
        If it has no name: then it is no object of an API server.

    Examples
    --------
    >>> raw = b'{"metadata": {"name": "team", "resourceVersion": "7"}}'
    >>> parse_namespace(raw).name
    'team'
    """
    metadata = _DECODER.decode(raw).metadata
    return NamespaceView(name=metadata.name, resource_version=metadata.resource_version)
