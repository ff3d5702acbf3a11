"""No value that holds a secret shows it when it is printed."""

import dataclasses
import importlib
import inspect
import re

import msgspec
import pytest

from gateway.domain.credentials import Credentials, KeyPair
from tests.support.sources import module_names

SECRET = re.compile(
    r"(^|_)(key|keys|token|tokens|password|secret|secrets)($|_(?!(file|path)$))"
)

# Fields whose name sounds like a secret and is none, and why.
EXCEPTIONS = {
    "gateway.domain.policy.Share.key": "whose usage is summed: user:alice",
    "backends.routing.settings.RoutingSettings.tls_key": "the path of a file",
    "backends.kubernetes.desired.blueprint.PodSettings.image_pull_secrets": "names of "
    "Secret objects",
    "backends.routing.table.TableSettings.key": "the path of a file",
}


def classes() -> dict[str, type]:
    found = {}
    for name in module_names():
        if name == "gateway.scheduler_plugin":  # installs itself where it is imported
            continue
        module = importlib.import_module(name)
        for _, kind in inspect.getmembers(module, inspect.isclass):
            if kind.__module__ == name:
                found[f"{name}.{kind.__qualname__}"] = kind
    return found


def shown_fields(kind: type) -> list[str]:
    """Return fields that the class's own printing shows."""
    if dataclasses.is_dataclass(kind):
        if not kind.__dataclass_params__.repr:
            return []
        return [field.name for field in dataclasses.fields(kind) if field.repr]
    if issubclass(kind, msgspec.Struct) and "__repr__" not in vars(kind):
        return list(kind.__struct_fields__)
    return []


def test_no_field_that_sounds_secret_is_printed() -> None:
    found = [
        f"{name}.{field}"
        for name, kind in classes().items()
        for field in shown_fields(kind)
        if SECRET.search(field) and f"{name}.{field}" not in EXCEPTIONS
    ]

    assert not found, "\n".join(found)


@pytest.mark.parametrize("show", [repr, str, "{}".format, "{!r}".format])
def test_credentials_show_no_key_and_no_token(show) -> None:
    pairs = [KeyPair(f"CERT-{role}", f"sesame-{role}") for role in "abc"]
    value = Credentials("CERT", "sesame-ca", *pairs, token="sesame-token")

    assert "sesame" not in show(value)
    assert "sesame" not in show([value])
