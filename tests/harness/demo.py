"""``make demo-kubernetes``: a node, the gateway on it, a computation on that.

Outside of a world it makes one and starts itself in there::

    python -m tests.harness.demo           run, and end
    python -m tests.harness.demo --keep    stay up until Ctrl-C
    python -m tests.harness.demo --enter   from another terminal: a shell in there
"""

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil

from gateway.demo import client
from gateway.demo.gateway_process import choose_port
from gateway.demo.report import Report, StepFailed
from tests.harness.binary import ROOT, ProgramMissing
from tests.harness.forward import forward_from, forward_to
from tests.harness.kubectl import Kubectl
from tests.harness.node import ADDRESS, Node
from tests.harness.possible import WORLD, why_no_world
from tests.support.kube_stack import PASSWORD, KubeStack

HOME, TARGET, OTHER = "daskfleet", "team-a", "team-b"
_MODULE = "tests.harness.demo"
_RUN_COMMANDS = Path("/run/demo.bashrc")
_PORT = 8000
PORT_VARIABLE = "DASKFLEET_DEMO_PORT"
_TRY_AGAIN = "on a busy machine try again; report it with the lines above if it stays"
_CRD = ROOT / "chart/crds/daskclusters.json"


def main(arguments: Sequence[str]) -> int:
    """Run the demo and return its exit status."""
    parser = argparse.ArgumentParser(prog="make demo-kubernetes")
    parser.add_argument("--keep", action="store_true", help="stay up until Ctrl-C")
    parser.add_argument("--enter", action="store_true", help="a shell in what is up")
    parsed = parser.parse_args(arguments)
    report = Report()
    try:
        if parsed.enter:
            _enter()
        elif PORT_VARIABLE not in os.environ:
            return _run_in_a_world(report, arguments)
        else:
            _run(report, is_kept=parsed.keep)
    except StepFailed:
        return 1
    return 0


def _run_in_a_world(report: Report, arguments: Sequence[str]) -> int:
    why = why_no_world()
    if why:
        with report.step("Look for what the demo needs"):
            problem, _, remedy = why.partition("; to get it: ")
            raise StepFailed(problem, f"{remedy or why}, then type the command again")
    port = choose_port(_PORT)
    try:
        status = asyncio.run(_start_world(arguments, port))
    except KeyboardInterrupt:
        status = 130
        report.say("", "Interrupted.")
    finally:
        _find_socket(port).unlink(missing_ok=True)
    report.say("Nothing of the demo is left: it ended with its world.")
    return status


async def _start_world(arguments: Sequence[str], port: int) -> int:
    command = [str(WORLD), sys.executable, "-m", _MODULE, *arguments]
    async with forward_from(port, _find_socket(port)):
        process = await asyncio.create_subprocess_exec(
            *command, cwd=ROOT, env=os.environ | {PORT_VARIABLE: str(port)}
        )
        try:
            return await process.wait()
        finally:
            # The world has heard of a Ctrl-C too, and takes everything in it along.
            if process.returncode is None:
                process.terminate()
                await process.wait()


def _run(report: Report, *, is_kept: bool) -> None:
    folder = Path(tempfile.mkdtemp(prefix="demo-", dir="/run"))
    with ExitStack() as stack:
        node = Node(folder)
        stack.callback(node.stop)
        with _step(report, "Start a Kubernetes of one node"):
            node.start()
            report.note("etcd, API server, scheduler, controllers, kubelet, DNS: ready")
        with _step(report, "Install DaskCluster, namespaces, service accounts, roles"):
            site = _install(node, folder)
            stack.callback(site.stop)
            report.note(f"the gateway is in namespace {HOME}, pods go to {TARGET}")
        with _step(report, "Start the controller, the API server and Traefik"):
            site.start()
            report.note(f"one port for everything: {_shown(site, site.address)}")
        asyncio.run(_use(report, node, site, is_kept=is_kept))


def _install(node: Node, folder: Path) -> KubeStack:
    kubectl = Kubectl.of_admin(node.control_plane)
    kubectl("apply", "-f", str(_CRD))
    name = "daskclusters.daskfleet.io"
    condition = "jsonpath={.status.acceptedNames.kind}=DaskCluster"
    kubectl("wait", f"--for={condition}", f"crd/{name}", "--timeout=60s")
    kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=60s")
    _RUN_COMMANDS.write_text(
        f"export KUBECONFIG={folder / 'admin.kubeconfig'}\n"
        f'export PATH="{Path(sys.executable).parent}:$PATH"\n'
        f"cd {ROOT}\n"
        "PS1='(demo) # '\n"
    )
    return KubeStack(
        node, folder / "gateway", number=1, namespaces=(HOME, TARGET, OTHER)
    )


