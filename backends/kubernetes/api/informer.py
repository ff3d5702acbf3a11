"""Keep the objects of one kind and scope current, as slim values.

A list, then a watch that goes on where it broke off; listed anew, with the
difference told, where that cannot be. The cache is never emptied meanwhile:
it is old rather than wrong. Our own writes lie over it, see `Overlay`.
"""

import asyncio
import random
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Final, Generic

import msgspec
from msgspec import Struct, field

from backends.kubernetes.api.client import KubeClient
from backends.kubernetes.api.errors import (
    Call,
    Denied,
    Expired,
    Invalid,
    KubeError,
    Transient,
    translate_event,
)
from backends.kubernetes.api.patience import Patience
from backends.kubernetes.api.resources import Query, Resource
from backends.kubernetes.api.views import Cache, V
from gateway.ports import Clock

# A bookmark comes every 60 s; who hears nothing for so long hears nothing.
SILENCE_S: Final = 90.0
# After so long without any word the process is of no use.
STALE_S: Final = 150.0
# As client-go: watches of many clients must not end together.
_WATCH_S: Final = (300, 600)
_PAGE: Final = 500
# So many objects are decoded in about 5 ms; then others have their turn.
_TURN: Final = 200
_END_OF_LIST: Final = "k8s.io/initial-events-end"


@dataclass(frozen=True, slots=True)
class Scope:
    """What an informer follows.

    Parameters
    ----------
    namespace
        ``None`` is all.
    labels
        Selector; "" is everything.
    """

    resource: Resource
    namespace: str | None
    labels: str = ""


class _Metadata(Struct, rename="camel"):
    resource_version: str = ""
    annotations: dict[str, str] | None = None


class _ListMetadata(Struct, rename="camel"):
    resource_version: str = ""
    continue_: str = field(default="", name="continue")


class _Object(Struct):
    metadata: _Metadata = field(default_factory=_Metadata)


class _List(Struct):
    metadata: _ListMetadata
    items: list[msgspec.Raw]


class _Event(Struct):
    type: str
    object: msgspec.Raw


_LIST: Final = msgspec.json.Decoder(_List)
_EVENT: Final = msgspec.json.Decoder(_Event)
_OBJECT: Final = msgspec.json.Decoder(_Object)


