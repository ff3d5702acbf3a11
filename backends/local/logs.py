"""Read the output of a job back from the two files that its shim keeps.

The newer file becomes the older one when it is full, at any moment: an open
file is told from one of the same name by its inode. Everything here blocks.
"""

import os
from pathlib import Path
from typing import BinaryIO, Final, Self

# One line that never ends must not fill the memory of whoever reads it.
MAX_LINE_BYTES: Final = 65536
_BLOCK: Final = 65536
_LOST: Final = b"[lines may be missing here: they came too fast]\n"


def read_tail(paths: tuple[Path, Path], count: int) -> tuple[str, ...]:
    """Return the last ``count`` lines of both files, the older file first."""
    with LogReader(paths, tail=count) as reader:
        return tuple(reader.read(is_last=True)[-count:])


class LogReader:
    """Lines as they come, across the change of files.

    Parameters
    ----------
    paths
        The older file and the newer; neither need exist.
    tail
        Number of lines to begin with, from what is there.

    Notes
    -----
    If the files change twice between two calls of `read`, there may have been
    more that nobody can see any more; a line says so.
    """

    def __init__(self, paths: tuple[Path, Path], *, tail: int) -> None:
        self._older, self._newer = paths
        self._file = _open(self._newer)
        self._lines: list[str] = []
        self._rest = b""
        self._begin(tail)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the open file."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def read(self, *, is_last: bool = False) -> list[str]:
        """Return what has come since the last call, without newlines.

        Parameters
        ----------
        is_last
            The job has ended: return an unfinished line too.
        """
        while True:
            following = self._open_following()
            # Once there is a following file, nothing is added to this one.
            self._drain()
            if following is None:
                break
            self.close()
            self._file = following
        if is_last and self._rest:
            self._take(b"\n")
        lines, self._lines = self._lines, []
        return lines

    def _begin(self, tail: int) -> None:
        if self._file is None:
            return
        text = _read_last(self._file, tail)
        missing = tail - text.count(b"\n")
        older = _open(self._older) if missing > 0 else None
        if older is not None:
            with older:
                if not _is_same(older, self._file):
                    text = _read_last(older, missing) + text
        self._take(text)
        self._lines = self._lines[max(len(self._lines) - tail, 0) :]

    def _drain(self) -> None:
        while self._file is not None and (block := self._file.read(_BLOCK)):
            self._take(block)

    def _take(self, block: bytes) -> None:
        *lines, self._rest = (self._rest + block).split(b"\n")
        if len(self._rest) > MAX_LINE_BYTES:
            lines.append(self._rest)
            self._rest = b""
        self._lines += [
            line.decode(errors="replace").removesuffix("\r") for line in lines
        ]

    def _open_following(self) -> BinaryIO | None:
        """Return the file that follows the open one, if it has been begun."""
        newer = _open(self._newer)
        if newer is None or self._file is None:
            return newer
        if _is_same(newer, self._file):
            newer.close()
            return None
        older = _open(self._older)
        if older is None or _is_same(older, self._file) or _is_same(older, newer):
            if older is not None:
                older.close()
            return newer
        newer.close()
        self._drain()
        self._take((b"\n" if self._rest else b"") + _LOST)
        return older


def _open(path: Path) -> BinaryIO | None:
    try:
        return path.open("rb", buffering=0)
    except (FileNotFoundError, NotADirectoryError):
        return None


def _is_same(one: BinaryIO, other: BinaryIO) -> bool:
    return os.path.sameopenfile(one.fileno(), other.fileno())


def _read_last(file: BinaryIO, count: int) -> bytes:
    """Return the last ``count`` whole lines and what follows them; stand at the end."""
    end = file.seek(0, os.SEEK_END)
    start = end
    text = b""
    while start > 0 and text.count(b"\n") <= count:
        step = min(_BLOCK, start)
        start -= step
        file.seek(start)
        text = file.read(step) + text
    file.seek(end)
    lines = text.split(b"\n")
    return b"\n".join(lines[max(len(lines) - count - 1, 0) :])
