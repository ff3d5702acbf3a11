"""An anchor is deleted only when its cluster was found gone twice, 10 s apart."""

from datetime import timedelta

import pytest

from backends.kubernetes.planning.actions import DeleteAnchor
from backends.kubernetes.planning.orphans import (
    LookUpCluster,
    OrphanPlan,
    Sightings,
    plan_orphan,
)
from tests.support.kube_situations import an_anchor, later

TEN = timedelta(seconds=10)


@pytest.mark.parametrize(
    ("sightings", "seconds", "want"),
    [
        pytest.param(
            Sightings(), 0, OrphanPlan(LookUpCluster("c"), TEN), id="not asked yet"
        ),
        pytest.param(
            Sightings(later(0), later(0)),
            4,
            OrphanPlan(requeue_after=timedelta(seconds=6)),
            id="gone once",
        ),
        pytest.param(
            Sightings(later(0), later(0)),
            10,
            OrphanPlan(LookUpCluster("c"), TEN),
            id="asked again in time",
        ),
        pytest.param(
            Sightings(later(0), later(10)),
            10,
            OrphanPlan(DeleteAnchor("anchor")),
            id="gone twice",
        ),
    ],
)
def test_twice(sightings, seconds, want) -> None:
    assert plan_orphan(an_anchor(), sightings, later(seconds)) == want


def test_one_that_goes_already_is_left_to_go() -> None:
    going = an_anchor(is_terminating=True)

    assert plan_orphan(going, Sightings(), later(0)) == OrphanPlan()
