import io
import json
import logging
from collections.abc import Iterator

import pytest
import structlog

from gateway.config.logs import configure_logs


@pytest.fixture
def stream(monkeypatch: pytest.MonkeyPatch) -> Iterator[io.StringIO]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    stream = io.StringIO()
    monkeypatch.setattr("sys.stderr", stream)
    configure_logs(level="INFO", style="json", is_final=False)
    yield stream
    structlog.reset_defaults()
    root.handlers[:] = handlers
    root.setLevel(level)


def read_line(stream: io.StringIO) -> dict[str, object]:
    line: dict[str, object] = json.loads(stream.getvalue())
    return line


def test_a_line_is_an_object_with_its_fields(stream: io.StringIO) -> None:
    structlog.get_logger().info("worker started", worker="w-1", seconds=1.5)

    line = read_line(stream)
    assert line["event"] == "worker started"
    assert (line["worker"], line["seconds"], line["level"]) == ("w-1", 1.5, "info")


def test_values_that_json_has_no_word_for_are_written_all_the_same(
    stream: io.StringIO,
) -> None:
    structlog.get_logger().info("odd", lone="\ud800", thing=slice(1), raw=b"\xff")

    assert read_line(stream)["lone"] == "\ud800"


def test_a_traceback_does_not_show_local_variables(stream: io.StringIO) -> None:
    def fail(word: str) -> None:
        password = f"open-{word}"  # not to be found in the source either
        raise ValueError(len(password))

    try:
        fail("sesame")
    except ValueError as error:
        structlog.get_logger().error("request failed", exc_info=error)

    assert "ValueError" in stream.getvalue()
    assert "open-sesame" not in stream.getvalue()
