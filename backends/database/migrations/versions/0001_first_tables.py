"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision: str = "0001"
down_revision: str | None = None

# As it was when this version was released; `tables` may move on.
ROW_ID = sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def upgrade() -> None:
    """Go to this version."""
    _create_clusters()
    _create_servers()
    _create_settings()
    _create_beats()
    _create_events()
    _create_memberships()
    _create_specs()
    _create_workers()


def downgrade() -> None:
    """Go back to an empty database."""
    for name in (
        "workers",
        "specs",
        "memberships",
        "events",
        "beats",
        "settings",
        "servers",
        "clusters",
    ):
        op.drop_table(name)


def _create_clusters() -> None:
    op.create_table(
        "clusters",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("name", sa.String(length=63), nullable=False),
        sa.Column("owner", sa.Text(), nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("phase", sa.String(length=16), nullable=False),
        sa.Column("active", sa.Boolean(), nullable=False),
        sa.Column("version", sa.BigInteger(), nullable=False),
        sa.Column("generation", sa.BigInteger(), nullable=False),
        sa.Column("replicas", sa.Integer(), nullable=False),
        sa.Column("adaptive_id", sa.String(length=64), nullable=True),
        sa.Column("adaptive_minimum", sa.Integer(), nullable=False),
        sa.Column("adaptive_maximum", sa.Integer(), nullable=False),
        sa.Column("next_ordinal", sa.Integer(), nullable=False),
        sa.Column("reserved_workers", sa.Integer(), nullable=False),
        sa.Column("launched", sa.Boolean(), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=True),
        sa.Column("running_ms", sa.BigInteger(), nullable=True),
        sa.Column("stopped_ms", sa.BigInteger(), nullable=True),
        sa.Column("scheduler_port", sa.Integer(), nullable=True),
        sa.Column("dashboard_port", sa.Integer(), nullable=True),
        sa.Column("route_host", sa.Text(), nullable=True),
        sa.Column("is_failing", sa.Boolean(), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("log_tail", sa.JSON(), nullable=False),
        sa.Column("start_failures", sa.Integer(), nullable=False),
        sa.Column("is_silent", sa.Boolean(), nullable=False),
        sa.Column("claimed_by", sa.String(length=64), nullable=True),
        sa.Column("scheduler_millicores", sa.BigInteger(), nullable=False),
        sa.Column("worker_millicores", sa.BigInteger(), nullable=False),
        sa.Column("scheduler_memory_bytes", sa.BigInteger(), nullable=False),
        sa.Column("worker_memory_bytes", sa.BigInteger(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_clusters"),
        sa.UniqueConstraint("name", name="uq_clusters_name"),
        sqlite_autoincrement=True,
    )
    op.create_index(
        "ix_clusters_owner", "clusters", ["owner", "phase", "active"], unique=False
    )
    op.create_index(
        "ix_clusters_phase", "clusters", ["phase", "stopped_ms"], unique=False
    )
    op.create_index("ix_clusters_versions", "clusters", ["id", "version"], unique=False)


def _create_servers() -> None:
    op.create_table(
        "servers",
        sa.Column("id", sa.String(length=64), nullable=False),
        sa.Column("until_ms", sa.BigInteger(), nullable=False),
        sa.Column("process", sa.Text(), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_servers"),
    )


def _create_settings() -> None:
    op.create_table(
        "settings",
        sa.Column("key", sa.String(length=64), nullable=False),
        sa.Column("value", sa.LargeBinary(), nullable=False),
        sa.PrimaryKeyConstraint("key", name="pk_settings"),
    )


def _create_beats() -> None:
    op.create_table(
        "beats",
        sa.Column("cluster_id", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("received_ms", sa.BigInteger(), nullable=False),
        sa.Column("idle_s", sa.Float(), nullable=False),
        sa.Column("no_client_s", sa.Float(), nullable=False),
        sa.Column("clients", sa.Integer(), nullable=False),
        sa.Column("unfinished", sa.Integer(), nullable=False),
        sa.Column("outsiders", sa.Integer(), nullable=False),
        sa.Column("held", sa.JSON(), nullable=False),
        sa.Column("versions", sa.JSON(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"],
            ["clusters.id"],
            name="fk_beats_cluster_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("cluster_id", name="pk_beats"),
    )


def _create_events() -> None:
    op.create_table(
        "events",
        sa.Column("id", ROW_ID, autoincrement=True, nullable=False),
        sa.Column("cluster_id", ROW_ID, nullable=False),
        sa.Column("time_ms", sa.BigInteger(), nullable=False),
        sa.Column("type", sa.String(length=16), nullable=False),
        sa.Column("reason", sa.String(length=64), nullable=False),
        sa.Column("message", sa.Text(), nullable=False),
        sa.Column("component", sa.String(length=16), nullable=False),
        sa.Column("worker", sa.String(length=80), nullable=True),
        sa.ForeignKeyConstraint(
            ["cluster_id"],
            ["clusters.id"],
            name="fk_events_cluster_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("id", name="pk_events"),
        sqlite_autoincrement=True,
    )
    op.create_index("ix_events_cluster", "events", ["cluster_id", "id"], unique=False)


def _create_memberships() -> None:
    op.create_table(
        "memberships",
        sa.Column("share", sa.Text(), nullable=False),
        sa.Column("cluster_id", ROW_ID, autoincrement=False, nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"],
            ["clusters.id"],
            name="fk_memberships_cluster_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("share", "cluster_id", name="pk_memberships"),
    )
    op.create_index(
        "ix_memberships_cluster", "memberships", ["cluster_id"], unique=False
    )


def _create_specs() -> None:
    op.create_table(
        "specs",
        sa.Column("cluster_id", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("groups", sa.JSON(), nullable=False),
        sa.Column("options", sa.JSON(), nullable=False),
        sa.Column("config", sa.JSON(), nullable=False),
        sa.Column("api_url", sa.Text(), nullable=False),
        sa.Column("token_hash", sa.String(length=64), nullable=False),
        sa.Column("credentials", sa.LargeBinary(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"],
            ["clusters.id"],
            name="fk_specs_cluster_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("cluster_id", name="pk_specs"),
    )


def _create_workers() -> None:
    op.create_table(
        "workers",
        sa.Column("cluster_id", ROW_ID, autoincrement=False, nullable=False),
        sa.Column("ordinal", sa.Integer(), autoincrement=False, nullable=False),
        sa.Column("created_ms", sa.BigInteger(), nullable=False),
        sa.Column("stage", sa.String(length=16), nullable=False),
        sa.Column("started_ms", sa.BigInteger(), nullable=True),
        sa.Column("connected_ms", sa.BigInteger(), nullable=True),
        sa.Column("stopped_ms", sa.BigInteger(), nullable=True),
        sa.Column("cause", sa.String(length=16), nullable=True),
        sa.Column("exit_code", sa.Integer(), nullable=True),
        sa.Column("message", sa.Text(), nullable=False),
        sa.ForeignKeyConstraint(
            ["cluster_id"],
            ["clusters.id"],
            name="fk_workers_cluster_id",
            ondelete="CASCADE",
        ),
        sa.PrimaryKeyConstraint("cluster_id", "ordinal", name="pk_workers"),
    )
