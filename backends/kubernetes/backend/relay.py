"""Logs, events and workers from the controller's replicas, which alone may read them.

The API server has no rights where the pods are. Any replica answers, leader or
not; where none does, what the cluster's own status keeps is told.
"""

import asyncio
import itertools
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import Final

import aiohttp
import msgspec
import structlog
from yarl import URL

from backends.kubernetes.backend.kept import (
    build_kept_events,
    list_kept_lines,
    merge_events,
)
from backends.kubernetes.crd.values import DaskCluster
from gateway.domain.cluster import ClusterEvent, EventType, Worker
from gateway.domain.errors import Unavailable
from gateway.ports import Clock, LogQuery

log = structlog.get_logger(__name__)

_CONNECT_S: Final = 2.0
# Until a replica says anything. It asks the API server for events meanwhile.
_ANSWER_S: Final = 10.0
# Without following, a node or a disk may be slow between two lines.
_SILENCE_S: Final = 30.0
# Of all tries together, so that many replicas that are frozen cost no more than one.
_FIND_S: Final = 15.0
# A line without an end is passed on in pieces.
_LONGEST_LINE: Final = 2**18
_AWAY: Final = "ControllerAway"

_EVENTS: Final = msgspec.json.Decoder(list[ClusterEvent])
_WORKERS: Final = msgspec.json.Decoder(list[Worker])


@dataclass(frozen=True, slots=True)
class RelaySettings:
    """Where the controller's replicas are asked.

    Parameters
    ----------
    urls
        ``http://host:port`` each, of one replica, or of a Service of all. Empty
        is nowhere.
    token_file
        Holds what they want to be shown; read for each call, as it may change.
    """

    urls: tuple[str, ...] = ()
    token_file: str = ""


