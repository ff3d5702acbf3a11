"""Write ``chart/crds/daskclusters.json``: the CRD, with pod templates typed in full.

    kubectl get --raw /openapi/v3/api/v1 | python tools/make_crd.py

The pod templates come from an API server's own OpenAPI document. Without its
descriptions, and as compact JSON, the CRD stays small enough for `kubectl apply`.
"""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from backends.kubernetes.crd.parsing import MAX_WORKERS
from backends.kubernetes.names import GROUP, KIND, MAX_NAME, PLURAL, VERSION
from backends.kubernetes.planning.conditions import ConditionType
from gateway.domain.cluster import ClusterPhase

PATH: Final = Path(__file__).parents[1] / "chart/crds/daskclusters.json"
# kubectl apply keeps a copy in an annotation, which has 256 KiB.
MOST_BYTES: Final = 120 * 1024

Schema = dict[str, Any]

_KEPT: Final = (
    "type",
    "format",
    "x-kubernetes-list-type",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-map-type",
)
# A quantity that is written as a bare fraction is a number, and refused: quote it.
_INT_OR_STRING: Final[Schema] = {
    "x-kubernetes-int-or-string": True,
    "anyOf": [{"type": "integer"}, {"type": "string"}],
}
_QUANTITY: Final[Schema] = {
    **_INT_OR_STRING,
    "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))"
    r"(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
}
_TEXTS: Final[Schema] = {"type": "object", "additionalProperties": {"type": "string"}}
# Refused when a pod is created.
_LEFT_OUT: Final = {"ephemeralContainers"}
_TEMPLATE: Final = "io.k8s.api.core.v1.PodTemplateSpec"


class PodSchemas:
    """The schemas of an OpenAPI document, written out as a CRD must have them.

    A structural schema has no references, no unions and no merge keys but those
    of list maps. Enumerations would freeze one release's values, and nothing is
    required, since a template is sparse: what a pod lacks in the end, the API
    server says.

    Parameters
    ----------
    document
        ``/openapi/v3/api/v1`` of an API server.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self._schemas = document["components"]["schemas"]

    def write_out(self, name: str) -> Schema:
        """Return the schema called ``name``, with all that it refers to."""
        match name.rpartition(".")[2]:
            case "Quantity":
                return dict(_QUANTITY)
            case "IntOrString":
                return dict(_INT_OR_STRING)
            case "ObjectMeta":
                # What an API server keeps of it within a custom resource.
                return _map({"labels": _TEXTS, "annotations": _TEXTS})
            case _:
                return self._inline(self._schemas[name])

    def _inline(self, schema: Mapping[str, Any]) -> Schema:
        for part in schema.get("allOf", ()):
            schema = {**schema, **part}
        if "$ref" in schema:
            return self.write_out(schema["$ref"].rpartition("/")[2])
        inlined = {key: schema[key] for key in _KEPT if key in schema}
        if "items" in schema:
            inlined["items"] = self._inline(schema["items"])
            _key(inlined["items"], schema.get("x-kubernetes-list-map-keys", ()))
        if "additionalProperties" in schema:
            inner = schema["additionalProperties"]
            inlined["additionalProperties"] = self._inline(inner)
        if "properties" in schema:
            inlined["properties"] = {
                key: self._inline(inner)
                for key, inner in schema["properties"].items()
                if key not in _LEFT_OUT
            }
        return inlined


def build_crd(document: Mapping[str, Any]) -> Schema:
    """Return the CustomResourceDefinition.

    Parameters
    ----------
    document
        ``/openapi/v3/api/v1`` of an API server.
    """
    template = PodSchemas(document).write_out(_TEMPLATE)
    columns = (
        ("Phase", "string", ".status.phase"),
        ("Ready", "integer", ".status.workers.ready"),
        ("Wanted", "integer", ".status.workers.wanted"),
        ("Owner", "string", ".spec.owner.user"),
        ("Target", "string", ".spec.targetNamespace"),
        ("Reason", "string", ".status.reason"),
        ("Age", "date", ".metadata.creationTimestamp"),
    )
    version = {
        "name": VERSION,
        "served": True,
        "storage": True,
        "subresources": {
            "status": {},
            "scale": {
                "specReplicasPath": ".spec.workers.replicas",
                "statusReplicasPath": ".status.workers.ready",
                "labelSelectorPath": ".status.selector",
            },
        },
        "additionalPrinterColumns": [
            {"name": name, "type": kind, "jsonPath": path}
            for name, kind, path in columns
        ],
        "schema": {"openAPIV3Schema": _build_schema(template)},
    }
    names = {
        "kind": KIND,
        "listKind": f"{KIND}List",
        "plural": PLURAL,
        "singular": KIND.lower(),
        "shortNames": ["dkc"],
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{PLURAL}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": names,
            "versions": [version],
        },
    }


def format_crd(document: Mapping[str, Any]) -> str:
    """Return the CRD as the file has it.

    Raises
    ------
    ValueError
        If it has grown too large for `kubectl apply`.
    """
    text = json.dumps(build_crd(document), separators=(",", ":")) + "\n"
    if len(text) > MOST_BYTES:
        raise ValueError(f"the CRD has {len(text)} bytes, may have {MOST_BYTES}")
    return text


def main() -> int:
    """Write the file and return the exit status."""
    PATH.parent.mkdir(parents=True, exist_ok=True)
    PATH.write_text(format_crd(json.load(sys.stdin)), encoding="utf-8")
    print(f"Wrote {PATH.name}")  # noqa: T201 - a command of a person
    return 0


def _key(item: Schema, keys: tuple[str, ...]) -> None:
    """Make the keys of a list's items required; one has a default instead."""
    for key in keys:
        if key == "protocol":
            item["properties"][key]["default"] = "TCP"
        else:
            item.setdefault("required", []).append(key)


