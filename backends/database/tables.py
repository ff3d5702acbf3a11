"""The tables, for SQLite and PostgreSQL alike.

Only what changes together stands together: ``clusters`` is small and hot,
``specs`` is written once, ``beats`` come every few seconds and count as no
change. Instants are milliseconds in 64 bits; 32 have overflowed in the peer.
"""

from typing import Final

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    false,
)

metadata: Final = MetaData(
    naming_convention={
        "pk": "pk_%(table_name)s",
        "uq": "uq_%(table_name)s_%(column_0_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
    }
)

# SQLite numbers rows by itself only in a column that is exactly INTEGER.
_ROW_ID: Final = BigInteger().with_variant(Integer, "sqlite")


def _cluster_key() -> "Column[int]":
    return Column(
        "cluster_id",
        _ROW_ID,
        ForeignKey("clusters.id", ondelete="CASCADE"),
        primary_key=True,
        autoincrement=False,
    )


clusters: Final = Table(
    "clusters",
    metadata,
    Column("id", _ROW_ID, primary_key=True, autoincrement=True),
    Column("name", String(63), nullable=False, unique=True),
    Column("owner", Text, nullable=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("phase", String(16), nullable=False),
    Column("active", Boolean, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("generation", BigInteger, nullable=False),
    Column("replicas", Integer, nullable=False),
    Column("adaptive_id", String(64)),
    Column("adaptive_minimum", Integer, nullable=False),
    Column("adaptive_maximum", Integer, nullable=False),
    Column("next_ordinal", Integer, nullable=False),
    Column("reserved_workers", Integer, nullable=False),
    Column("launched", Boolean, nullable=False),
    Column("started_ms", BigInteger),
    Column("running_ms", BigInteger),
    Column("stopped_ms", BigInteger),
    Column("scheduler_port", Integer),
    Column("dashboard_port", Integer),
    Column("route_host", Text),
    Column("is_failing", Boolean, nullable=False),
    Column("reason", String(64), nullable=False),
    Column("message", Text, nullable=False),
    Column("exit_code", Integer),
    Column("log_tail", JSON, nullable=False),
    Column("start_failures", Integer, nullable=False),
    Column("is_silent", Boolean, nullable=False),
    Column("asked_ms", BigInteger),
    Column("is_warned", Boolean, nullable=False, server_default=false()),
    # What follows is not part of the record: the server that reconciles it, and
    # what shares sum up (thousandths of a core, since sums of 0.1 are not exact).
    Column("claimed_by", String(64)),
    Column("scheduler_millicores", BigInteger, nullable=False),
    Column("worker_millicores", BigInteger, nullable=False),
    Column("scheduler_memory_bytes", BigInteger, nullable=False),
    Column("worker_memory_bytes", BigInteger, nullable=False),
    Index("ix_clusters_owner", "owner", "phase", "active"),
    Index("ix_clusters_phase", "phase", "stopped_ms"),
    # Read each second by every server; so narrow that it stays in memory.
    Index("ix_clusters_versions", "id", "version"),
    sqlite_autoincrement=True,
)

specs: Final = Table(
    "specs",
    metadata,
    _cluster_key(),
    Column("groups", JSON, nullable=False),
    Column("options", JSON, nullable=False),
    Column("config", JSON, nullable=False),
    Column("api_url", Text, nullable=False),
    Column("token_hash", String(64), nullable=False),
    Column("credentials", LargeBinary, nullable=False),
)

memberships: Final = Table(
    "memberships",
    metadata,
    Column("share", Text, primary_key=True),
    _cluster_key(),
    Index("ix_memberships_cluster", "cluster_id"),
)

workers: Final = Table(
    "workers",
    metadata,
    _cluster_key(),
    Column("ordinal", Integer, primary_key=True, autoincrement=False),
    Column("created_ms", BigInteger, nullable=False),
    Column("stage", String(16), nullable=False),
    Column("started_ms", BigInteger),
    Column("connected_ms", BigInteger),
    Column("stopped_ms", BigInteger),
    Column("cause", String(16)),
    Column("exit_code", Integer),
    Column("message", Text, nullable=False),
)

beats: Final = Table(
    "beats",
    metadata,
    _cluster_key(),
    Column("received_ms", BigInteger, nullable=False),
    Column("idle_s", Float, nullable=False),
    Column("no_client_s", Float, nullable=False),
    Column("clients", Integer, nullable=False),
    Column("unfinished", Integer, nullable=False),
    Column("outsiders", Integer, nullable=False),
    Column("held", JSON, nullable=False),
    Column("versions", JSON, nullable=False),
    Column("seen", BigInteger, nullable=False, server_default="0"),
)

events: Final = Table(
    "events",
    metadata,
    Column("id", _ROW_ID, primary_key=True, autoincrement=True),
    Column(
        "cluster_id",
        _ROW_ID,
        ForeignKey("clusters.id", ondelete="CASCADE"),
        nullable=False,
    ),
    Column("time_ms", BigInteger, nullable=False),
    Column("type", String(16), nullable=False),
    Column("reason", String(64), nullable=False),
    Column("message", Text, nullable=False),
    Column("component", String(16), nullable=False),
    Column("worker", String(80)),
    Index("ix_events_cluster", "cluster_id", "id"),
    sqlite_autoincrement=True,
)

servers: Final = Table(
    "servers",
    metadata,
    Column("id", String(64), primary_key=True),
    # By the database's own clock: the servers' clocks may differ.
    Column("until_ms", BigInteger, nullable=False),
    # Which process, as others on the same machine can check it.
    Column("process", Text, nullable=False),
    # Where the proxy reaches it; empty if it is an older version that says nothing.
    Column("url", Text, nullable=False, server_default=""),
)

settings: Final = Table(
    "settings",
    metadata,
    Column("key", String(64), primary_key=True),
    Column("value", LargeBinary, nullable=False),
)
