"""Namespaces and service accounts, with no right but those that a test gives."""

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.api import CallFailed, KubeApi
from tests.harness.control_plane import ControlPlane

Rules = Sequence[Mapping[str, Any]]

_RBAC = "rbac.authorization.k8s.io"
_TOKEN_LIFE_S = 24 * 3600
_SUFFIX = "bcdfghjklmnpqrstvwxz2456789"


@dataclass(frozen=True, slots=True)
class Account:
    """A service account of a process under test.

    Parameters
    ----------
    kubeconfig
        File for the process; it verifies the API server by its authority.
    """

    namespace: str
    name: str
    plane: ControlPlane = field(repr=False)
    token: str = field(repr=False)
    kubeconfig: Path

    @property
    def user(self) -> str:
        """How the API server and the audit log call it."""
        return f"system:serviceaccount:{self.namespace}:{self.name}"

    def client(self) -> KubeApi:
        """Return a client with the account's rights."""
        return self.plane.client(self.token)

    def grant(self, rules: Rules, *, namespace: str | None = None) -> None:
        """Give rights in a namespace, its own if none is named.

        Parameters
        ----------
        rules
            As in a Role. They replace what was granted there before.
        """
        where = namespace or self.namespace
        name = f"{self.namespace}-{self.name}"
        metadata = {"name": name, "namespace": where}
        version = f"{_RBAC}/v1"
        self.plane.client().apply(
            {
                "apiVersion": version,
                "kind": "Role",
                "metadata": metadata,
                "rules": list(rules),
            },
            {
                "apiVersion": version,
                "kind": "RoleBinding",
                "metadata": metadata,
                "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": name},
                "subjects": [
                    {
                        "kind": "ServiceAccount",
                        "name": self.name,
                        "namespace": self.namespace,
                    }
                ],
            },
        )


def create_namespace(
    api: KubeApi,
    prefix: str = "test",
    *,
    labels: Mapping[str, str] | None = None,
    name: str = "",
) -> str:
    """Make a namespace in which pods may be made at once.

    Parameters
    ----------
    name
        Instead of a new one that begins with ``prefix``.
    """
    drawn = random.SystemRandom().choices(_SUFFIX, k=8)
    name = name or f"{prefix}-{''.join(drawn)}"
    metadata = {"name": name, "labels": dict(labels or {})}
    api.post("/api/v1/namespaces", {"metadata": metadata})
    # Without it the API server refuses pods; the controllers come to it later, or
    # do not run at all.
    create_service_account(api, name, "default")
    return name


def create_service_account(api: KubeApi, namespace: str, name: str) -> None:
    """Make a service account, or find it made."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts"
    answer = api.call("POST", path, {"metadata": {"name": name}})
    if not answer.is_ok and answer.status != 409:
        raise CallFailed("POST", path, answer)


def create_account(
    plane: ControlPlane, namespace: str, name: str, rules: Rules = ()
) -> Account:
    """Make a service account and a token of it, and give it rights.

    Parameters
    ----------
    rules
        Of a Role in the account's own namespace; none means no rights at all.
    """
    api = plane.client()
    create_service_account(api, namespace, name)
    token = request_token(api, namespace, name)
    path = plane.folder / f"{namespace}-{name}.kubeconfig"
    kubeconfig = plane.write_kubeconfig(path, token, namespace=namespace)
    account = Account(namespace, name, plane, token, kubeconfig)
    if rules:
        account.grant(rules)
    return account


def request_token(api: KubeApi, namespace: str, name: str) -> str:
    """Return a token as the kubelet would mount it, for a day."""
    path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{name}/token"
    asked = {"spec": {"expirationSeconds": _TOKEN_LIFE_S}}
    return str(api.post(path, asked)["status"]["token"])