class Relay:
    """Asks replicas in turn until one answers; belongs to one event loop.

    Parameters
    ----------
    settings
        Where, and with what.
    find_cluster
        Returns the `DaskCluster` of a name as it is known here, ``None`` if
        there is none.
    clock
        Dates the event that tells of a controller that is away.
    """

    def __init__(
        self,
        settings: RelaySettings,
        find_cluster: Callable[[str], DaskCluster | None],
        clock: Clock,
    ) -> None:
        self._urls = [URL(url) for url in settings.urls]
        self._token_file = settings.token_file
        self._find_cluster = find_cluster
        self._clock = clock
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()

    async def list_events(self, name: str) -> Sequence[ClusterEvent]:
        """Return events of a cluster and of its pods, oldest first.

        With no controller alive they are what the status keeps, and one of
        reason ``ControllerAway`` says so.
        """
        cluster = self._find_cluster(name)
        kept = () if cluster is None else build_kept_events(cluster)
        try:
            async with self._ask(f"/v1/clusters/{name}/events", {}) as answer:
                raw = b"[]" if answer is None else await answer.read()
            return merge_events(_EVENTS.decode(raw), kept)
        except (aiohttp.ClientError, OSError, TimeoutError) as error:
            why = f"a controller broke off: {type(error).__name__}"
        except msgspec.DecodeError as error:
            why = f"a controller said what is no list of events: {error}"
        except Unavailable as error:
            why = str(error)
        log.warning("events are incomplete", cluster=name, reason=why)
        return merge_events((), (*kept, self._tell_away(why)))

    async def list_workers(self, name: str) -> Sequence[Worker] | None:
        """Return the workers of a cluster that have pods, by ordinal.

        Returns
        -------
        sequence or None
            ``None`` if no controller can tell.
        """
        try:
            async with self._ask(f"/v1/clusters/{name}/workers", {}) as answer:
                if answer is None:
                    return None
                return _WORKERS.decode(await answer.read())
        except (aiohttp.ClientError, OSError, TimeoutError, Unavailable) as error:
            why = str(error) or type(error).__name__
        except msgspec.DecodeError as error:
            why = f"a controller said what is no list of workers: {error}"
        log.warning("workers are incomplete", cluster=name, reason=why)
        return None

    async def read_logs(self, name: str, query: LogQuery) -> AsyncGenerator[str]:
        """Yield log lines, oldest first; closing the iterator ends the call.

        Of pods that are gone, and with no controller alive, they are the lines
        that the status keeps.

        Raises
        ------
        Unavailable
            If no replica answers and nothing is kept, or the one that answered
            breaks off.
        """
        cluster = self._find_cluster(name)
        kept = () if cluster is None else list_kept_lines(cluster, query)
        lines = self._read_live(name, query)
        is_live = False
        try:
            async for line in lines:
                is_live = True
                yield line
        except Unavailable:
            if is_live or not kept:
                raise
        finally:
            await lines.aclose()
        if not is_live:
            for line in kept:
                yield line

    async def _read_live(self, name: str, query: LogQuery) -> AsyncGenerator[str]:
        path = f"/v1/clusters/{name}/logs"
        silence_s = None if query.follow else _SILENCE_S
        async with self._ask(path, _format_query(query), silence_s) as answer:
            if answer is None:
                return
            try:
                async for line in split_lines(answer.content.iter_any()):
                    yield line
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                what = f"the log of {name} broke off: {type(error).__name__}"
                raise Unavailable(f"{what}; ask again") from error

    @asynccontextmanager
    async def _ask(
        self, path: str, query: dict[str, str], silence_s: float | None = _SILENCE_S
    ) -> AsyncIterator[aiohttp.ClientResponse | None]:
        """Return the first good answer, begun; ``None`` if there is no such pod."""
        answer = await self._find_answer(path, query, silence_s)
        try:
            yield None if answer.status == HTTPStatus.NOT_FOUND else answer
        finally:
            # Of one that is not read to its end this closes the connection.
            answer.release()

    async def _find_answer(
        self, path: str, query: dict[str, str], silence_s: float | None
    ) -> aiohttp.ClientResponse:
        if not self._urls:
            raise Unavailable("no address of a controller is configured (relay_urls)")
        headers = {"Authorization": f"Bearer {await self._read_token()}"}
        timeout = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_S, sock_read=silence_s
        )
        problems = []
        deadline = asyncio.get_running_loop().time() + _FIND_S
        for url in tuple(self._urls):
            until = min(deadline, asyncio.get_running_loop().time() + _ANSWER_S)
            try:
                async with asyncio.timeout_at(until):
                    answer = await self._session.get(
                        url.with_path(path).with_query(query),
                        headers=headers,
                        timeout=timeout,
                        allow_redirects=False,
                    )
            except (aiohttp.ClientError, OSError, TimeoutError) as error:
                problems.append(f"{url.authority}: {_describe(error)}")
                continue
            if answer.status in (HTTPStatus.OK, HTTPStatus.NOT_FOUND):
                self._prefer(url)
                return answer
            problems.append(f"{url.authority}: {_describe_status(answer.status)}")
            answer.release()
        raise Unavailable(f"no controller answers: {'; '.join(problems)}")

    async def _read_token(self) -> str:
        path = self._token_file
        if not path:
            raise Unavailable("no token of the controller is configured")
        try:
            # Of secret and file no more is said than the file's name.
            return (await asyncio.to_thread(Path(path).read_text, "utf-8")).strip()
        except (OSError, UnicodeError) as error:
            text = f"relay_token_file {path} cannot be read: {type(error).__name__}"
            raise Unavailable(text) from error

    def _prefer(self, url: URL) -> None:
        """Ask the replica first that has just answered."""
        before = itertools.takewhile(lambda other: other != url, self._urls)
        passed = len(list(before))
        self._urls = self._urls[passed:] + self._urls[:passed]

    def _tell_away(self, why: str) -> ClusterEvent:
        now_ms = round(self._clock.now().timestamp() * 1000)
        text = f"only what the cluster's status keeps is shown: {why}"
        return ClusterEvent(now_ms, EventType.WARNING, _AWAY, text)


async def split_lines(chunks: AsyncIterator[bytes]) -> AsyncGenerator[str]:
    """Yield lines of ``chunks``; one of more than 256 KiB comes in pieces."""
    rest = b""
    async for chunk in chunks:
        *lines, rest = (rest + chunk).split(b"\n")
        for line in lines:
            yield line.decode(errors="replace")
        while len(rest) > _LONGEST_LINE:
            piece, rest = rest[:_LONGEST_LINE], rest[_LONGEST_LINE:]
            yield piece.decode(errors="replace")
    if rest:
        yield rest.decode(errors="replace")


def _format_query(query: LogQuery) -> dict[str, str]:
    given = {"component": query.component, "tail": str(query.tail)}
    if query.worker is not None:
        given["worker"] = query.worker
    if query.follow:
        given["follow"] = "1"
    return given


def _describe(error: Exception) -> str:
    match error:
        case TimeoutError():
            return "no answer in time"
        case aiohttp.ClientConnectorError():
            return "cannot connect"
        case _:
            return type(error).__name__


def _describe_status(status: int) -> str:
    if status == HTTPStatus.UNAUTHORIZED:
        return "refuses our token; both sides need the same relay_token_file"
    return f"answered {status}"
