"""Wait until clusters under a controller are as they should be."""

import urllib.error
import urllib.request
from collections.abc import Callable, Mapping
from typing import Any

from tests.support.controllers import Site
from tests.support.eventually import eventually
from tests.support.pod_fates import RUNS, Fate

WITHIN = 90.0


async def reaches(site: Site, name: str, phase: str) -> dict[str, Any]:
    """Wait for a phase, and return the status then."""

    def check() -> dict[str, Any]:
        status = site.status(name)
        assert status.get("phase") == phase, status
        return status

    return await eventually(check, within=WITHIN)


async def runs(site: Site, name: str, workers: int) -> None:
    """Wait until the cluster runs with exactly so many workers."""
    await answers(site, name)
    await has_workers(site, name, workers)


async def answers(site: Site, name: str) -> None:
    """Wait until the cluster runs, however many workers it has."""
    await eventually(lambda: site.pods(name), within=WITHIN)
    site.sync(name)
    await reaches(site, name, "Running")


async def has_workers(site: Site, name: str, number: int) -> None:
    """Wait until so many workers are there, and known to be ready."""

    def check() -> bool:
        status = site.status(name)
        ready = status.get("workers", {}).get("ready")
        assert (len(site.workers(name)), ready) == (number, number), status
        return True

    await eventually(check, within=WITHIN)


async def has_pods(site: Site, name: str, number: int) -> None:
    """Wait until so many worker pods are there, in whatever state."""

    def check() -> bool:
        found = site.workers(name)
        assert len(found) == number, (found, site.status(name))
        return True

    await eventually(check, within=WITHIN)


async def has_nothing_left(site: Site, name: str) -> None:
    """Wait until the target namespace has nothing of the cluster."""

    def check() -> bool:
        base, labels = (
            f"/api/v1/namespaces/{site.targets[0]}",
            f"daskfleet.io/cluster={name}",
        )
        left = [
            item["metadata"]["name"]
            for kind in ("pods", "services", "secrets")
            for item in site.api.items(f"{base}/{kind}", labelSelector=labels)
        ]
        assert left == []
        return True

    await eventually(check, within=WITHIN)


async def says(site: Site, name: str, kind: str, *words: str) -> dict[str, Any]:
    """Wait until a condition says all of ``words``, reason or message."""

    def check() -> dict[str, Any]:
        status = site.status(name)
        told = {c["type"]: c for c in status.get("conditions", ())}.get(kind)
        assert told is not None, status
        text = f"{told['reason']}: {told.get('message', '')}"
        assert [word for word in words if word not in text] == [], text
        return dict(told)

    return await eventually(check, within=WITHIN)


async def tells(site: Site, name: str, reason: str, *words: str) -> dict[str, Any]:
    """Wait for an Event of the cluster with that reason and those words."""

    def check() -> dict[str, Any]:
        events = site.events(name)
        found = [e for e in events if e["reason"] == reason]
        fitting = [e for e in found if all(word in e["message"] for word in words)]
        assert fitting, [(e["reason"], e["message"]) for e in events]
        return fitting[0]

    return await eventually(check, within=WITHIN)


def conditions(status: Mapping[str, Any]) -> dict[str, str]:
    """Return the status of each condition."""
    return {c["type"]: c["status"] for c in status["conditions"]}


def decide(fates: Mapping[str, Fate]) -> Callable[[Mapping[str, Any]], Fate]:
    """Return what a stand-in kubelet is to do, by the beginning of pods' names.

    The first that fits decides; all other pods run.
    """

    def find(pod: Mapping[str, Any]) -> Fate:
        name = pod["metadata"]["name"]
        return next((f for start, f in fates.items() if name.startswith(start)), RUNS)

    return find


def ask(url: str, path: str, *, token: str = "") -> tuple[int, str]:
    """Return status and text of an answer; 0 if there is none."""
    request = urllib.request.Request(url + path)
    if token:
        request.add_header("Authorization", f"Bearer {token}")
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""
