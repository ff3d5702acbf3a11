"""The anchor: a headless Service that owns all other objects of its cluster."""

from backends.kubernetes.desired.blueprint import Blueprint, Manifest
from backends.kubernetes.desired.labels import (
    build_anchor_annotations,
    build_metadata,
    build_owner_label,
    build_selector,
)
from backends.kubernetes.names import (
    DASHBOARD_PORT,
    SCHEDULER_PORT,
    Component,
    format_anchor_name,
)


def build_anchor(blueprint: Blueprint) -> Manifest:
    """Build the anchor. The chart's own anchor owns it.

    A scheduler that is too busy to answer its probe keeps its address: what
    cannot reach it would not be better off without a name.
    """
    cluster, settings = blueprint.cluster, blueprint.settings
    metadata = build_metadata(
        blueprint,
        format_anchor_name(cluster.name),
        Component.SCHEDULER,
        owner=blueprint.owner,
    )
    metadata["labels"] |= build_owner_label(blueprint)
    annotations = metadata.get("annotations", {})
    metadata["annotations"] = {**annotations, **build_anchor_annotations(blueprint)}
    return {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": metadata,
        "spec": {
            "clusterIP": "None",
            "publishNotReadyAddresses": True,
            "selector": build_selector(
                settings.instance, cluster.name, Component.SCHEDULER
            ),
            "ports": [
                {"name": "scheduler", "port": SCHEDULER_PORT},
                {"name": "dashboard", "port": DASHBOARD_PORT},
            ],
        },
    }
