"""Clusters know when their workers were asked for, and whether people were warned."""

import sqlalchemy as sa
from alembic import op

revision: str = "0004"
down_revision: str | None = "0003"


def upgrade() -> None:
    """Go to this version; servers of the last one still write their rows."""
    op.add_column("clusters", sa.Column("asked_ms", sa.BigInteger()))
    op.add_column(
        "clusters",
        sa.Column("is_warned", sa.Boolean(), server_default=sa.false(), nullable=False),
    )


def downgrade() -> None:
    """Go back to the last version."""
    op.drop_column("clusters", "is_warned")
    op.drop_column("clusters", "asked_ms")
