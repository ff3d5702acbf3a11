"""The error tree of the core. Errors of one backend stand with that backend."""

from collections.abc import Sequence
from typing import Self


class GatewayError(Exception):
    """Root; never raised itself."""


class UserError(GatewayError):
    """Something the caller can mend; the text is shown to them verbatim."""

    code = "user_error"
    http_status = 422


class InvalidRequest(UserError):
    """A body, a query or a value that does not fit.

    Parameters
    ----------
    field
        Path of the offending value, such as ``cluster_options.worker_cores``;
        empty if it is the body as a whole.
    text
        What is wrong with it, and what would be right.
    """

    code = "invalid_request"
    http_status = 422

    def __init__(self, field: str, text: str) -> None:
        super().__init__(f"{field}: {text}" if field else text)
        self.field = field
        self.text = text


class RefusedOptions(UserError):
    """Cluster options were refused; the text is the handler's own, any lines."""

    code = "refused_options"
    http_status = 422


class Unauthenticated(UserError):
    """Nobody that we know.

    Parameters
    ----------
    text
        Why, without repeating the credentials.
    challenge
        Value of the ``WWW-Authenticate`` header; none is sent if ``None``.
    """

    code = "unauthenticated"
    http_status = 401

    def __init__(
        self, text: str = "Authentication required", *, challenge: str | None = None
    ) -> None:
        super().__init__(text)
        self.challenge = challenge


class Forbidden(UserError):
    """A role or scope is missing; the text names it."""

    code = "forbidden"
    http_status = 403


class ClusterNotFound(UserError):
    """There is no such cluster, or it is another user's: both look alike."""

    code = "cluster_not_found"
    http_status = 404

    def __init__(self, name: str) -> None:
        super().__init__(f"Cluster {name} not found")
        self.name = name


class ClusterNotRunning(UserError):
    """The cluster has ended, or failed; the text says why."""

    code = "cluster_not_running"
    http_status = 409

    @classmethod
    def tell(cls, name: str, reason: str, *, has_ended: bool) -> Self:
        """Return the refusal of a request to cluster ``name``.

        Parameters
        ----------
        reason
            Why it has ended or is to end; empty if nothing is known.
        """
        state = "has ended" if has_ended else "is stopping"
        why = f" ({reason})" if reason else ""
        return cls(f"cluster {name} is not running: it {state}{why}")


class LimitExceeded(UserError):
    """A cap of the cluster, the user or a group stands in the way."""

    code = "limit_exceeded"
    http_status = 422


class BackendError(GatewayError):
    """Our fault or the platform's; the text is for operators.

    Parameters
    ----------
    text
        What failed, on which object.
    """

    code = "backend_error"
    http_status = 500
    retryable = False


class Unavailable(BackendError):
    """The store or the platform does not answer now.

    Parameters
    ----------
    text
        What is away.
    retry_after_s
        When to ask again, in seconds.
    """

    code = "unavailable"
    http_status = 503
    retryable = True

    def __init__(self, text: str, *, retry_after_s: float = 1.0) -> None:
        super().__init__(text)
        self.retry_after_s = retry_after_s


class Rejected(BackendError):
    """The platform refused by quota or policy; trying again changes nothing."""

    code = "rejected"
    http_status = 409


class ConfigError(GatewayError):
    """The configuration cannot be used.

    Parameters
    ----------
    problems
        All that was found, one line each.
    """

    exit_status = 78  # EX_CONFIG of sysexits(3)

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = tuple(problems)


class InvariantError(GatewayError):
    """A bug of ours: 500, a stack trace in the log; never caught to continue."""
