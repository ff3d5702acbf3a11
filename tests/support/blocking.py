"""Fail a test in which our code blocks the event loop.

Only calls with a frame of ours on the stack count: a test may read a file.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from blockbuster import BlockBuster

OURS = ("gateway", "backends")

# (function, file of the frame that may block, its functions): why it may.
ALLOWED = (
    # A traceback is formatted from source files, once per file, when a bug is logged.
    ("os.stat", "linecache.py", ("checkcache", "updatecache")),
    ("io.TextIOWrapper.read", "linecache.py", ("updatecache",)),
    ("io.BufferedReader.read", "linecache.py", ("updatecache",)),
    # asyncpg looks for a password file and certificates each time it connects, and
    # has no way to be told that there are none; connections are pooled.
    ("os.stat", "asyncpg/connect_utils.py", ("_parse_connect_dsn_and_args",)),
    ("os.path.abspath", "asyncpg/connect_utils.py", ("_dot_postgresql_path",)),
    # Imports inside functions happen once, at the first call.
    ("os.stat", "<frozen importlib._bootstrap>", ("_find_and_load",)),
    ("os.listdir", "<frozen importlib._bootstrap>", ("_find_and_load",)),
    ("io.BufferedReader.read", "<frozen importlib._bootstrap>", ("_find_and_load",)),
    # This loop is a thread's own and runs nothing else.
    ("os.stat", "backends/kubernetes/api/connection.py", ("_load",)),
    ("os.path.abspath", "backends/kubernetes/api/connection.py", ("_load",)),
    ("io.TextIOWrapper.read", "backends/kubernetes/api/connection.py", ("_load",)),
    ("io.BufferedReader.read", "backends/kubernetes/api/connection.py", ("_load",)),
    ("io.BufferedWriter.write", "backends/kubernetes/api/connection.py", ("_load",)),
    # Answered from shared memory in microseconds, and never waits for a lock.
    ("sqlite3.Connection.execute", "backends/database/freshness.py", ("read",)),
    ("sqlite3.Cursor.fetchone", "backends/database/freshness.py", ("read",)),
)


@contextmanager
def refused() -> Iterator[None]:
    """Make blocking calls of our code on a running loop raise `BlockingError`."""
    blockbuster = BlockBuster(list(OURS))
    for function, file, callers in ALLOWED:
        blockbuster.functions[function].can_block_in(file, callers)
    blockbuster.activate()
    try:
        yield
    finally:
        blockbuster.deactivate()
