"""Calls end in time, and are repeated only while that may help."""

import asyncio

import pytest

from backends.kubernetes.api.errors import Call, Denied, Transient
from backends.kubernetes.backend.calls import PatientCalls
from gateway.domain.errors import Unavailable

CALL = Call("get", "daskclusters", "gateway", "c1")


class Server:
    def __init__(self, *answers: Exception | str) -> None:
        self.answers = list(answers)

    async def call(self) -> str:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_what_passes_by_itself_is_tried_again() -> None:
    server = Server(Transient(CALL, "reset"), Transient(CALL, "reset"), "done")

    assert await PatientCalls(60).make(server.call) == "done"


async def test_a_refusal_is_told_at_once() -> None:
    server = Server(Denied(CALL, "no"), "never")

    with pytest.raises(Denied):
        await PatientCalls(60).make(server.call)

    assert server.answers == ["never"]


async def test_a_server_that_asks_for_time_gets_it_if_there_is_any() -> None:
    asks = Transient(CALL, "later", status=429, retry_after_s=0.2)
    loop = asyncio.get_running_loop()
    begin = loop.time()

    assert await PatientCalls(60).make(Server(asks, "done").call) == "done"
    assert loop.time() - begin >= 0.2
    with pytest.raises(Transient, match="later"):
        await PatientCalls(0.1).make(Server(asks, "never").call)


async def test_a_server_that_says_nothing_is_left_in_time() -> None:
    text = "no answer of Kubernetes' API server in 0.05 s"
    with pytest.raises(Unavailable, match=text):
        await PatientCalls(0.05).make(asyncio.Event().wait)


async def test_a_server_that_falls_silent_is_told_with_its_last_words() -> None:
    answers = [Transient(CALL, "reset")]

    async def call() -> None:
        if answers:
            raise answers.pop()
        await asyncio.Event().wait()

    with pytest.raises(Transient, match="reset"):
        await PatientCalls(0.5).make(call)
