"""The one way by which an object for a target namespace is finished.

Build, customise, seal: nothing else may make what is sent there. There is no
customisation yet; its place is `_customise`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from backends.kubernetes.crd.values import Problem
from backends.kubernetes.desired.anchors import build_anchor
from backends.kubernetes.desired.blueprint import Blueprint, Manifest
from backends.kubernetes.desired.files import build_credentials, build_plugin
from backends.kubernetes.desired.middlewares import build_middleware
from backends.kubernetes.desired.pods import (
    SCHEDULER_TEMPLATE,
    WORKER_TEMPLATE,
    build_scheduler,
    build_scheduler_base,
    build_worker,
    build_worker_base,
    worker_arguments,
)
from backends.kubernetes.desired.routes import build_http_route, build_tcp_route
from backends.kubernetes.desired.seal import (
    find_identity_problem,
    find_pod_problem,
    stamp,
)
from backends.kubernetes.desired.wiring import (
    build_scheduler_arguments,
    wire_scheduler,
    wire_worker,
)
from backends.kubernetes.names import Child, MiddlewareRef, WorkerRef
from gateway.domain.credentials import Credentials
from gateway.domain.errors import InvalidRequest, InvariantError

Member = Child | MiddlewareRef | WorkerRef

_BUILDERS: Final[Mapping[Child, Callable[[Blueprint], Manifest]]] = {
    Child.ANCHOR: build_anchor,
    Child.PLUGIN: build_plugin,
    Child.SCHEDULER: build_scheduler,
    Child.ROUTE_HTTP: build_http_route,
    Child.ROUTE_TCP: build_tcp_route,
}


def make_member(
    blueprint: Blueprint, member: Member, credentials: Credentials | None = None
) -> Manifest:
    """Return the finished object of ``member``, ready to be sent.

    Parameters
    ----------
    member
        Which object of the cluster.
    credentials
        Needed for `Child.CREDENTIALS` alone.

    Raises
    ------
    InvalidRequest
        If a layer of the cluster does not fit, or takes away what binds the
        object to its cluster; with the field's path.
    InvariantError
        If the blueprint lacks what the member needs.
    """
    built = _build(blueprint, member, credentials)
    finished = _customise(blueprint, built)
    _seal(blueprint, member, finished, base=built)
    if member in (Child.CREDENTIALS, Child.PLUGIN) or isinstance(member, MiddlewareRef):
        # Their names say what they hold; a hash of secrets tells of secrets.
        return finished
    is_worker = isinstance(member, WorkerRef)
    return stamp(finished, but=finished["metadata"]["name"] if is_worker else "")


def find_refusal(blueprint: Blueprint) -> Problem | None:
    """Return why no sound pods can be made of the cluster's spec, if so."""
    if blueprint.cluster.problems:
        return blueprint.cluster.problems[0]
    checked = Blueprint(
        blueprint.cluster, blueprint.settings, blueprint.owner, anchor_uid="unknown"
    )
    try:
        for member in (Child.SCHEDULER, WorkerRef(0)):
            make_member(checked, member)
    except InvalidRequest as refusal:
        return Problem(refusal.field, refusal.text)
    return None


def _customise(_blueprint: Blueprint, built: Manifest) -> Manifest:
    return built


def _seal(
    blueprint: Blueprint, member: Member, finished: Manifest, *, base: Manifest
) -> None:
    """Refuse ``finished`` if a layer has changed what it must not."""
    match member:
        case Child.SCHEDULER:
            path, base = SCHEDULER_TEMPLATE, build_scheduler_base(blueprint)
            wiring, arguments = wire_scheduler(blueprint), build_scheduler_arguments()
        case WorkerRef(ordinal):
            path, base = WORKER_TEMPLATE, build_worker_base(blueprint, ordinal)
            wiring = wire_worker(blueprint)
            arguments = worker_arguments(blueprint, finished, ordinal)
        case _:
            _refuse(find_identity_problem(finished, base, str(member)))
            return
    _refuse(find_identity_problem(finished, base, path))
    _refuse(find_pod_problem(finished, wiring, arguments, path))


def _refuse(problem: Problem | None) -> None:
    if problem is not None:
        raise InvalidRequest(problem.field, problem.text)


def _build(
    blueprint: Blueprint, member: Member, credentials: Credentials | None
) -> Manifest:
    if isinstance(member, WorkerRef):
        return build_worker(blueprint, member.ordinal)
    if isinstance(member, MiddlewareRef):
        return build_middleware(blueprint, member)
    if member is Child.CREDENTIALS:
        if credentials is None:
            raise InvariantError("the mirrored Secret needs its credentials")
        return build_credentials(blueprint, credentials)
    return _BUILDERS[member](blueprint)
