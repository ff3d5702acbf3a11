"""For the ``alembic`` command, with which a developer drafts a new version.

The gateway itself runs versions by ``backends.database.migrate``. Here the URL is
that of ``alembic -x url=sqlite:///draft.sqlite``.
"""

from alembic import context
from sqlalchemy import create_engine

from backends.database.tables import metadata

engine = create_engine(context.get_x_argument(as_dictionary=True)["url"])
with engine.connect() as connection:
    # SQLite cannot change a column in place; Alembic then copies the table.
    context.configure(
        connection=connection,
        target_metadata=metadata,
        render_as_batch=connection.dialect.name == "sqlite",
    )
    with context.begin_transaction():
        context.run_migrations()
