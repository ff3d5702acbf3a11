"""Writes that may be made again, and those that must not go out."""

from dataclasses import dataclass, field
from typing import Any

import pytest

from backends.kubernetes.api.errors import AlreadyExists, Call, KubeError, StaleWrite
from backends.kubernetes.api.resources import PODS
from backends.kubernetes.controller import writes as module
from backends.kubernetes.controller.limiter import Limiter
from backends.kubernetes.controller.writes import LeadLost, Writes

CALL = Call("create", "pods", "team", "p")
POD = {"metadata": {"name": "p", "namespace": "team"}}
CONFLICT = StaleWrite(CALL, "the quota was changed by another", status=409)


@dataclass
class Server:
    """Answers creates with errors, as long as there are some."""

    errors: list[KubeError] = field(default_factory=list)
    asked: int = 0

    async def create(self, *_: Any, **__: Any) -> bytes:
        self.asked += 1
        if self.errors:
            raise self.errors.pop(0)
        return b"made"


@dataclass
class Lead:
    is_held: bool = True


@pytest.fixture(autouse=True)
def _in_no_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CONFLICT_S", (0.0, 0.001))


def make(server: Server, lead: Lead | None = None) -> Writes:
    client: Any = server
    lease: Any = lead or Lead()
    return Writes(client, lease, Limiter())


async def test_row_29_a_create_that_lost_a_race_over_a_quota_is_made_again() -> None:
    server = Server([CONFLICT] * 4)

    assert await make(server).create(PODS, POD) == b"made"
    assert server.asked == 5


async def test_a_conflict_that_stays_is_told() -> None:
    server = Server([CONFLICT] * 99)

    with pytest.raises(StaleWrite):
        await make(server).create(PODS, POD)

    assert server.asked == 5


async def test_a_name_that_is_taken_is_told_at_once() -> None:
    server = Server([AlreadyExists(CALL, "exists", status=409)])

    with pytest.raises(AlreadyExists):
        await make(server).create(PODS, POD)

    assert server.asked == 1


async def test_nothing_goes_out_without_the_lead() -> None:
    server = Server()

    with pytest.raises(LeadLost):
        await make(server, Lead(is_held=False)).create(PODS, POD)

    assert server.asked == 0