def _map(properties: Schema, *, required: tuple[str, ...] = ()) -> Schema:
    schema: Schema = {"type": "object", "properties": properties}
    return {**schema, "required": list(required)} if required else schema


def _text(most: int, **more: object) -> Schema:
    return {"type": "string", "maxLength": most, **more}


def _number(least: int = 0) -> Schema:
    return {"type": "number", "minimum": least}


def _count(most: int = MAX_WORKERS, least: int = 0) -> Schema:
    return {"type": "integer", "format": "int64", "minimum": least, "maximum": most}


def _list(items: Schema, most: int, kind: str = "atomic") -> Schema:
    return {
        "type": "array",
        "maxItems": most,
        "items": items,
        "x-kubernetes-list-type": kind,
    }


def _time() -> Schema:
    return {"type": "string", "format": "date-time"}


def _rule(rule: str, message: str) -> list[Schema]:
    return [{"rule": rule, "message": message}]


def _build_schema(template: Schema) -> Schema:
    name = _text(MAX_NAME, pattern="^[a-z]([-a-z0-9]*[a-z0-9])?$")
    return _map(
        {
            "apiVersion": {"type": "string"},
            "kind": {"type": "string"},
            "metadata": _map({"name": name}),
            "spec": _build_spec(template),
            "status": _build_status(),
        },
        required=("spec",),
    )


