"""What the drivers raise, as errors of ours. The one place that knows their classes."""

import sqlite3

from sqlalchemy.engine import URL
from sqlalchemy.exc import DBAPIError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from gateway.domain.errors import ConfigError, GatewayError, InvariantError, Unavailable

Classes = tuple[type[BaseException], ...]


class Faults:
    """Knows what the driver of one database raises.

    Parameters
    ----------
    url
        As parsed by `backends.database.engine.parse_url`.
    setting
        Name of the setting that holds it, for errors that only an operator mends.
    """

    def __init__(self, url: URL, *, setting: str) -> None:
        self._setting = setting
        self._away: Classes = (OSError, sqlite3.OperationalError)
        self._misfits: Classes = (sqlite3.DatabaseError,)
        if url.get_backend_name() == "postgresql":
            import asyncpg  # noqa: PLC0415 - an extra that SQLite does without

            self._away = (
                *self._away,
                asyncpg.InterfaceError,
                asyncpg.PostgresConnectionError,
                asyncpg.OperatorInterventionError,
                asyncpg.InsufficientResourcesError,
                asyncpg.QueryCanceledError,
                asyncpg.LockNotAvailableError,
                asyncpg.DeadlockDetectedError,
                asyncpg.IdleInTransactionSessionTimeoutError,
            )
            self._misfits = (
                asyncpg.InvalidAuthorizationSpecificationError,
                asyncpg.InvalidCatalogNameError,
                asyncpg.InsufficientPrivilegeError,
            )

    @property
    def classes(self) -> Classes:
        """All that a call may raise for reasons of the database."""
        return (TimeoutError, SQLAlchemyError, *self._away, *self._misfits)

    def translate(self, error: BaseException) -> GatewayError:
        """Return our error for one of `classes`, to be raised from it.

        What is left is a statement of ours that is wrong.
        """
        if isinstance(error, TimeoutError | PoolTimeout):
            return Unavailable("the database does not answer in time")
        is_lost = isinstance(error, DBAPIError) and error.connection_invalidated
        cause = _find_cause(error)
        if is_lost or isinstance(cause, self._away):
            return Unavailable("the database is not available")
        if isinstance(cause, self._misfits):
            return ConfigError([f"{self._setting}: {cause}"])
        return InvariantError("a statement failed")


def _find_cause(error: BaseException) -> BaseException:
    """Return the driver's own exception."""
    if not isinstance(error, DBAPIError) or error.orig is None:
        return error
    # SQLAlchemy puts a class of its own between itself and asyncpg.
    return error.orig.__cause__ or error.orig
