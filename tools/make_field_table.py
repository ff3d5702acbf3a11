"""Write ``backends/kubernetes/customise/field_table.py``: fields of what we make.

    python tools/make_field_table.py CORE.json NETWORKING.json

CORE is what an API server has at ``/openapi/v3/api/v1``, NETWORKING what it has at
``/openapi/v3/apis/networking.k8s.io/v1`` (``kubectl get --raw PATH``). The table
holds each field's type, and the keys by which items of a list are told apart.
"""

import json
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

PATH: Final = Path(__file__).parents[1] / "backends/kubernetes/customise/field_table.py"
ROOTS: Final = (
    "io.k8s.api.core.v1.Pod",
    "io.k8s.api.core.v1.Service",
    "io.k8s.api.core.v1.Secret",
    "io.k8s.api.core.v1.ConfigMap",
    "io.k8s.api.networking.v1.NetworkPolicy",
)
# The API server's own, or of no use in an object that is being created.
_LEFT_OUT: Final = {
    "Pod": {"status"},
    "Service": {"status"},
    "PodSpec": {"ephemeralContainers"},
    "ObjectMeta": {"managedFields"},
}
_SPECIAL: Final = {"Quantity": "q", "IntOrString": "x", "Time": "s"}
_LEAVES: Final = {"string": "s", "integer": "i", "boolean": "b", "number": "n"}
_WIDTH: Final = 87

_HEAD: Final = '''"""Fields of objects that we make: see ``tools/make_field_table.py``.

One definition in each paragraph; `backends.kubernetes.customise.fields` reads it.
``s i b n`` are texts, integers, truth values and numbers, ``q`` is a quantity, ``x``
an integer or a text, ``o`` anything; ``[]`` is a list and ``{}`` a map of what
follows. ``:`` and keys tell items of a list apart; with ``+`` instead, a strategic
merge patch merges the list.
"""

from typing import Final

FIELD_TABLE: Final = """
'''


def build_table(documents: Sequence[Mapping[str, Any]]) -> dict[str, dict[str, str]]:
    """Return the type of each field of each definition, by their names.

    Parameters
    ----------
    documents
        OpenAPI documents of an API server.

    Raises
    ------
    ValueError
        If two definitions of different groups have one short name.
    """
    schemas: dict[str, Any] = {}
    for document in documents:
        schemas |= document["components"]["schemas"]
    table: dict[str, dict[str, str]] = {}
    origins: dict[str, str] = {}
    waiting = list(ROOTS)
    while waiting:
        full = waiting.pop(0)
        name = _short(full)
        if origins.setdefault(name, full) != full:
            raise ValueError(f"{origins[name]} and {full} have one short name")
        if name in table:
            continue
        table[name] = {}
        for field, schema in sorted(schemas[full].get("properties", {}).items()):
            if field in _LEFT_OUT.get(name, ()):
                continue
            table[name][field] = _format_type(schema) + _format_keys(schema)
            waiting += _references(schema)
    return table


def format_table(table: Mapping[str, Mapping[str, str]]) -> str:
    """Return the module."""
    paragraphs = []
    for name in sorted(table):
        words = " ".join([name, *(f"{f}={t}" for f, t in table[name].items())])
        lines = textwrap.wrap(
            words, _WIDTH, break_long_words=False, break_on_hyphens=False
        )
        paragraphs.append("\n".join(lines))
    return _HEAD + "\n\n".join(paragraphs) + '\n"""\n'


def main() -> int:
    """Write the file and return the exit status."""
    documents = [json.loads(Path(path).read_text()) for path in sys.argv[1:]]
    PATH.write_text(format_table(build_table(documents)), encoding="utf-8")
    print(f"Wrote {PATH.name}")  # noqa: T201 - a command of a person
    return 0


def _short(full: str) -> str:
    return full.rpartition(".")[2]


def _refer(schema: Mapping[str, Any]) -> str | None:
    for part in (schema, *schema.get("allOf", ())):
        if "$ref" in part:
            return str(part["$ref"].rpartition("/")[2])
    return None


def _references(schema: Mapping[str, Any]) -> Iterator[str]:
    while "items" in schema or "additionalProperties" in schema:
        schema = schema.get("items") or schema["additionalProperties"]
    full = _refer(schema)
    if full is not None and _short(full) not in _SPECIAL:
        yield full


def _format_type(schema: Mapping[str, Any]) -> str:
    full = _refer(schema)
    if full is not None:
        return _SPECIAL.get(_short(full), _short(full))
    if "items" in schema:
        return "[]" + _format_type(schema["items"])
    if "additionalProperties" in schema:
        return "{}" + _format_type(schema["additionalProperties"])
    return _LEAVES.get(schema.get("type", ""), "o")


def _format_keys(schema: Mapping[str, Any]) -> str:
    strategy = schema.get("x-kubernetes-patch-strategy", "").split(",")
    names = ",".join(schema.get("x-kubernetes-list-map-keys", ()))
    merge = schema.get("x-kubernetes-patch-merge-key", "")
    if merge and merge not in names.split(","):
        raise ValueError(f"{merge!r} is none of the keys {names!r}")
    if "items" in schema and "merge" in strategy:
        return f"+{names}"
    return f":{names}" if names else ""


if __name__ == "__main__":
    sys.exit(main())
