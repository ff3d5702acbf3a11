"""A program that runs beside the tests, and that they may freeze, kill and restart."""

import os
import signal
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Self

from tests.support import strays

# A loaded machine of two cores starts an API server in 30 s instead of 4.
START_S = 120
STOP_S = 30
_POLL_S = 0.05
_TAIL_LINES = 30


class ServiceFailed(AssertionError):
    """A service did not start, did not answer, or ended; its log's tail is told."""


class Service:
    """One program with its log, its readiness and its signals.

    Parameters
    ----------
    name
        How failures call it; also the log's name.
    command
        Program and arguments.
    log
        File to which its output is appended, over restarts too.
    is_ready
        Asked again and again after a start; an `OSError` means "not yet".
    environment
        Instead of this process's own.
    within
        Seconds from a start to readiness.
    """

    def __init__(
        self,
        name: str,
        command: Sequence[str | Path],
        *,
        log: Path,
        is_ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
        within: float = START_S,
    ) -> None:
        self.name = name
        self.command = [str(word) for word in command]
        self.log = log
        self._is_ready = is_ready
        self._environment = environment
        self._within = within
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """The process's number; `ServiceFailed` if it was never started."""
        return self._started().pid

    @property
    def is_running(self) -> bool:
        """Whether the process exists, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def has_ended(self) -> bool:
        """Whether it was started and is gone."""
        return self._process is not None and not self.is_running

    def launch(self) -> Self:
        """Start the process without waiting for it."""
        if self.is_running:
            raise ServiceFailed(f"{self.name} runs already")
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self._environment,
                # A Ctrl-C is for pytest; fixtures end what they started.
                start_new_session=True,
            )
        # A test that restarts a service of the session leaves nothing behind.
        strays.spare(self._process.pid)
        return self

    def wait_ready(self) -> Self:
        """Wait until it answers.

        Raises
        ------
        ServiceFailed
            When the time is over, or the process has ended.
        """
        deadline = time.monotonic() + self._within
        while not self._answers():
            status = self._started().poll()
            if status is not None:
                raise ServiceFailed(f"{self.name} ended with {status}\n{self.tail()}")
            if time.monotonic() > deadline:
                raise ServiceFailed(
                    f"{self.name} was not ready within {self._within:g} s\n"
                    f"{self.tail()}"
                )
            time.sleep(_POLL_S)
        return self

    def start(self) -> Self:
        """Start the process and wait until it answers."""
        return self.launch().wait_ready()

    def pause(self) -> None:
        """Freeze it: connections stay open and nothing is answered."""
        self._started().send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        if self.is_running:
            self._started().send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """Kill it as the kernel does, and wait until it is gone."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait(STOP_S)

    def stop(self) -> None:
        """Ask it to end and wait; kill it when it does not."""
        if not self.is_running:
            return
        process = self._started()
        process.terminate()
        self.resume()
        try:
            process.wait(STOP_S)
        except subprocess.TimeoutExpired:
            self.kill()

    def restart(self) -> Self:
        """Kill it, start it again with the same arguments and wait for it."""
        self.kill()
        return self.start()

    def tail(self, lines: int = _TAIL_LINES) -> str:
        """Return the last lines of its log."""
        text = self.log.read_text(errors="replace") if self.log.exists() else ""
        last = "\n".join(text.splitlines()[-lines:])
        return f"--- {self.log.name}:\n{last}"

    def _answers(self) -> bool:
        with suppress(OSError):
            return self.is_running and self._is_ready()
        return False

    def _started(self) -> subprocess.Popen[bytes]:
        if self._process is None:
            raise ServiceFailed(f"{self.name} was never started")
        return self._process


def answers(
    url: str, *, authority: Path | None = None, is_verified: bool = True
) -> bool:
    """Return whether ``url`` answers 200; an `OSError` means that nothing does.

    Parameters
    ----------
    authority
        PEM file by which an HTTPS server is verified.
    is_verified
        False for parts that make a certificate for themselves; health alone is
        asked of them.
    """
    context = ssl.create_default_context(cafile=authority and str(authority))
    if not is_verified:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    try:
        with urllib.request.urlopen(url, timeout=10, context=context) as answer:
            return bool(answer.status == 200)
    except urllib.error.HTTPError as error:
        error.close()
        return False
