"""Read the output of a cluster's jobs."""

from collections.abc import AsyncGenerator, AsyncIterator

from backends.database.launcher import JobRef, Launcher, Role
from backends.database.records import Snapshot
from gateway.domain.errors import InvalidRequest
from gateway.domain.names import parse_worker_ordinal
from gateway.ports import LogQuery


def find_log_refs(snapshot: Snapshot, query: LogQuery) -> tuple[JobRef, ...]:
    """Return the jobs whose output is asked for.

    Raises
    ------
    InvalidRequest
        If there is no such component, or all workers are to be followed.
    """
    cluster = snapshot.cluster
    if query.component == Role.SCHEDULER:
        return (cluster.scheduler_ref,)
    if query.component != Role.WORKER:
        raise InvalidRequest("component", "must be scheduler or worker")
    if query.worker is not None:
        ordinal = parse_worker_ordinal(cluster.name, query.worker)
        if ordinal is None or ordinal >= cluster.next_ordinal:
            text = f"cluster {cluster.name} has no worker {query.worker:.100}"
            raise InvalidRequest("worker", text)
        return (cluster.worker_ref(ordinal),)
    if query.follow:
        raise InvalidRequest("worker", "name one worker to follow its log")
    return tuple(cluster.worker_ref(w.ordinal) for w in snapshot.workers)


async def read_lines(
    launcher: Launcher, snapshot: Snapshot, query: LogQuery
) -> AsyncGenerator[str]:
    """Yield the lines asked for, each with its worker's name if there are several.

    What was kept of an ended scheduler is given if its log is gone.
    """
    refs = find_log_refs(snapshot, query)
    is_empty = True
    for ref in refs:
        lines = launcher.read_logs(ref, tail=query.tail, follow=query.follow)
        try:
            async for line in lines:
                is_empty = False
                yield f"[{ref.name}] {line}" if len(refs) > 1 else line
        finally:
            await _close(lines)
    if is_empty and refs == (snapshot.cluster.scheduler_ref,) and query.tail > 0:
        for line in snapshot.cluster.log_tail[-query.tail :]:
            yield line


async def _close(lines: AsyncIterator[str]) -> None:
    # The protocol asks for an iterator; a generator holds a file until it is closed.
    close = getattr(lines, "aclose", None)
    if close is not None:
        await close()
