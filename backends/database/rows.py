"""Rows to records and back: which column holds what, and how it is written."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any, Final

import msgspec

from backends.database.records import (
    BeatRecord,
    ClusterRecord,
    ClusterSpec,
    LeaveCause,
    WorkerRecord,
    WorkerStage,
)
from backends.database.tables import beats, clusters, specs, workers
from gateway.domain.cluster import ClusterEvent, ClusterPhase, EventType
from gateway.domain.config import ResolvedConfig

CLUSTER_FIELDS: Final = tuple(f.name for f in fields(ClusterRecord))
WORKER_FIELDS: Final = tuple(f.name for f in fields(WorkerRecord))
BEAT_FIELDS: Final = tuple(f.name for f in fields(BeatRecord))
SPEC_FIELDS: Final = tuple(f.name for f in fields(ClusterSpec))

CLUSTER_COLUMNS: Final = tuple(clusters.c[name] for name in CLUSTER_FIELDS)
WORKER_COLUMNS: Final = tuple(workers.c[name] for name in WORKER_FIELDS)
BEAT_COLUMNS: Final = tuple(beats.c[name] for name in BEAT_FIELDS)
SPEC_COLUMNS: Final = tuple(specs.c[name] for name in SPEC_FIELDS)

# What a process prints is kept, but not all of it.
_LONGEST_MESSAGE: Final = 4000
_LONGEST_LINE: Final = 2000
_MOST_LINES: Final = 100


def read_cluster(row: Sequence[Any]) -> ClusterRecord:
    """Return the record in the first columns of ``row``, `CLUSTER_COLUMNS`."""
    values = dict(zip(CLUSTER_FIELDS, row, strict=False))
    values["phase"] = ClusterPhase(values["phase"])
    values["log_tail"] = tuple(values["log_tail"])
    return ClusterRecord(**values)


def read_beat(values: Sequence[Any]) -> BeatRecord | None:
    """Return the record of `BEAT_COLUMNS`, ``None`` if an outer join found none."""
    return None if values[0] is None else BeatRecord(*values)


def read_worker(row: Sequence[Any]) -> WorkerRecord:
    """Return the record of `WORKER_COLUMNS`."""
    # By place, since there may be thousands in one read.
    ordinal, created_ms, stage, started_ms, connected_ms, stopped_ms, *why = row
    cause, exit_code, message = why
    return WorkerRecord(
        ordinal,
        created_ms,
        WorkerStage(stage),
        started_ms,
        connected_ms,
        stopped_ms,
        None if cause is None else LeaveCause(cause),
        exit_code,
        message,
    )


def read_spec(row: Sequence[Any]) -> ClusterSpec:
    """Return the record of `SPEC_COLUMNS`.

    Fields of the configuration that an older version did not write have their
    defaults; those that only a newer one knows are left out.
    """
    groups, options, config, api_url = row
    return ClusterSpec(
        groups=tuple(groups),
        options=options,
        config=msgspec.convert(config, ResolvedConfig),
        api_url=api_url,
    )


def read_event(row: Sequence[Any]) -> ClusterEvent:
    """Return the event of its columns, in the order of its fields."""
    time_ms, kind, reason, message, component, worker = row
    return ClusterEvent(time_ms, EventType(kind), reason, message, component, worker)


def write_cluster(
    record: ClusterRecord, before: ClusterRecord | None = None
) -> dict[str, Any]:
    """Return the columns of ``record`` that differ from ``before``; all if ``None``."""
    values = {
        name: getattr(record, name)
        for name in CLUSTER_FIELDS
        if before is None or getattr(before, name) != getattr(record, name)
    }
    if "log_tail" in values:
        values["log_tail"] = clean_lines(values["log_tail"])
    for name in {"message", "owner"} & values.keys():
        values[name] = clean_text(values[name])
    return values


def write_shape(spec: ClusterSpec) -> dict[str, int]:
    """Return the columns by which shares count a cluster."""
    shape = spec.shape
    return {
        "scheduler_millicores": round(shape.scheduler_cores * 1000),
        "worker_millicores": round(shape.worker_cores * 1000),
        "scheduler_memory_bytes": round(shape.scheduler_memory_bytes),
        "worker_memory_bytes": round(shape.worker_memory_bytes),
    }


def write_spec(spec: ClusterSpec) -> dict[str, Any]:
    """Return the columns of ``spec``."""
    return {
        "groups": list(spec.groups),
        "options": dict(spec.options),
        "config": asdict(spec.config),
        "api_url": spec.api_url,
    }


def write_worker(cluster_id: int, record: WorkerRecord) -> dict[str, Any]:
    """Return all columns of ``record``."""
    values = {name: getattr(record, name) for name in WORKER_FIELDS}
    values["message"] = clean_text(record.message)
    return {"cluster_id": cluster_id, **values}


def write_beat(cluster_id: int, record: BeatRecord) -> dict[str, Any]:
    """Return all columns of ``record``."""
    values = {name: getattr(record, name) for name in BEAT_FIELDS}
    for name in ("held", "versions"):
        values[name] = _clean_mapping(values[name])
    return {"cluster_id": cluster_id, **values}


def write_event(cluster_id: int, event: ClusterEvent) -> dict[str, Any]:
    """Return all columns of ``event``."""
    return {
        "cluster_id": cluster_id,
        "time_ms": event.time_ms,
        "type": event.type,
        "reason": event.reason,
        "message": clean_text(event.message),
        "component": event.component,
        "worker": event.worker,
    }


def clean_text(text: str) -> str:
    """Return ``text`` as both databases take it: bounded, no NUL, valid Unicode."""
    text = text[:_LONGEST_MESSAGE].replace("\0", "\N{REPLACEMENT CHARACTER}")
    return text.encode("utf-8", "replace").decode()


def clean_lines(lines: tuple[str, ...]) -> list[str]:
    """Return the last of ``lines``, each as `clean_text` and shorter."""
    return [clean_text(line[:_LONGEST_LINE]) for line in lines[-_MOST_LINES:]]


def _clean_mapping(mapping: Mapping[str, str]) -> dict[str, str]:
    return {clean_text(key): clean_text(value) for key, value in mapping.items()}
