"""Container images as OCI archives, written without an engine or a registry.

An image holds empty mount points, links such as ``/bin -> usr/bin``, accounts and
a few short scripts: 20 KiB. The machine's own ``/usr``, the interpreter and the
virtual environment are mounted read-only into every container of the node (see
`mounts`), so the code under test is live and nothing is rebuilt.
"""

import hashlib
import io
import json
import platform
import sys
import tarfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.harness.binary import ROOT

DASK = "test.local/dask:1"
DASKFLEET = "test.local/daskfleet:1"
TRAEFIK = "test.local/traefik:1"

# Not where the machine has them: pods mount scratch space over folders like /tmp.
_VENV = "/opt/venv"
_CHECKOUT = "/opt/daskfleet"
_SCRIPTS = "opt/bin"
_FOLDERS = (
    *("dev", "etc", "home", "home/dask", "opt", _SCRIPTS, "proc", "root", "run", "srv"),
    *("sys", "usr", "var", "var/tmp"),
)
_LINKS = {"bin": "usr/bin", "lib": "usr/lib", "lib64": "usr/lib64", "sbin": "usr/sbin"}
_FILES = {
    "etc/passwd": "root:x:0:0:root:/root:/bin/sh\n"
    "dask:x:1000:1000:dask:/home/dask:/bin/sh\n",
    "etc/group": "root:x:0:\ndask:x:1000:\n",
    "etc/nsswitch.conf": "hosts: files dns\n",
}
# Those of the virtual environment name its interpreter where the machine has it.
_COMMANDS = {"dask": "dask", "daskfleet": "gateway"}
_OCI = "application/vnd.oci.image"
_ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True, slots=True)
class Image:
    """What an image says of itself.

    Parameters
    ----------
    entrypoint
        Before the arguments of a pod.
    environment
        Beside PATH and LANG.
    programs
        Files in it beside the common ones, by their absolute path there.
    """

    reference: str
    entrypoint: Sequence[str] = ()
    environment: Mapping[str, str] = field(default_factory=dict)
    programs: Mapping[str, Path] = field(default_factory=dict)


IMAGES = (
    # Of users: it has nothing of ours.
    Image(DASK),
    Image(
        DASKFLEET,
        entrypoint=("/opt/bin/daskfleet",),
        environment={"PYTHONPATH": _CHECKOUT},
    ),
    Image(TRAEFIK, entrypoint=("traefik",)),
)


def mounts() -> list[dict[str, Any]]:
    """Return what a container's specification mounts, for every container."""
    shown = {
        "/usr": "/usr",
        sys.base_prefix: sys.base_prefix,
        sys.prefix: _VENV,
        str(ROOT): _CHECKOUT,
    }
    return [
        {
            "source": source,
            "destination": destination,
            "type": "bind",
            "options": ["rbind", "ro", "rprivate"],
        }
        for source, destination in shown.items()
        if destination == "/usr" or not destination.startswith("/usr/")
    ]


def write_archive(image: Image, path: Path) -> Path:
    """Write ``image`` as an archive that ``ctr images import`` reads."""
    layer = _layer(image.programs)
    machine = platform.machine()
    about = {
        "architecture": _ARCHITECTURES.get(machine, machine),
        "os": "linux",
    }
    environment = {
        "PATH": f"/{_SCRIPTS}:{_VENV}/bin:/usr/bin:/bin",
        "LANG": "C.UTF-8",
        **image.environment,
    }
    config = {
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "WorkingDir": "/tmp",  # noqa: S108 - of the container
        "Entrypoint": list(image.entrypoint) or None,
    }
    rootfs = {"type": "layers", "diff_ids": [_digest(layer)]}
    blobs = [_json(about | {"config": config, "rootfs": rootfs}), layer]
    manifest = _json(
        {
            "schemaVersion": 2,
            "mediaType": f"{_OCI}.manifest.v1+json",
            "config": _describe(f"{_OCI}.config.v1+json", blobs[0]),
            "layers": [_describe(f"{_OCI}.layer.v1.tar", layer)],
        }
    )
    names = {
        "io.containerd.image.name": image.reference,
        "org.opencontainers.image.ref.name": image.reference.rpartition(":")[2],
    }
    described = _describe(f"{_OCI}.manifest.v1+json", manifest)
    index = {
        "schemaVersion": 2,
        "manifests": [described | {"platform": about, "annotations": names}],
    }
    with tarfile.open(path, mode="w") as archive:
        _add_file(archive, "oci-layout", b'{"imageLayoutVersion": "1.0.0"}')
        _add_file(archive, "index.json", _json(index))
        for blob in (*blobs, manifest):
            _add_file(archive, "blobs/" + _digest(blob).replace(":", "/"), blob)
    return path


def _layer(programs: Mapping[str, Path]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        for folder in _FOLDERS:
            _add_folder(archive, folder)
        _add_folder(archive, "tmp", mode=0o1777)
        for name, target in _LINKS.items():
            link = tarfile.TarInfo(name)
            link.type, link.linkname = tarfile.SYMTYPE, target
            archive.addfile(link)
        for name, text in _FILES.items():
            _add_file(archive, name, text.encode())
        for command, module in _COMMANDS.items():
            script = f'#!/bin/sh\nexec {_VENV}/bin/python -m {module} "$@"\n'
            _add_file(archive, f"{_SCRIPTS}/{command}", script.encode(), mode=0o755)
        for name, source in programs.items():
            _add_file(archive, name.lstrip("/"), source.read_bytes(), mode=0o755)
    return out.getvalue()


def _add_file(
    archive: tarfile.TarFile, name: str, content: bytes, *, mode: int = 0o644
) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), mode
    archive.addfile(entry, io.BytesIO(content))


def _add_folder(archive: tarfile.TarFile, name: str, *, mode: int = 0o755) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    archive.addfile(entry)


def _describe(media_type: str, blob: bytes) -> dict[str, Any]:
    return {"mediaType": media_type, "digest": _digest(blob), "size": len(blob)}


def _digest(blob: bytes) -> str:
    return "sha256:" + hashlib.sha256(blob).hexdigest()


def _json(value: object) -> bytes:
    return json.dumps(value).encode()
