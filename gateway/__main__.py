"""The command line: ``daskfleet gateway``, ``demo``, ``check-config``, ..."""

import argparse
import getpass
import importlib
import sys
from collections.abc import Sequence
from pathlib import Path

from gateway import __version__
from gateway.domain.errors import ConfigError

DEFAULT_OUTPUT = "daskfleet_config.py"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that ``arguments`` name and return its exit status."""
    parsed = build_parser().parse_args(arguments)
    try:
        status: int = parsed.run(parsed)
    except ConfigError as error:
        for problem in error.problems:
            print(problem, file=sys.stderr)  # noqa: T201 - a command's own output
        return error.exit_status
    return status


def build_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="daskfleet", description="A gateway to Dask clusters for many users."
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND")

    gateway = commands.add_parser("gateway", help="run the API server")
    _add_file(gateway)
    gateway.add_argument(
        "--log-level",
        metavar="LEVEL",
        help="DEBUG, INFO, WARNING, ERROR or CRITICAL; over the file's",
    )
    gateway.set_defaults(run=_run_gateway)

    controller = commands.add_parser(
        "controller", help="run the controller of clusters on Kubernetes"
    )
    _add_file(controller)
    controller.add_argument(
        "--log-level", metavar="LEVEL", help="over the file's; as for gateway"
    )
    controller.set_defaults(run=_run_controller)

    demo = commands.add_parser(
        "demo", help="run a gateway, and a computation through the stock client"
    )
    demo.add_argument("--keep", action="store_true", help="stay up until Ctrl-C")
    demo.add_argument("--port", type=int, default=8000, help="preferred public port")
    demo.set_defaults(run=_run_demo)

    check = commands.add_parser(
        "check-config", help="tell everything that is wrong with a file"
    )
    _add_file(check)
    check.add_argument(
        "--strict", action="store_true", help="take unknown names for errors"
    )
    check.set_defaults(run=_check_config)

    generate = commands.add_parser(
        "generate-config", help="write a file with every setting commented out"
    )
    generate.add_argument(
        "--output", type=Path, default=Path(DEFAULT_OUTPUT), metavar="FILE"
    )
    generate.add_argument(
        "--force", action="store_true", help="overwrite the file if it exists"
    )
    generate.set_defaults(run=_generate_config)

    password = commands.add_parser(
        "hash-password",
        help="ask for a password and print its line for a password file",
    )
    password.add_argument("user", help="name of the user")
    password.set_defaults(run=_hash_password)
    return parser


def _add_file(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "-f",
        "--config",
        type=Path,
        metavar="FILE",
        help="configuration file; by default daskfleet_config.py or "
        "dask_gateway_config.py in the working directory",
    )


def _run_gateway(parsed: argparse.Namespace) -> int:
    from gateway.config.serve import run_gateway  # noqa: PLC0415 - only what a command needs

    return run_gateway(parsed.config, log_level=parsed.log_level)


def _run_controller(parsed: argparse.Namespace) -> int:
    # By text: this folder knows no backend, and it needs the extra `kubernetes`.
    command = importlib.import_module("backends.kubernetes.controller.command")
    status: int = command.run(parsed.config, log_level=parsed.log_level)
    return status


def _run_demo(parsed: argparse.Namespace) -> int:
    from gateway.demo.run import DemoSettings  # noqa: PLC0415 - needs the extra `local`
    from gateway.demo.run import main as run_demo  # noqa: PLC0415 - as above

    return run_demo(DemoSettings(keep=parsed.keep, port=parsed.port))


def _check_config(parsed: argparse.Namespace) -> int:
    from gateway.config.check import check_file  # noqa: PLC0415 - only what a command needs

    problems = check_file(parsed.config)
    for problem in problems:
        print(problem.format(strict=parsed.strict))  # noqa: T201 - a command's own output
    if any(problem.is_error(strict=parsed.strict) for problem in problems):
        return ConfigError.exit_status
    print("The configuration can be used.")  # noqa: T201 - a command's own output
    return 0


def _generate_config(parsed: argparse.Namespace) -> int:
    from gateway.config.catalogue import describe_sections  # noqa: PLC0415 - only what a command needs
    from gateway.config.documents import format_config_file  # noqa: PLC0415 - as above

    path: Path = parsed.output
    if not path.parent.is_dir():
        raise ConfigError([f"{path.parent}: no such directory; make it first"])
    try:
        with path.open("w" if parsed.force else "x", encoding="utf-8") as file:
            file.write(format_config_file(describe_sections()))
    except FileExistsError:
        raise ConfigError([f"{path}: exists already; --force overwrites it"]) from None
    print(f"Wrote {path}")  # noqa: T201 - a command's own output
    return 0


def _hash_password(parsed: argparse.Namespace) -> int:
    from gateway.auth.passwords import hash_password, parse_password_file  # noqa: PLC0415 - only what a command needs

    is_terminal = sys.stdin.isatty()
    password = getpass.getpass() if is_terminal else sys.stdin.readline().rstrip("\n")
    if not password:
        raise ConfigError(["the password is empty; type one, or pipe it in"])
    if is_terminal and getpass.getpass("Again: ") != password:
        raise ConfigError(["the passwords differ; type the command again"])
    line = f"{parsed.user}:{hash_password(password)}"
    if parsed.user not in parse_password_file(line):
        raise ConfigError([f"{parsed.user!r} cannot be a user's name here"])
    print(line)  # noqa: T201 - a command's own output
    return 0


if __name__ == "__main__":
    sys.exit(main())
