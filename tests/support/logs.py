"""How log lines look while tests run: plain, on the captured standard output.

structlog's own default would print the values of local variables beside each
traceback, secrets among them, and read their files in the loop.
"""

import structlog


def configure() -> None:
    """Set structlog up; cheap enough for each test, since some change it."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.StackInfoRenderer(),
            structlog.dev.ConsoleRenderer(
                colors=False, exception_formatter=structlog.dev.plain_traceback
            ),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(0),  # all levels
        logger_factory=structlog.PrintLoggerFactory(),
        cache_logger_on_first_use=False,
    )
