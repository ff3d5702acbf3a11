"""What pods mount: the mirrored credentials and the plugin, both write-once.

Immutable, and named after what they hold, so that they are made without ever
being read or compared.
"""

from base64 import b64encode

from backends.kubernetes.desired.blueprint import Blueprint, Manifest
from backends.kubernetes.desired.labels import (
    anchor_ref,
    build_instance_labels,
    build_metadata,
)
from backends.kubernetes.desired.wiring import (
    API_CA_FILE,
    CA_KEY,
    PLUGIN_FILE,
    SCHEDULER_CERT_KEY,
    SCHEDULER_KEY_KEY,
    TOKEN_KEY,
    WORKER_CERT_KEY,
    WORKER_KEY_KEY,
    plugin_content,
)
from backends.kubernetes.names import (
    LABEL_COMPONENT,
    Component,
    format_credentials_name,
    format_plugin_name,
)
from gateway.domain.credentials import Credentials


def build_credentials(blueprint: Blueprint, credentials: Credentials) -> Manifest:
    """Build the Secret for schedulers and workers: without what is a client's."""
    name = format_credentials_name(
        blueprint.cluster.uid, blueprint.credentials_generation
    )
    files = {
        CA_KEY: credentials.ca_certificate,
        SCHEDULER_CERT_KEY: credentials.scheduler.certificate,
        SCHEDULER_KEY_KEY: credentials.scheduler.key,
        WORKER_CERT_KEY: credentials.worker.certificate,
        WORKER_KEY_KEY: credentials.worker.key,
        TOKEN_KEY: credentials.token,
    }
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": build_metadata(
            blueprint, name, Component.CREDENTIALS, owner=anchor_ref(blueprint)
        ),
        "type": "Opaque",
        "immutable": True,
        "data": {
            key: b64encode(text.encode()).decode("ascii") for key, text in files.items()
        },
    }


def build_plugin(blueprint: Blueprint) -> Manifest:
    """Build the ConfigMap of the plugin: one per namespace and content.

    The chart's anchor owns it: clusters of the namespace share it.
    """
    settings = blueprint.settings
    files = {PLUGIN_FILE: settings.plugin}
    if settings.api_ca is not None:
        files[API_CA_FILE] = settings.api_ca
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {
            "name": format_plugin_name(plugin_content(blueprint)),
            "namespace": blueprint.cluster.spec.target_namespace,
            "labels": {
                **settings.labels,
                **build_instance_labels(settings.instance),
                LABEL_COMPONENT: str(Component.PLUGIN),
            },
            "ownerReferences": [blueprint.owner.format()],
        },
        "immutable": True,
        "data": files,
    }
