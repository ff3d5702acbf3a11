"""Why a pod does not run, in words for its cluster's owner: what, and what to do."""

from typing import Final

from backends.kubernetes.observed.pods import PodView
from backends.kubernetes.observed.verdicts import Cause, PodState
from backends.kubernetes.planning.inputs import Refusal, RefusalKind

# (what it does or what befell it, what to do about it); the platform's own words
# stand between.
_WORDS: Final = {
    Cause.UNSCHEDULABLE: (
        "fits on no node",
        "ask for less, or wait until there is room",
    ),
    Cause.IMAGE_PULL: (
        "cannot pull its image",
        "check the image's name and its pull secrets",
    ),
    Cause.CONFIG: (
        "cannot set up its container",
        "check the Secrets and ConfigMaps it names, and its image's user",
    ),
    Cause.START: (
        "cannot start its program",
        "check the command, and that the image has it",
    ),
    Cause.SETUP: (
        "cannot be set up on its node",
        "check the volumes, Secrets and ConfigMaps it names",
    ),
    Cause.INIT: ("failed in an init container", "check what that does"),
    Cause.REFUSED_BY_NODE: ("was refused by its node", "it may fit elsewhere"),
    Cause.OOM_KILLED: ("was killed: out of memory", "ask for more memory"),
    Cause.EVICTED: (
        "was evicted from its node",
        "ask for as much as it needs, or let it use less",
    ),
    Cause.PREEMPTED: (
        "was preempted to make room for another pod",
        "give it a higher priority if it must not be",
    ),
    Cause.NODE_LOST: (
        "was lost with its node, which is gone, silent or shutting down",
        "who runs the nodes can say why",
    ),
    Cause.DEADLINE: (
        "ran for longer than its pod may",
        "raise activeDeadlineSeconds in its template",
    ),
    Cause.DELETED: (
        "was deleted by someone",
        "scale or stop the cluster instead",
    ),
}
# What to do about a create that the API server refuses; its own words stand before.
_REMEDIES: Final = {
    RefusalKind.QUOTA: (
        "ask for less, stop what is not needed, or have the quota raised"
    ),
    RefusalKind.POLICY: "change the pod's template, or have the policy changed",
    RefusalKind.INVALID: "correct it and create the cluster again",
    RefusalKind.FORBIDDEN: (
        "an administrator has to give the controller its Role in the namespace, and "
        "to create the namespace if there is none"
    ),
    RefusalKind.NO_NAMESPACE: (
        "an administrator has to create the namespace and tell the gateway of it, or "
        "the cluster has to name another"
    ),
    RefusalKind.NAME_CONFLICT: "",
    RefusalKind.NAME_BUSY: "",
    RefusalKind.UNAVAILABLE: "it is tried again",
}
_SEE_LOG: Final = "its last log lines say why"


def describe_pod(pod: PodView) -> str:
    """Return how ``pod`` is, as what follows its name in a sentence.

    Examples
    --------
    >>> pod = PodView(namespace="n", name="w", uid="u", resource_version="1",
    ...     cluster="c", state=PodState.FAILED, cause=Cause.OOM_KILLED, exit_code=137)
    >>> describe_pod(pod)
    'was killed: out of memory (exit status 137); ask for more memory'
    """
    if pod.cause is None or pod.cause is Cause.CRASHED:
        return _describe_plain(pod)
    what, remedy = _WORDS[pod.cause]
    if pod.exit_code is not None:
        what = f"{what} (exit status {pod.exit_code})"
    text = f"{what}: {_tidy(pod.text)}" if pod.text else what
    return f"{text}; {remedy}" if remedy else text


def describe_refusal(refusal: Refusal) -> str:
    """Return why something was not made, and what to do about it.

    Examples
    --------
    >>> from datetime import UTC, datetime
    >>> kind = RefusalKind.UNAVAILABLE
    >>> describe_refusal(Refusal(kind, "no answer.", datetime(2026, 1, 1, tzinfo=UTC)))
    'no answer; it is tried again'
    """
    remedy = _REMEDIES[refusal.kind]
    return f"{_tidy(refusal.text)}; {remedy}" if remedy else _tidy(refusal.text)


def find_reason(pod: PodView) -> str:
    """Return one word for how ``pod`` is, as a condition's reason."""
    if pod.cause is not None:
        return str(pod.cause)
    if pod.state is PodState.PENDING:
        return "Starting" if pod.scheduled else "WaitingForNode"
    return "Completed" if pod.state is PodState.SUCCEEDED else str(pod.state)


def _describe_plain(pod: PodView) -> str:
    if pod.state.is_finished or pod.exit_code is not None:
        if pod.exit_code is None:
            ended = "ended; its exit status is not known"
        else:
            ended = f"ended with exit status {pod.exit_code}"
        if pod.text:
            ended = f"{ended}: {_tidy(pod.text)}"
        return f"{ended}; {_SEE_LOG}" if pod.cause is Cause.CRASHED else ended
    if pod.state is PodState.PENDING:
        where = f" on node {pod.node}" if pod.node else ""
        wait = f"waits for its image and containers{where}"
        return wait if pod.scheduled else "waits for a node"
    if pod.state is PodState.RUNNING and pod.is_scheduler and not pod.is_ready:
        return "runs, but does not answer at :8787/health yet"
    return "runs" if pod.state is PodState.RUNNING else "is in an unknown state"


def _tidy(text: str) -> str:
    """Return one line without a full stop: it stands within a sentence."""
    return " ".join(text.split()).rstrip(".")
