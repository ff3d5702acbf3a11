"""A plain HTTP client of an API server: one call, one answer.

Tests arrange and look with it. It has nothing in common with the client under
test, on purpose, and blocks: within async tests a call takes milliseconds.
"""

import http.client
import json
import ssl
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode, urlsplit

import yaml

MERGE = "application/merge-patch+json"
JSON_PATCH = "application/json-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
APPLY = "application/apply-patch+yaml"
_CALL_S = 60.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server said.

    Parameters
    ----------
    body
        Parsed JSON, or text where it is none.
    """

    status: int
    body: Any
    headers: Mapping[str, str]

    @property
    def is_ok(self) -> bool:
        return self.status < 300


class CallFailed(AssertionError):
    """A call that a test counts on was refused.

    Parameters
    ----------
    answer
        Kept for tests that look at it.
    """

    def __init__(self, method: str, path: str, answer: Answer) -> None:
        text = answer.body
        if isinstance(text, dict):
            text = text.get("message", text)
        super().__init__(f"{method} {path}: {answer.status} {text}")
        self.answer = answer


class KubeApi:
    """Calls as one user; safe to use from several threads.

    Parameters
    ----------
    url
        ``https://HOST:PORT``.
    authority
        PEM file by which the server is verified.
    token
        Bearer token; empty for nobody.
    """

    def __init__(self, url: str, authority: Path, token: str = "") -> None:
        self.url = url
        self.authority = authority
        self.token = token
        self._kept = threading.local()
        self._kinds: dict[str, dict[str, _Kind]] = {}

    @cached_property
    def context(self) -> ssl.SSLContext:
        """Trust in the authority alone."""
        return ssl.create_default_context(cafile=str(self.authority))

    def call(
        self,
        method: str,
        path: str,
        body: object = None,
        *,
        content: str = "application/json",
        timeout: float = _CALL_S,
        **query: object,
    ) -> Answer:
        """Make one call, refused or not.

        Parameters
        ----------
        body
            Text as it is, anything else as JSON.
        timeout
            Seconds without a byte from the server.
        query
            Parameters of the URL; ``None`` leaves one out.
        """
        asked = {key: value for key, value in query.items() if value is not None}
        target = f"{path}?{urlencode(asked)}" if asked else path
        headers = {"Accept": "application/json"}
        if self.token:
            headers["Authorization"] = f"Bearer {self.token}"
        sent = None
        if body is not None:
            sent = body.encode() if isinstance(body, str) else json.dumps(body).encode()
            headers["Content-Type"] = content
        response, text = self._send(method, target, sent, headers, timeout)
        return Answer(response.status, _parse(text), dict(response.getheaders()))

    def get(self, path: str, **query: object) -> Any:
        """Return what is at ``path``; `CallFailed` if that is refused."""
        return self._expect("GET", path, None, **query)

    def find(self, path: str) -> Any:
        """Return what is at ``path``, or ``None`` where nothing is."""
        answer = self.call("GET", path)
        if answer.status == 404:
            return None
        return _body_of("GET", path, answer)

    def items(self, path: str, **query: object) -> list[Any]:
        """Return the items of a list."""
        return list(self.get(path, **query)["items"])

    def post(self, path: str, body: object, **query: object) -> Any:
        """Create; `CallFailed` if that is refused."""
        return self._expect("POST", path, body, **query)

    def put(self, path: str, body: object, **query: object) -> Any:
        """Replace; `CallFailed` if that is refused."""
        return self._expect("PUT", path, body, **query)

    def patch(
        self, path: str, body: object, *, content: str = MERGE, **query: object
    ) -> Any:
        """Change, by merge patch unless said otherwise; `CallFailed` if refused."""
        return self._expect("PATCH", path, body, content=content, **query)

    def delete(self, path: str, body: object = None, **query: object) -> Any:
        """Delete, or find nothing there; `CallFailed` if that is refused."""
        answer = self.call("DELETE", path, body, **query)
        return None if answer.status == 404 else _body_of("DELETE", path, answer)

    def apply(
        self, *manifests: str | Path | Mapping[str, Any], namespace: str = "default"
    ) -> list[Any]:
        """Apply objects on the server's side and return them as they are then.

        Parameters
        ----------
        manifests
            Objects, files, or YAML texts of one or more documents.
        namespace
            For namespaced objects that name none.
        """
        applied = []
        for manifest in manifests:
            for document in _documents(manifest):
                path = self.path_of(document, namespace=namespace)
                applied.append(
                    self.patch(
                        path,
                        json.dumps(document),
                        content=APPLY,
                        fieldManager="harness",
                        force="true",
                    )
                )
        return applied

    def path_of(
        self, document: Mapping[str, Any], *, namespace: str = "default"
    ) -> str:
        """Return an object's path, by the kinds that the server knows now."""
        version, name = document["apiVersion"], document["metadata"]["name"]
        base = f"/apis/{version}" if "/" in version else f"/api/{version}"
        kind = self._kind(base, document["kind"])
        if not kind.is_namespaced:
            return f"{base}/{kind.plural}/{quote(name)}"
        namespace = document["metadata"].get("namespace", namespace)
        return f"{base}/namespaces/{namespace}/{kind.plural}/{quote(name)}"

    def close(self) -> None:
        """Close this thread's connection; the next call opens one again."""
        connection = getattr(self._kept, "connection", None)
        if connection is not None:
            connection.close()
        self._kept.connection = None

    def _expect(self, method: str, path: str, body: object, **options: Any) -> Any:
        return _body_of(method, path, self.call(method, path, body, **options))

    def _send(
        self,
        method: str,
        target: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: float,
    ) -> tuple[http.client.HTTPResponse, bytes]:
        # A kept connection may have been closed by a restart of the server.
        is_fresh = getattr(self._kept, "connection", None) is None
        connection = self._connection(timeout)
        try:
            connection.request(method, target, body, dict(headers))
            response = connection.getresponse()
            return response, response.read()
        except (http.client.HTTPException, OSError) as error:
            self.close()
            if is_fresh or isinstance(error, TimeoutError):
                raise
            return self._send(method, target, body, headers, timeout)

    def _connection(self, timeout: float) -> http.client.HTTPSConnection:
        connection: http.client.HTTPSConnection | None
        connection = getattr(self._kept, "connection", None)
        if connection is None:
            address = urlsplit(self.url)
            connection = _Connection(
                address.hostname or "", address.port, context=self.context
            )
            self._kept.connection = connection
        connection.timeout = timeout
        if connection.sock is not None:
            connection.sock.settimeout(timeout)
        return connection

    def _kind(self, base: str, name: str) -> "_Kind":
        if name not in self._kinds.get(base, {}):
            self._kinds[base] = dict(_read_kinds(self.get(base)))
        return self._kinds[base][name]


class _Connection(http.client.HTTPSConnection):
    """Closed with its client, so that tests need not tell when they are done."""

    def __del__(self) -> None:
        self.close()


@dataclass(frozen=True, slots=True)
class _Kind:
    plural: str
    is_namespaced: bool


def _read_kinds(discovered: Mapping[str, Any]) -> Iterator[tuple[str, _Kind]]:
    for resource in discovered["resources"]:
        if "/" not in resource["name"]:
            yield resource["kind"], _Kind(resource["name"], resource["namespaced"])


def _documents(manifest: str | Path | Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    if isinstance(manifest, Mapping):
        yield dict(manifest)
        return
    text = manifest.read_text() if isinstance(manifest, Path) else manifest
    yield from (document for document in yaml.safe_load_all(text) if document)


def _parse(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text.decode(errors="replace")


def _body_of(method: str, path: str, answer: Answer) -> Any:
    if not answer.is_ok:
        raise CallFailed(method, path, answer)
    return answer.body
