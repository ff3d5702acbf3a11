"""Pods whose status does not say why they wait: when to ask for their Events. Pure.

A volume that cannot be mounted, a network that cannot be set up: the kubelet tells
such things in Events alone, and tries again for ever.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta
from typing import Final

from backends.kubernetes.observed.pods import PodView
from backends.kubernetes.observed.verdicts import Cause, PodState
from backends.kubernetes.planning.actions import AskWhy

# Most pods run by then, and one that does not is worth a call.
_PATIENCE: Final = timedelta(seconds=4)
_AGAIN: Final = timedelta(seconds=15)


def plan_question(
    pods: Iterable[PodView], asked: Mapping[str, datetime], now: datetime
) -> tuple[tuple[AskWhy, ...], datetime | None]:
    """Return what to ask now, and when time alone changes that.

    Parameters
    ----------
    pods
        Of one cluster. One of them speaks for all: the one that waits longest.
    asked
        When pods were last asked about, by uid.
    """
    silent = [
        (pod.scheduled, pod.name, pod)
        for pod in pods
        if pod.state is PodState.PENDING
        and pod.scheduled is not None
        and pod.cause in (None, Cause.SETUP)
    ]
    if not silent:
        return (), None
    since, name, pod = min(silent, key=lambda one: one[:2])
    due = since + _PATIENCE
    if pod.uid in asked:
        due = asked[pod.uid] + _AGAIN
    if due <= now:
        return (AskWhy(name, pod.uid),), None
    return (), due
