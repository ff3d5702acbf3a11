"""Views of namespaces."""

import msgspec
import pytest

from backends.kubernetes.observed.namespaces import NamespaceView, parse_namespace


def test_a_namespace_is_known_by_its_name_and_belongs_to_nothing() -> None:
    raw = b'{"kind": "Namespace", "metadata": {"name": "t", "resourceVersion": "7"}}'

    assert parse_namespace(raw) == NamespaceView(name="t", resource_version="7")


def test_what_has_no_name_is_no_namespace() -> None:
    with pytest.raises(msgspec.ValidationError):
        parse_namespace(b'{"metadata": {}}')
