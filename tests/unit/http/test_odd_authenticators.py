"""A site's own authenticator that does what none should."""

import asyncio
import re
from types import SimpleNamespace

import pytest
from aiohttp import web
from structlog.testing import capture_logs

from gateway.auth import Authenticator
from gateway.domain.user import User
from tests.support.api import running_api

LIST = "/api/v1/clusters/"
SECRET = "hunter2-7351"


class OddError(Exception):
    def __str__(self) -> str:
        raise ZeroDivisionError


class Unreadable:
    @property
    def name(self) -> str:
        raise OddError


class Odd(Authenticator):
    """Returns or raises what it is made with; a function is called."""

    def __init__(self, answer, **hooks):
        super().__init__()
        self._answer = answer
        self._hooks = hooks

    async def authenticate(self, _request):
        if isinstance(self._answer, BaseException):
            raise self._answer
        if callable(self._answer):
            return await self._answer()
        return self._answer

    async def pre_response(self, *_response_and_context):
        if "pre_response" in self._hooks:
            await self._hooks["pre_response"]()

    async def cleanup(self):
        if "cleanup" in self._hooks:
            await self._hooks["cleanup"]()


async def hang():
    await asyncio.Event().wait()


async def fail():
    raise OddError


async def ask(answer, **hooks):
    """Return the answer to a request, and the log."""
    with capture_logs() as logs:
        async with running_api(authenticator=Odd(answer, **hooks)) as api:
            reply = await api.get(LIST)
            assert (await api.get("/api/health")).status == 200
    return reply, logs


def check_bug(reply, logs):
    assert reply.status == 500
    assert re.fullmatch("[0-9a-f]{32}", reply.json["request_id"])
    assert reply.headers["X-Request-ID"] == reply.json["request_id"]
    (line,) = [line for line in logs if line["log_level"] == "error"]
    assert line["event"] == "request failed"
    assert SECRET not in reply.text
    return line["exc_info"]


@pytest.mark.parametrize(
    ("answer", "want"),
    [
        (None, "returned None and no user"),
        (SECRET, "returned an object of class str and no user"),
        (0, "returned an object of class int and no user"),
        ({"name": SECRET}, "returned an object of class dict and no user"),
        ([User("alice")], "returned an object of class list and no user"),
        (web.Response(), "returned an object of class Response and no user"),
        ((), "returned a tuple of 0, not 2"),
        ((User("alice"), 1, SECRET), "returned a tuple of 3, not 2"),
        ((None, SECRET), "returned a tuple of 2 and no user"),
        (SimpleNamespace(name=None), "SimpleNamespace and no user"),
        (SimpleNamespace(name=b"alice"), "SimpleNamespace and no user"),
        (User("alice", groups=[3]), "a group that is no text"),
        (User("alice", groups=["\ud800"]), "a group that is no text"),
        (SimpleNamespace(name="alice", groups=[None]), "a group that is no text"),
    ],
)
async def test_what_is_no_user_is_the_authenticators_bug_and_its_shape_is_told(
    answer, want
):
    error = check_bug(*await ask(answer))

    assert str(error).startswith("the authenticator Odd ")
    assert want in str(error)
    assert SECRET not in str(error)


@pytest.mark.parametrize("name", ["", " alice", "a\nb", "\ud800", "x" * 300])
async def test_a_name_that_can_be_nobodys_is_what_somebody_sent(name):
    reply, logs = await ask(User(name))

    assert (reply.status, reply.json["code"]) == (401, "unauthenticated")
    assert not [line for line in logs if line["log_level"] == "error"]


@pytest.mark.parametrize(
    "answer",
    [
        OddError(),
        KeyError(SECRET),
        TimeoutError(SECRET),
        StopAsyncIteration(SECRET),
        SystemExit(3),
        KeyboardInterrupt(),
        asyncio.CancelledError(),
        ExceptionGroup("several", [ValueError(SECRET)]),
        BaseExceptionGroup("several", [KeyboardInterrupt()]),
        Unreadable(),
        SimpleNamespace(name="alice", groups=3),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_whatever_it_raises_fails_its_own_request_alone(answer):
    check_bug(*await ask(answer))


@pytest.mark.parametrize("error", [web.HTTPFound("/login"), web.HTTPForbidden()])
async def test_an_http_error_is_its_answer(error):
    reply, logs = await ask(error)

    assert reply.status == error.status
    assert not [line for line in logs if line["log_level"] == "error"]


@pytest.mark.parametrize("method", ["authenticate", "pre_response"])
async def test_one_that_never_returns_is_given_up(method, monkeypatch):
    monkeypatch.setattr("gateway.http.asking._ANSWER_S", 0.05)
    hooks = {"pre_response": hang} if method == "pre_response" else {}

    error = check_bug(*await ask(User("alice") if hooks else hang, **hooks))

    assert str(error) == (
        f"the authenticator Odd did not return from {method} within 0.05 s"
    )


async def test_an_error_while_the_response_is_changed_is_a_bug():
    check_bug(*await ask(User("alice"), pre_response=fail))


@pytest.mark.parametrize("cleanup", [hang, fail])
async def test_a_cleanup_that_fails_or_hangs_does_not_keep_the_gateway(
    cleanup, monkeypatch
):
    monkeypatch.setattr("gateway.http.app._CLEANUP_S", 0.05)

    reply, logs = await ask(User("alice"), cleanup=cleanup)

    assert reply.status == 200
    events = [line["event"] for line in logs if line["log_level"] == "error"]
    assert events == ["authenticator's cleanup failed"]