class Informer(Generic[V]):
    """A cache of one scope that follows the API server.

    Parameters
    ----------
    client
        Makes the calls.
    scope
        What is followed.
    decode
        Makes a view of an object's JSON; never raises for an API server's object.
    on_change
        Called with each view that came, changed or went; must not raise.
    clock
        For `age_s`.
    on_access
        Called when the right to look is found missing, or given; must not raise.

    Notes
    -----
    ``cache`` is what others read; ``is_synced`` once it was whole. ``denied`` is the
    server's text while it refuses to show the scope, else ""; ``answered`` is set once
    the cache was whole or the scope refused.
    """

    def __init__(
        self,
        client: KubeClient,
        scope: Scope,
        *,
        decode: Callable[[bytes], V],
        on_change: Callable[[V], None],
        clock: Clock,
        on_access: Callable[[], None] = lambda: None,
    ) -> None:
        self.scope = scope
        self.cache: Cache[V] = Cache()
        self.synced = asyncio.Event()
        self.answered = asyncio.Event()
        self.denied = ""
        self._client = client
        self._decode = decode
        self._on_change = on_change
        self._on_access = on_access
        self._clock = clock
        self._heard = clock.monotonic()
        place = {"kind": scope.resource.plural, "namespace": scope.namespace or "*"}
        self._patience = Patience(client.reach, clock, place)
        self._version = ""
        self._streams_lists = True
        self._since_turn = 0

    @property
    def is_synced(self) -> bool:
        """Whether the cache was whole at some time."""
        return self.synced.is_set()

    @property
    def age_s(self) -> float:
        """Seconds since the API server said anything of the scope."""
        return self._clock.monotonic() - self._heard

    async def run(self) -> None:
        """Follow the API server until cancelled."""
        patience = self._patience
        while True:
            patience.begin()
            try:
                if not self._version:
                    await self._list()
                else:
                    await self._watch()
            except Expired:
                self._version = ""
                await patience.rest_expired()
            except KubeError as error:
                if isinstance(error, Denied):
                    self._note_access(error.text)
                    # Once it may look again, what it has missed is listed.
                    self._version = ""
                if self.age_s >= SILENCE_S:
                    # Asked for what is still to come, a server says nothing.
                    self._version = ""
                await patience.rest_failed(error)

    async def _list(self) -> None:
        if self._streams_lists:
            try:
                await self._stream_list()
            except Invalid:
                self._streams_lists = False
            else:
                return
        await self._read_pages()

    async def _stream_list(self) -> None:
        """Take the list as the first events of a watch, and go on with that."""
        query = self._watch_query() | {
            "sendInitialEvents": "true",
            "resourceVersionMatch": "NotOlderThan",
        }
        listed: dict[tuple[str, str], V] | None = {}
        async for event in self._events(query):
            if listed is None:
                self._take(event)
            elif event.type == "BOOKMARK":
                metadata = _OBJECT.decode(event.object).metadata
                if _END_OF_LIST in (metadata.annotations or {}):
                    self._replace(listed, metadata.resource_version)
                    listed = None
            else:
                view = self._decode(bytes(event.object))
                listed[view.namespace, view.name] = view
            await self._give_turn()
        if listed is not None:
            call = Call("watch", self.scope.resource.plural, self.scope.namespace)
            raise Transient(call, "the list ended before its end")
        await self._patience.rest()

    async def _read_pages(self) -> None:
        listed: dict[tuple[str, str], V] = {}
        # The server's own cache will do to begin with; never to go back in time.
        query = {"limit": str(_PAGE)} if self.is_synced else {"resourceVersion": "0"}
        while True:
            page = _LIST.decode(
                await self._client.read_list(
                    self.scope.resource,
                    namespace=self.scope.namespace,
                    query=self._select(query),
                )
            )
            self._hear()
            self._patience.hear()
            for raw in page.items:
                view = self._decode(bytes(raw))
                listed[view.namespace, view.name] = view
                await self._give_turn()
            if not page.metadata.continue_:
                break
            query = {"limit": str(_PAGE), "continue": page.metadata.continue_}
        self._replace(listed, page.metadata.resource_version)

    async def _watch(self) -> None:
        query = self._watch_query() | {"resourceVersion": self._version}
        async for event in self._events(query):
            self._take(event)
            await self._give_turn()
        await self._patience.rest()

    async def _events(self, query: Query) -> AsyncIterator[_Event]:
        scope = self.scope
        lines = self._client.stream(
            scope.resource,
            namespace=scope.namespace,
            query=self._select(query),
            silence_s=SILENCE_S,
        )
        async for line in lines:
            self._hear()
            call = Call("watch", scope.resource.plural, scope.namespace)
            try:
                event = _EVENT.decode(line)
            except msgspec.DecodeError as error:
                raise Transient(call, "it broke off within an event") from error
            if event.type == "ERROR":
                raise translate_event(call, bytes(event.object))
            self._patience.hear()
            yield event

    def _take(self, event: _Event) -> None:
        if event.type == "BOOKMARK":
            self._reach(_OBJECT.decode(event.object).metadata.resource_version)
            return
        view = self._decode(bytes(event.object))
        if event.type == "DELETED":
            self.cache.remove(view)
        else:
            self.cache.put(view)
        self._reach(view.resource_version)
        self._on_change(view)

    def _replace(self, listed: dict[tuple[str, str], V], version: str) -> None:
        changed = list(self._find_changes(listed))
        self.cache.replace(listed)
        self._reach(version)
        self.synced.set()
        self._note_access("")
        for view in changed:
            self._on_change(view)

    def _find_changes(self, listed: dict[tuple[str, str], V]) -> Iterator[V]:
        for view in listed.values():
            old = self.cache.find(view.namespace, view.name)
            if old is None or old.resource_version != view.resource_version:
                yield view
        for view in self.cache:
            if (view.namespace, view.name) not in listed:
                yield view

    def _reach(self, version: str) -> None:
        self._version = version
        self.cache.reached(int(version))

    def _note_access(self, refusal: str) -> None:
        # A refusal is an answer: no process would get another by being started anew.
        self._hear()
        self.answered.set()
        was, self.denied = self.denied, refusal
        if bool(was) != bool(refusal):
            self._on_access()

    def _hear(self) -> None:
        self._heard = self._clock.monotonic()

    async def _give_turn(self) -> None:
        self._since_turn += 1
        if self._since_turn >= _TURN:
            self._since_turn = 0
            await asyncio.sleep(0)

    def _watch_query(self) -> dict[str, str]:
        return {
            "watch": "1",
            "allowWatchBookmarks": "true",
            "timeoutSeconds": str(random.randint(*_WATCH_S)),  # noqa: S311 - not a secret
        }

    def _select(self, query: Query) -> dict[str, str]:
        labels = self.scope.labels
        return {**query, **({"labelSelector": labels} if labels else {})}
