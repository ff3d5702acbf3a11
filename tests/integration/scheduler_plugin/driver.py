"""Run in the environment under test: a client that does what a test's lines say.

Each line of standard input is JSON with Python source; each answer is a line of JSON
with what that left in ``answer``, or with a traceback.
"""

import json
import sys
import time
import traceback
from pathlib import Path

import distributed


def work(folder: str, name: str, seconds: float = 0.0) -> str:
    """Be a task that leaves a line when it starts, and ends when it is let."""
    with (Path(folder) / f"{name}.started").open("a") as log:
        print(distributed.get_worker().name, file=log, flush=True)
    gate = Path(folder) / f"{name}.go"
    while seconds == 0.0 and not gate.exists():
        time.sleep(0.02)
    time.sleep(seconds)
    return name


def main() -> None:
    """Answer until standard input ends."""
    scope = {"distributed": distributed, "time": time}
    exec(Path(__file__).read_text().split("def main")[0], scope)  # noqa: S102 - so that tasks are sent by value
    scope["__name__"] = "__main__"
    for line in sys.stdin:
        scope.pop("answer", None)
        try:
            exec(json.loads(line), scope)  # noqa: S102 - the test's own lines
            reply = {"answer": scope.get("answer")}
        except Exception:  # noqa: BLE001 - the test is told, whatever it is
            reply = {"error": traceback.format_exc()}
        print("ANSWER " + json.dumps(reply), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
