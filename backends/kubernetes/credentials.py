"""A cluster's master Secret in the gateway's namespace: made once, by whoever is first.

API server and controller share it, so that a cluster made by kubectl alone gets its
credentials too. Whoever may read DaskClusters need not be able to read Secrets.
"""

import asyncio
from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import Struct, field

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import AlreadyExists, NotFound
from backends.kubernetes.api.resources import SECRETS
from backends.kubernetes.crd.values import DaskCluster
from backends.kubernetes.names import (
    API_VERSION,
    KIND,
    LABEL_CLUSTER,
    LABEL_COMPONENT,
    LABEL_INSTANCE,
    LABEL_MANAGED_BY,
    MANAGED_BY,
    Component,
)
from gateway.credentials import make_credentials
from gateway.domain.credentials import Credentials, KeyPair
from gateway.domain.errors import BackendError
from gateway.ports import Clock

_CA: Final = "ca.crt"
_CA_KEY: Final = "ca.key"
_TOKEN: Final = "api-token"  # noqa: S105 - the name of a key
_ROLES: Final = ("client", "scheduler", "worker")


class _Secret(Struct):
    entries: dict[str, str] | None = field(default=None, name="data")


_DECODER: Final = msgspec.json.Decoder(_Secret)


def format_master_name(cluster: DaskCluster) -> str:
    """Return the name of a cluster's master Secret.

    With the cluster's uid in it: of a later cluster with the same name it is
    another, whatever the garbage collector has not come to yet.
    """
    return f"dask-master-{cluster.uid}"


async def ensure_credentials(
    client: KubeClient, cluster: DaskCluster, *, instance: str, clock: Clock
) -> Credentials:
    """Return a cluster's credentials; make them if it has none.

    Any number of callers may do so at once: all get the same.

    Raises
    ------
    BackendError
        If the Secret is not one of ours.
    KubeError
        From the API server.
    """
    found = await find_credentials(client, cluster)
    if found is not None:
        return found
    # Four keys and four signatures: some milliseconds of the processor.
    made = await asyncio.to_thread(make_credentials, cluster.name, clock.now())
    manifest = build_master(cluster, made, instance=instance)
    try:
        await client.create(SECRETS, manifest, namespace=client.namespace)
    except AlreadyExists:
        made_by_other = await find_credentials(client, cluster)
        if made_by_other is None:
            raise
        return made_by_other
    return made


async def find_credentials(
    client: KubeClient, cluster: DaskCluster
) -> Credentials | None:
    """Return a cluster's credentials, ``None`` if it has none yet."""
    name = format_master_name(cluster)
    try:
        raw = await client.get(SECRETS, name, namespace=client.namespace)
    except NotFound:
        return None
    return parse_master(raw, name)


def build_master(
    cluster: DaskCluster, credentials: Credentials, *, instance: str
) -> dict[str, Any]:
    """Build the master Secret; it goes with the ``DaskCluster``."""
    files = {
        _CA: credentials.ca_certificate,
        _CA_KEY: credentials.ca_key,
        _TOKEN: credentials.token,
    }
    for role in _ROLES:
        pair: KeyPair = getattr(credentials, role)
        files[f"{role}.crt"], files[f"{role}.pem"] = pair.certificate, pair.key
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": format_master_name(cluster),
            "namespace": cluster.namespace,
            "labels": {
                LABEL_MANAGED_BY: MANAGED_BY,
                LABEL_INSTANCE: instance,
                LABEL_COMPONENT: str(Component.CREDENTIALS),
                LABEL_CLUSTER: cluster.name,
            },
            "ownerReferences": [
                {
                    "apiVersion": API_VERSION,
                    "kind": KIND,
                    "name": cluster.name,
                    "uid": cluster.uid,
                }
            ],
        },
        "type": "Opaque",
        "data": {
            name: b64encode(text.encode()).decode() for name, text in files.items()
        },
    }


def parse_master(raw: bytes, name: str) -> Credentials:
    """Return the credentials in a master Secret's JSON.

    Raises
    ------
    BackendError
        If some are missing; their names are told, and nothing of the others.
    """
    files = _decode(_DECODER.decode(raw).entries or {})
    try:
        return Credentials(
            ca_certificate=files[_CA],
            ca_key=files[_CA_KEY],
            token=files[_TOKEN],
            **{
                role: KeyPair(files[f"{role}.crt"], files[f"{role}.pem"])
                for role in _ROLES
            },
        )
    except KeyError as error:
        text = f"Secret {name} has no {error}; delete it if nobody uses the cluster"
        raise BackendError(text) from error


def _decode(entries: Mapping[str, str]) -> dict[str, str]:
    return {name: b64decode(text).decode() for name, text in entries.items()}
