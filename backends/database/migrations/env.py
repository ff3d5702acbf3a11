"""Run migrations over the connection that ``backends.database.migrate`` gives."""

from alembic import context

from backends.database.tables import metadata

connection = context.config.attributes["connection"]
# SQLite cannot change a column in place; Alembic then copies the table.
context.configure(
    connection=connection,
    target_metadata=metadata,
    render_as_batch=connection.dialect.name == "sqlite",
)
with context.begin_transaction():
    context.run_migrations()
