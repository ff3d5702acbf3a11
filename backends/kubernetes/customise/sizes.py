"""How large an object may become: patches can multiply what is there."""

from typing import Any, Final

import msgspec

from backends.kubernetes.customise.values import PatchFailure, Reason

# A pod of ours has 5 KiB; etcd refuses 1.5 MiB, and one list may hold a thousand.
MOST_BYTES: Final = 256 * 1024
# Deeper than any object of Kubernetes; recursion stays far from Python's limit.
MOST_DEPTH: Final = 64


def check_size(value: Any) -> None:  # noqa: ANN401 - any JSON
    """Refuse an object that has grown too large.

    Raises
    ------
    PatchFailure
        If it is deeper than `MOST_DEPTH` or longer than `MOST_BYTES` as JSON.
    """
    if measure_depth(value) > MOST_DEPTH:
        text = f"becomes deeper than {MOST_DEPTH} levels"
        raise PatchFailure((), text, Reason.TOO_LARGE)
    if len(msgspec.json.encode(value)) > MOST_BYTES:
        text = f"becomes larger than {MOST_BYTES // 1024} KiB"
        raise PatchFailure((), text, Reason.TOO_LARGE)


def measure_depth(value: Any) -> int:  # noqa: ANN401 - any JSON
    """Return how many maps and lists lie within each other, at most.

    Examples
    --------
    >>> measure_depth(1), measure_depth({"a": [1]})
    (0, 2)
    """
    depth, level = 0, [value]
    while level := [v for v in level if isinstance(v, dict | list)]:
        depth += 1
        level = [
            inner
            for outer in level
            for inner in (outer.values() if isinstance(outer, dict) else outer)
        ]
    return depth
