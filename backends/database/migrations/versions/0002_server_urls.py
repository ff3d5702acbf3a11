"""Servers say where the proxy reaches them."""

import sqlalchemy as sa
from alembic import op

revision: str = "0002"
down_revision: str | None = "0001"


def upgrade() -> None:
    """Go to this version; servers of the last one still write their rows."""
    op.add_column(
        "servers", sa.Column("url", sa.Text(), server_default="", nullable=False)
    )


def downgrade() -> None:
    """Go back to the last version."""
    op.drop_column("servers", "url")
