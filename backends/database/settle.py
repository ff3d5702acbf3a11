"""Decide what becomes of a worker's row by what was seen of its job. Pure.

How many workers there are to be is decided in ``workforce``.
"""

from dataclasses import replace

from backends.database.launcher import JobState, JobView
from backends.database.observed import Observed, Trouble, describe_end
from backends.database.records import LeaveCause, Snapshot, WorkerRecord, WorkerStage
from gateway.domain.lifetime import FRESH_S


def settle_worker(
    desired: Snapshot, worker: WorkerRecord, observed: Observed, now_ms: int
) -> WorkerRecord:
    """Return ``worker`` as what was seen of its job makes it."""
    if worker.stage is WorkerStage.ENDED:
        return worker
    ref = desired.cluster.worker_ref(worker.ordinal)
    view = observed.view(ref)
    if worker.stage is WorkerStage.STOPPING:
        return _settle_stopping(worker, view, is_gone=ref in observed.stopped)
    if ref in observed.refused:
        text = f"cannot be started: {observed.refused[ref]}"
        return leave(worker, now_ms, text, LeaveCause.FAULT)
    if view.state is JobState.ENDED:
        return _settle_ended(worker, view, now_ms)
    if view.state is JobState.ABSENT:
        return _settle_absent(desired, worker, observed, now_ms)
    return _settle_alive(desired, worker, observed, now_ms, view=view)


def leave(
    worker: WorkerRecord, now_ms: int, text: str, cause: LeaveCause
) -> WorkerRecord:
    """Return ``worker`` on its way out; there is no way back."""
    return replace(
        worker,
        stage=WorkerStage.STOPPING,
        stopped_ms=now_ms,
        cause=cause,
        message=text,
    )


def find_due_ms(
    desired: Snapshot, worker: WorkerRecord, observed: Observed, now_ms: int
) -> int | None:
    """Return when time alone changes the row of ``worker``."""
    ref = desired.cluster.worker_ref(worker.ordinal)
    if observed.view(ref).state is not JobState.ABSENT:
        deadline_ms = _connect_deadline_ms(desired, worker, observed)
        if deadline_ms is not None and deadline_ms <= now_ms:
            # Overdue but nobody can tell: the next sync will.
            return now_ms + round(FRESH_S * 1000)
        return deadline_ms
    if worker.stage is WorkerStage.WANTED:
        trouble = observed.troubles.get(ref)
        return None if trouble is None else _give_up_ms(desired, trouble)
    return observed.lost_at_ms(ref, now_ms) if worker.stage.is_live else None


def _settle_stopping(
    worker: WorkerRecord, view: JobView, *, is_gone: bool
) -> WorkerRecord:
    if not is_gone:
        return worker
    code = view.exit_code if worker.exit_code is None else worker.exit_code
    return replace(worker, stage=WorkerStage.ENDED, exit_code=code)


def _settle_ended(worker: WorkerRecord, view: JobView, now_ms: int) -> WorkerRecord:
    if worker.stage is WorkerStage.DRAINING:
        cause = LeaveCause.DRAINED
    elif worker.stage is WorkerStage.CONNECTED and view.exit_code == 0:
        cause = LeaveCause.RETURNED
    else:
        cause = LeaveCause.FAULT
    left = leave(worker, now_ms, describe_end(view), cause)
    return replace(left, exit_code=view.exit_code)


def _settle_alive(
    desired: Snapshot,
    worker: WorkerRecord,
    observed: Observed,
    now_ms: int,
    *,
    view: JobView,
) -> WorkerRecord:
    stage, started_ms = worker.stage, worker.started_ms
    if stage is WorkerStage.WANTED:
        stage = WorkerStage.STARTED
    if started_ms is None and view.state is JobState.RUNNING:
        started_ms = view.started_ms or now_ms
    if (stage, started_ms) != (worker.stage, worker.started_ms):
        worker = replace(worker, stage=stage, started_ms=started_ms)
    deadline_ms = _connect_deadline_ms(desired, worker, observed)
    if deadline_ms is None or now_ms < deadline_ms or not _is_heard(desired, now_ms):
        return worker
    seconds = f"{desired.spec.config.worker_start_timeout_s:g} s"
    text = f"did not connect to the scheduler within {seconds}"
    return leave(worker, now_ms, text, LeaveCause.FAULT)


def _settle_absent(
    desired: Snapshot, worker: WorkerRecord, observed: Observed, now_ms: int
) -> WorkerRecord:
    ref = desired.cluster.worker_ref(worker.ordinal)
    if worker.stage is WorkerStage.WANTED:
        trouble = observed.troubles.get(ref)
        if trouble is None or now_ms < _give_up_ms(desired, trouble):
            return worker
        seconds = f"{desired.spec.config.worker_start_timeout_s:g} s"
        text = f"could not be started within {seconds}: {trouble.text}"
        return leave(worker, now_ms, text, LeaveCause.FAULT)
    if now_ms < observed.lost_at_ms(ref, now_ms):
        return worker
    is_draining = worker.stage is WorkerStage.DRAINING
    cause = LeaveCause.DRAINED if is_draining else LeaveCause.FAULT
    return leave(worker, now_ms, "is gone without a trace", cause)


def _give_up_ms(desired: Snapshot, trouble: Trouble) -> int:
    return trouble.since_ms + round(desired.spec.config.worker_start_timeout_s * 1000)


def _connect_deadline_ms(
    desired: Snapshot, worker: WorkerRecord, observed: Observed
) -> int | None:
    if worker.stage is not WorkerStage.STARTED or worker.started_ms is None:
        return None
    timeout_s = desired.spec.config.worker_start_timeout_s
    return observed.overdue_at_ms(worker.started_ms, timeout_s)


def _is_heard(desired: Snapshot, now_ms: int) -> bool:
    # Who has connected is known from the scheduler alone. While it is silent
    # nobody can tell, and no worker is blamed.
    if desired.beat is None:
        return False
    return now_ms - desired.beat.received_ms <= FRESH_S * 1000
