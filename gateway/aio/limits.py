"""Containers that cannot grow without bound."""

import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class ExpiringMap(Generic[K, V]):
    """A mapping that forgets: the least recently used, and what is too old.

    Parameters
    ----------
    max_size
        Highest number of entries, >= 1.
    ttl_s
        Seconds that an entry lives from when it was put; reading does not
        prolong it. ``None`` is for ever.
    monotonic
        Clock that never steps, such as `gateway.ports.Clock.monotonic`.

    Examples
    --------
    >>> entries = ExpiringMap(2)
    >>> for key in "abc":
    ...     entries.put(key, key.upper())
    >>> entries.get("a"), entries.get("c"), len(entries)
    (None, 'C', 2)
    """

    def __init__(
        self,
        max_size: int,
        ttl_s: float | None = None,
        *,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        if max_size < 1:
            raise ValueError(f"max_size must be >= 1, got {max_size}")
        self._max_size = max_size
        self._ttl_s = ttl_s
        self._monotonic = monotonic
        self._entries: OrderedDict[K, tuple[float, V]] = OrderedDict()

    def __len__(self) -> int:
        """Return the number of entries held, expired ones not yet met included."""
        return len(self._entries)

    def get(self, key: K) -> V | None:
        """Return the value of ``key``, ``None`` if it is absent or too old."""
        entry = self._entries.get(key)
        if entry is None:
            return None
        if self._ttl_s is not None and self._monotonic() - entry[0] >= self._ttl_s:
            del self._entries[key]
            return None
        self._entries.move_to_end(key)
        return entry[1]

    def put(self, key: K, value: V) -> None:
        """Keep ``value``, for ``ttl_s`` from now; the oldest may have to go."""
        self._entries.pop(key, None)
        self._entries[key] = (self._monotonic(), value)
        if len(self._entries) > self._max_size:
            self._entries.popitem(last=False)

    def pop(self, key: K) -> V | None:
        """Forget ``key`` and return what `get` would have returned."""
        value = self.get(key)
        self._entries.pop(key, None)
        return value

    def clear(self) -> None:
        """Forget everything."""
        self._entries.clear()
