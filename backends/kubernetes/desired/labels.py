"""Labels, owners and metadata of all objects of one cluster."""

from backends.kubernetes.desired.blueprint import Blueprint, Manifest, OwnerRef
from backends.kubernetes.names import (
    ANNOTATION_CLUSTER_UID,
    LABEL_CLUSTER,
    LABEL_COMPONENT,
    LABEL_INSTANCE,
    LABEL_MANAGED_BY,
    LABEL_OWNER,
    MANAGED_BY,
    PEER_LABEL_CLUSTER,
    PEER_LABEL_INSTANCE,
    Component,
    escape_label,
    format_anchor_name,
    format_selector,
)
from gateway.domain.errors import InvariantError


def build_instance_labels(instance: str) -> dict[str, str]:
    """Return the labels by which one gateway's objects are found."""
    return {
        LABEL_MANAGED_BY: MANAGED_BY,
        LABEL_INSTANCE: instance,
        PEER_LABEL_INSTANCE: instance,
    }


def build_cluster_labels(
    instance: str, cluster: str, component: Component
) -> dict[str, str]:
    """Return the labels that no layer may change."""
    return {
        **build_instance_labels(instance),
        LABEL_COMPONENT: str(component),
        LABEL_CLUSTER: cluster,
        PEER_LABEL_CLUSTER: cluster,
    }


def build_selector(instance: str, cluster: str, component: Component) -> dict[str, str]:
    """Return what selects the pods of one role of one cluster."""
    return {
        LABEL_COMPONENT: str(component),
        LABEL_INSTANCE: instance,
        LABEL_CLUSTER: cluster,
    }


def build_worker_selector(instance: str, cluster: str) -> str:
    """Return `build_selector` of the workers as text, for the scale subresource."""
    return format_selector(build_selector(instance, cluster, Component.WORKER))


def build_metadata(
    blueprint: Blueprint, name: str, component: Component, *, owner: OwnerRef
) -> Manifest:
    """Return the metadata of an object of the cluster."""
    cluster, settings = blueprint.cluster, blueprint.settings
    metadata: Manifest = {
        "name": name,
        "namespace": cluster.spec.target_namespace,
        "labels": {
            **settings.labels,
            **build_cluster_labels(settings.instance, cluster.name, component),
        },
        "ownerReferences": [owner.format()],
    }
    if settings.annotations:
        metadata["annotations"] = dict(settings.annotations)
    return metadata


def build_owner_label(blueprint: Blueprint) -> dict[str, str]:
    """Return the label by which a user's clusters are found; workers go without."""
    return {LABEL_OWNER: escape_label(blueprint.cluster.spec.owner.user)}


def build_anchor_annotations(blueprint: Blueprint) -> dict[str, str]:
    """Return what ties an anchor to its ``DaskCluster`` in another namespace."""
    return {ANNOTATION_CLUSTER_UID: blueprint.cluster.uid}


def anchor_ref(blueprint: Blueprint) -> OwnerRef:
    """Return the owner of all that is not the anchor itself.

    Raises
    ------
    InvariantError
        If the anchor was not made yet: nothing may be without an owner.
    """
    if blueprint.anchor_uid is None:
        raise InvariantError("the anchor comes before what it owns")
    name = format_anchor_name(blueprint.cluster.name)
    return OwnerRef("v1", "Service", name, blueprint.anchor_uid)