async def _use(report: Report, node: Node, site: KubeStack, *, is_kept: bool) -> None:
    kubectl = Kubectl.of_admin(node.control_plane)
    async with (
        forward_to(_find_socket(_read_port()), ADDRESS, site.port),
        client.connect(site.address, PASSWORD) as session,
    ):
        with _step(report, "Create a cluster with the stock dask-gateway client"):
            name = await session.create()
            report.note(f"cluster {name} is running")
        with _step(report, "Scale it to 2 workers"):
            await session.scale(client.WORKERS)
        with _step(report, "Compute on it"):
            result = await session.compute()
        report.say(
            "",
            f"Result: the sum of the squares of 0..999 is {result}",
            f"        computed by {client.WORKERS} pods in namespace {TARGET}",
            f"Dashboard: {_shown(site, session.dashboard_link)}",
            "",
            "What Kubernetes has of it:",
            "",
        )
        for words in _looks(name)[:2]:
            report.say(f"$ kubectl {words}", kubectl(*words.split()), "")
        report.say(*_next_steps(site, name, is_kept=is_kept))
        if is_kept:
            await asyncio.Event().wait()
        with _step(report, "Stop the cluster"):
            await session.stop()


def _looks(name: str) -> tuple[str, ...]:
    """Return what to type after ``kubectl``."""
    return (
        f"get daskclusters -n {HOME}",
        f"get pods,services,secrets -n {TARGET}",
        f"describe daskcluster {name} -n {HOME}",
        f"get events -n {HOME}",
        f"logs -n {TARGET} dask-scheduler-{name}",
        f"scale daskcluster {name} -n {HOME} --replicas=3",
        "explain daskcluster.spec",
        f"delete daskcluster {name} -n {HOME}",
    )


def _next_steps(site: KubeStack, name: str, *, is_kept: bool) -> tuple[str, ...]:
    if not is_kept:
        return (
            "Next: `make demo-kubernetes KEEP=1` leaves all of it up, and says how to",
            "look at it with kubectl, the client and a browser.",
            "",
        )
    return (
        "It stays up until Ctrl-C. In another terminal, `.venv/bin/python`, then:",
        "",
        "    from dask_gateway import BasicAuth, Gateway",
        f'    auth = BasicAuth("demo", "{PASSWORD}")',
        f'    gateway = Gateway("{_shown(site, site.address)}", auth=auth)',
        f'    cluster = gateway.connect("{name}")',
        "    cluster.adapt(minimum=1, maximum=4)",
        "    cluster.get_client().submit(sum, range(100)).result()",
        "",
        "Kubernetes is in a world of its own. `make enter-demo-kubernetes` gives a",
        "shell in there, also in another terminal, and then:",
        "",
        *(f"    kubectl {words}" for words in _looks(name)),
        "",
        f"Logs of the gateway's processes are below {site.folder} there.",
        "",
    )


def _shown(site: KubeStack, url: str) -> str:
    """Return a URL of the gateway as it is reached from outside of the world."""
    return url.replace(site.address, f"http://127.0.0.1:{_read_port()}")


def _read_port() -> int:
    return int(os.environ[PORT_VARIABLE])


def _find_socket(port: int) -> Path:
    # In the checkout, which a world shares with the machine; relative, since paths
    # of sockets are short.
    return Path(f".venv/demo-{port}.sock")


def _enter() -> None:
    """Become a shell in the world of a demo that is up."""
    report = Report()
    with report.step("Look for a demo that is up"):
        pid = _find_demo()
        if pid is None:
            raise StepFailed(
                "no `make demo-kubernetes KEEP=1` runs here, or it is another user's",
                "start it in another terminal, as root as well",
            )
    where = ["--target", str(pid), "--mount", "--net", "--pid"]
    shell = ["bash", "--rcfile", str(_RUN_COMMANDS), "-i"]
    os.execvp("nsenter", ["nsenter", *where, *shell])  # noqa: S606 - becomes it


def _find_demo() -> int | None:
    ours = Path("/proc/self/ns/net").readlink()
    for process in psutil.process_iter():
        try:
            is_demo = _MODULE in process.cmdline() and "--keep" in process.cmdline()
            if is_demo and Path(f"/proc/{process.pid}/ns/net").readlink() != ours:
                return process.pid
        except (psutil.Error, OSError):
            continue
    return None


@contextmanager
def _step(report: Report, title: str) -> Iterator[None]:
    """Tell of a step; what fails in it gets a remedy."""
    with report.step(title):
        try:
            yield
        except (AssertionError, ProgramMissing, OSError) as error:
            raise StepFailed(str(error), _TRY_AGAIN) from error
        except subprocess.CalledProcessError as error:
            raise StepFailed(f"{error.cmd}: {error.stderr}", _TRY_AGAIN) from error


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