def _build_spec(template: Schema) -> Schema:
    """Return the schema of the spec.

    Each rule stands at the deepest node that it speaks of: one that an older
    object breaks must not refuse the change that stops it.
    """
    fixed = "self == oldSelf"
    owner = _map(
        {
            "user": _text(253, minLength=1),
            "groups": _list(_text(253), 1024, "set"),
        },
        required=("user",),
    )
    owner["x-kubernetes-validations"] = _rule(fixed, "the owner cannot change")
    namespace = _text(63, pattern="^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
    namespace["x-kubernetes-validations"] = _rule(
        fixed, "a cluster cannot move to another namespace"
    )
    active: Schema = {"type": "boolean", "default": True}
    active["x-kubernetes-validations"] = _rule(
        "oldSelf || !self", "a cluster that was stopped cannot start again"
    )
    command = _list(_text(4096), 256)
    role: Schema = {"command": command, "template": template}
    return _map(
        {
            "owner": owner,
            "options": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
            "targetNamespace": namespace,
            "active": active,
            "workers": _build_workers(),
            "scheduler": _map(role),
            "worker": _map({**role, "threads": _count(4096, 1)}),
            "limits": _build_limits(),
            "lifetimes": _build_lifetimes(),
            "retentionSeconds": _number(),
        },
        required=("owner", "targetNamespace"),
    )


def _build_workers() -> Schema:
    adaptive = _map(
        {
            "id": _text(64, default=""),
            "minimum": _count(),
            "maximum": _count(),
        },
        required=("minimum", "maximum"),
    )
    adaptive["x-kubernetes-validations"] = _rule(
        "self.minimum <= self.maximum", "minimum must be <= maximum"
    )
    workers = _map({"replicas": {**_count(), "default": 0}, "adaptive": adaptive})
    workers["default"] = {}
    workers["x-kubernetes-validations"] = _rule(
        "!has(self.adaptive) || !has(oldSelf.adaptive) || "
        "self.replicas == oldSelf.replicas",
        "replicas has no effect while adaptive is set; remove adaptive with it",
    )
    return workers


def _build_limits() -> Schema:
    most = 2**53  # what JSON numbers hold exactly
    return _map(
        {
            "maxWorkers": _count(),
            "schedulerCores": _number(),
            "schedulerMemoryBytes": _count(most),
            "workerCores": _number(),
            "workerMemoryBytes": _count(most),
        }
    )


def _build_lifetimes() -> Schema:
    return _map(
        {
            "idleTimeoutSeconds": _number(),
            "noClientTimeoutSeconds": _number(),
            "maxLifetimeSeconds": _number(),
            "drainTimeoutSeconds": _number(),
            "adaptivePeriodSeconds": _number(),
            "schedulerStartTimeoutSeconds": _number(1),
            "workerStartTimeoutSeconds": _number(1),
            "imagePullTimeoutSeconds": _number(1),
            "workerStartFailureLimit": _count(least=1),
        }
    )


def _build_status() -> Schema:
    condition = _map(
        {
            "type": _text(64),
            "status": {"type": "string", "enum": ["True", "False", "Unknown"]},
            "reason": _text(256, pattern="^[A-Za-z][A-Za-z0-9]*$"),
            "message": _text(4096),
            "lastTransitionTime": _time(),
            "observedGeneration": {"type": "integer", "format": "int64"},
        },
        required=("type", "status", "reason", "lastTransitionTime"),
    )
    conditions = _list(condition, 4 * len(ConditionType), "map")
    conditions["x-kubernetes-list-map-keys"] = ["type"]
    most = 2**31 - 1
    workers = _map(
        {
            "next": _count(most),
            "members": _text(2**20),
            "epoch": _count(2**53),
            "wanted": _count(most),
            "ready": _count(most),
            "starting": _count(most),
            "failures": _count(most),
            "lastFailureTime": _time(),
        }
    )
    target = _map({"id": _text(64), "target": _count()}, required=("id", "target"))
    return _map(
        {
            "phase": {"type": "string", "enum": [str(p) for p in ClusterPhase]},
            "reason": _text(256),
            "message": _text(4096),
            "workers": workers,
            "adaptiveTarget": target,
            "firstSyncTime": _time(),
            "firstWorkerTime": _time(),
            "conditions": conditions,
            "schedulerPod": _text(253),
            "host": _text(253),
            "startTime": _time(),
            "completionTime": _time(),
            "stopReason": _text(256),
            "stopMessage": _text(4096),
            "logTail": _list(_text(4096), 200),
            "selector": _text(1024),
            "observedGeneration": {"type": "integer", "format": "int64"},
        }
    )


if __name__ == "__main__":
    sys.exit(main())
