"""containerd in a world, with the images of the harness."""

import json
import shutil
import subprocess
from pathlib import Path

from tests.harness.control_plane import FILES
from tests.harness.images import IMAGES, Image, mounts, write_archive
from tests.harness.service import Service

# Named in containerd.toml; a world has one node, so the place is fixed.
RUN = Path("/run/node")
SOCKET = Path("/run/containerd/containerd.sock")
_STORE = Path("/run/containerd-root")
_SUITE = "k8s.io"
_PAUSE = "test.local/pause:1"  # named in containerd.toml


class Containers:
    """The container runtime of the node.

    Parameters
    ----------
    folder
        Of its log.
    """

    def __init__(self, folder: Path) -> None:
        self.service = Service(
            "containerd",
            ["containerd", "--config", FILES / "containerd.toml"],
            log=folder / "containerd.log",
            is_ready=lambda: _ctr("version").returncode == 0,
        )

    def launch(self) -> None:
        """Start it without waiting."""
        for path in (RUN / "cni", _STORE, SOCKET.parent):
            path.mkdir(parents=True, exist_ok=True)
        # An overlay cannot be the upper layer of another.
        mount_memory(_STORE)
        shutil.copy(FILES / "pods.conflist", RUN / "cni")
        specification = json.loads(_checked(_ctr("oci", "spec")))
        specification["mounts"] += mounts()
        (RUN / "base.json").write_text(json.dumps(specification))
        self.service.launch()

    def wait_ready(self) -> None:
        """Wait until it answers, and give it the images."""
        self.service.wait_ready()
        for image in (_make_pause(), *IMAGES):
            self.add_image(image)

    def add_image(self, image: Image) -> None:
        """Import an image, as if a registry had it."""
        path = RUN / "image.tar"
        _checked(_ctr("images", "import", str(write_archive(image, path))))
        path.unlink()

    def remove_image(self, reference: str) -> None:
        """Remove an image; pods that want it then cannot have it."""
        _checked(_ctr("images", "remove", "--sync", reference))


def _make_pause() -> Image:
    # A sandbox is shown nothing of the machine: its program must stand alone.
    program = RUN / "pause"
    source = FILES / "pause.c"
    subprocess.run(["gcc", "-static", "-Os", "-s", "-o", program, source], check=True)
    return Image(_PAUSE, entrypoint=("/pause",), programs={"/pause": program})


def mount_memory(path: Path) -> None:
    """Mount an empty file system over a folder of the world."""
    subprocess.run(["mount", "-t", "tmpfs", path.name, path], check=True)


def _ctr(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["ctr", "--namespace", _SUITE, *words],
        capture_output=True,
        text=True,
        check=False,
    )


def _checked(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, f"{' '.join(done.args)}: {done.stderr}"
    return done.stdout
