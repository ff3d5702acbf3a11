"""Beats say what their scheduler knew to be wanted."""

import sqlalchemy as sa
from alembic import op

revision: str = "0003"
down_revision: str | None = "0002"


def upgrade() -> None:
    """Go to this version; servers of the last one still write their rows."""
    op.add_column(
        "beats", sa.Column("seen", sa.BigInteger(), server_default="0", nullable=False)
    )


def downgrade() -> None:
    """Go back to the last version."""
    op.drop_column("beats", "seen")
