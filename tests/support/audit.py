"""What the API server was asked: requests of an audit log, and rights against them."""

import json
import time
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

from tests.harness.api import KubeApi

_MARK_PATH = "/api/v1/namespaces/default/configmaps/audit-mark"
_MARK_S = 60.0
_POLL_S = 0.02
# What every authenticated user may ask.
_EVERYBODYS = {
    "clustertrustbundles",
    "selfsubjectaccessreviews",
    "selfsubjectreviews",
    "selfsubjectrulesreviews",
}


class Mark(NamedTuple):
    """A moment in the log."""

    offset: int
    time: str


class Right(NamedTuple):
    """One thing that a user may do, or did.

    ``resource`` holds the subresource too (``pods/log``); ``name`` is empty for
    any name, and ``namespace`` for what has none.
    """

    namespace: str
    group: str
    resource: str
    verb: str
    name: str = ""

    def covers(self, other: "Right") -> bool:
        """Return whether this right allows what the other names."""
        return self[:4] == other[:4] and self.name in {"", other.name}


@dataclass(frozen=True, slots=True)
class Request:
    """One request; a watch counts from its start.

    Parameters
    ----------
    right
        What was asked for.
    code
        HTTP status.
    is_allowed
        Whether the user had the right; a 403 of an admission plugin is allowed.
    """

    user: str
    right: Right
    code: int
    is_allowed: bool
    uri: str
    agent: str
    time: str

    @property
    def verb(self) -> str:
        return self.right.verb

    @property
    def resource(self) -> str:
        return self.right.resource

    @property
    def namespace(self) -> str:
        return self.right.namespace

    @property
    def name(self) -> str:
        return self.right.name


class AuditLog:
    """Reads the log of an API server that runs.

    Parameters
    ----------
    path
        JSON lines. The server writes each before it answers.
    api
        The admin's client, to leave marks in the log.
    """

    def __init__(self, path: Path, api: KubeApi) -> None:
        self._path = path
        self._api = api

    def mark(self) -> Mark:
        """Return this moment: what was answered before is in the log before it."""
        start = self._path.stat().st_size
        uri = f"{_MARK_PATH}?mark={uuid4().hex}"
        self._api.call("GET", uri)
        deadline = time.monotonic() + _MARK_S
        while True:
            for offset, event in self._read(start):
                if event["requestURI"] == uri:
                    return Mark(offset, event["requestReceivedTimestamp"])
            if time.monotonic() > deadline:
                raise AssertionError(f"{self._path} does not show {uri}")
            time.sleep(_POLL_S)

    def since(
        self,
        mark: Mark | None = None,
        *,
        user: str | None = None,
        verb: str | None = None,
        resource: str | None = None,
        namespace: str | None = None,
        code: int | None = None,
    ) -> list[Request]:
        """Return what was asked after ``mark``, in the log's order.

        Parameters
        ----------
        mark
            None for the log's beginning.
        user, verb, resource, namespace, code
            Requests with this alone.
        """
        want = {
            "user": user,
            "verb": verb,
            "resource": resource,
            "namespace": namespace,
            "code": code,
        }
        asked = {key: value for key, value in want.items() if value is not None}
        return [
            request
            for request in self._requests(mark or Mark(0, ""), self.mark())
            if all(getattr(request, key) == value for key, value in asked.items())
        ]

    def _requests(self, first: Mark, last: Mark) -> Iterator[Request]:
        seen: set[str] = set()
        for offset, event in self._read(first.offset):
            if offset > last.offset:
                return
            is_known = event["auditID"] in seen
            seen.add(event["auditID"])
            # The end of a watch that had begun before is no request of this time.
            began_before = event["requestReceivedTimestamp"] < first.time
            is_mark = event["requestURI"].startswith(_MARK_PATH)
            if not (is_known or began_before or is_mark or "objectRef" not in event):
                yield _parse_request(event)

    def _read(self, start: int) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yield each whole line from ``start`` on, with the offset behind it."""
        with self._path.open("rb") as log:
            offset = log.seek(start)
            for line in log:
                if not line.endswith(b"\n"):
                    return
                offset += len(line)
                yield offset, json.loads(line)


def count(requests: Iterable[Request]) -> Counter[str]:
    """Return how often each ``verb resource`` was asked."""
    return Counter(f"{request.verb} {request.resource}" for request in requests)


def read_rights(api: KubeApi, namespace: str) -> set[Right]:
    """Return what the user of ``api`` may do in a namespace.

    Rights that every user has are left out. Cluster-wide rights are in the answer
    for each namespace, as rights in it.
    """
    path = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    status = api.post(path, {"spec": {"namespace": namespace}})["status"]
    assert not status["incomplete"], status.get("evaluationError")
    return {
        Right(namespace, group, resource, verb, name)
        for rule in status["resourceRules"]
        for group in rule.get("apiGroups") or [""]
        for resource in rule["resources"]
        for verb in rule["verbs"]
        for name in rule.get("resourceNames") or [""]
        if resource not in _EVERYBODYS
    }


def find_unused(granted: Iterable[Right], requests: Iterable[Request]) -> list[Right]:
    """Return rights that no request made use of, sorted."""
    used = {request.right for request in requests if request.is_allowed}
    return sorted(
        right for right in granted if not any(right.covers(done) for done in used)
    )


def find_refused(requests: Iterable[Request]) -> list[Right]:
    """Return what was asked for without the right to it, sorted."""
    return sorted({request.right for request in requests if not request.is_allowed})


def _parse_request(event: dict[str, Any]) -> Request:
    target = event["objectRef"]
    resource = "/".join(
        part for part in (target.get("resource"), target.get("subresource")) if part
    )
    decision = event.get("annotations", {}).get("authorization.k8s.io/decision")
    return Request(
        user=event["user"]["username"],
        right=Right(
            target.get("namespace", ""),
            target.get("apiGroup", ""),
            resource,
            event["verb"],
            target.get("name", ""),
        ),
        code=event.get("responseStatus", {}).get("code", 0),
        is_allowed=decision == "allow",
        uri=event["requestURI"],
        agent=event.get("userAgent", ""),
        time=event["requestReceivedTimestamp"],
    )
