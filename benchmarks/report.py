"""From measured rounds to medians, ratios, a table and a page."""

from dataclasses import dataclass
from statistics import median
from typing import Any

START = "<!-- table: written by `python -m benchmarks`, do not edit -->"
END = "<!-- end of table -->"
_MISSING = "-"
_STALLS_HEAD = (
    "| one callback of the event loop, all rounds; by CPU in brackets"
    " | longest, ms: peer | Daskfleet | over 20 ms: peer | Daskfleet |"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table.

    Parameters
    ----------
    label
        What a reader calls it, with the unit.
    section, keys
        Where the value stands in a round.
    goal
        Smallest acceptable ratio, ``None`` if none was set.
    more_is_better
        Which way the ratio is formed, so that above 1 is always better.
    limit
        Largest acceptable value of ours, where the goal is not a ratio.
    """

    label: str
    section: str
    keys: tuple[str, ...]
    goal: float | None = None
    more_is_better: bool = False
    limit: float | None = None


ROWS = (
    Row(
        "list of 200 clusters, requests/s",
        "fleet",
        ("list", "requests_per_s"),
        goal=10,
        more_is_better=True,
    ),
    Row(
        "list of 200, server CPU ms",
        "fleet",
        ("list", "server_cpu_ms_per_request"),
    ),
    Row("list of 200, p50 ms", "fleet", ("list", "p50_ms")),
    Row("list of 200, p99 ms", "fleet", ("list", "p99_ms")),
    Row("list of 200, bytes", "fleet", ("list", "bytes_per_response")),
    Row(
        "get, requests/s",
        "fleet",
        ("get", "requests_per_s"),
        more_is_better=True,
    ),
    Row("get, server CPU ms", "fleet", ("get", "server_cpu_ms_per_request")),
    Row("get, p50 ms", "fleet", ("get", "p50_ms")),
    Row("get, p99 ms", "fleet", ("get", "p99_ms")),
    Row("get at 500/s, p99 ms", "fleet", ("get_paced", "p99_ms"), limit=10),
    Row("create at 10/s, p50 ms", "fleet", ("create_paced", "p50_ms")),
    Row("create at 10/s, p99 ms", "fleet", ("create_paced", "p99_ms"), limit=100),
    Row(
        "create, server CPU ms",
        "fleet",
        ("create_paced", "server_cpu_ms_per_request"),
    ),
    Row("1,000 worker rows on disk, s", "fleet", ("rows", "seconds"), goal=20),
    Row("1,000 worker rows, server CPU s", "fleet", ("rows", "server_cpu_s")),
    Row("server memory, 1,000 clusters, RSS MB", "fleet", ("memory_start", "rss_mb")),
    Row(
        "server memory after the load, RSS MB",
        "fleet",
        ("memory_after", "rss_mb"),
    ),
    Row("create to connected, s", "life", ("create_to_connected_s",)),
    Row("scale(1) to worker ready, s", "life", ("scale_to_worker_s",)),
)
PHASES = {
    "idle": "idle",
    "list": "list of 200 under load",
    "get": "get under load",
    "create": "20 clusters at once",
    "rows": "1,000 worker rows",
}


def summarise(results: dict[str, Any]) -> list[dict[str, Any]]:
    """Return one entry per row: medians of both sides, ratio, goal, verdict."""
    return [_summarise_row(row, results) for row in ROWS]


def format_table(results: dict[str, Any]) -> str:
    """Return both tables as Markdown."""
    lines = [
        "| | peer | Daskfleet | ratio | goal | |",
        "|---|--:|--:|--:|--:|---|",
        *(_format_entry(entry) for entry in summarise(results)),
        "",
        _STALLS_HEAD,
        "|---|--:|--:|--:|--:|",
        *(_format_phase(phase, results) for phase in PHASES),
    ]
    if results.get("bare"):
        lines += ["", _format_bare(results["bare"])]
    return "\n".join(lines)


def format_page(page: str, results: dict[str, Any]) -> str:
    """Return ``page`` with what stands between its marks replaced."""
    before, _, rest = page.partition(START)
    _, _, after = rest.partition(END)
    machine = results["machine"]
    versions = {**machine["versions"], **results["peer_versions"]}
    named = ", ".join(f"{name} {version}" for name, version in versions.items())
    facts = (
        f"{results['date']}, commit `{machine['commit']}`, {machine['cores']} x"
        f" {machine['processor']}, {machine['memory_gib']} GiB, {machine['system']},"
        f" Python {machine['python']}, SQLite {machine['sqlite']}; {named}."
        f" Load average at the start {machine['load_average'][0]}, at the end"
        f" {results['load_average_end'][0]}. {results['rounds']} rounds."
    )
    return f"{before}{START}\n\n{facts}\n\n{format_table(results)}\n\n{END}{after}"


def _format_bare(runs: list[dict[str, float]]) -> str:
    connected = median(run["create_to_connected_s"] for run in runs)
    worker = median(run["scale_to_worker_s"] for run in runs)
    return (
        "Dask alone on this machine, no gateway: scheduler started to client"
        f" connected {connected:.2f} s, worker started to ready {worker:.2f} s."
    )


def _summarise_row(row: Row, results: dict[str, Any]) -> dict[str, Any]:
    peer = _median(row, results, "peer")
    ours = _median(row, results, "ours")
    ratio = None
    if peer and ours:
        ratio = ours / peer if row.more_is_better else peer / ours
    met = None
    if row.goal is not None and ratio is not None:
        met = ratio >= row.goal
    elif row.limit is not None and ours is not None:
        met = ours <= row.limit
    return {
        "label": row.label,
        "peer": peer,
        "ours": ours,
        "ratio": ratio,
        "goal": row.goal,
        "limit": row.limit,
        "met": met,
    }


def _median(row: Row, results: dict[str, Any], side: str) -> float | None:
    values = []
    for run in results.get(row.section, {}).get(side, []):
        value: Any = run
        for key in row.keys:
            value = value[key]
        values.append(float(value))
    return median(values) if values else None


def _format_entry(entry: dict[str, Any]) -> str:
    if entry["goal"] is not None:
        goal = f"{entry['goal']:g} x"
    elif entry["limit"] is not None:
        goal = f"<= {entry['limit']:g}"
    else:
        goal = ""
    ratio = "" if entry["ratio"] is None else f"{entry['ratio']:.1f} x"
    verdict = {None: "", True: "met", False: "**missed**"}[entry["met"]]
    return (
        f"| {entry['label']} | {_format(entry['peer'])} | {_format(entry['ours'])}"
        f" | {ratio} | {goal} | {verdict} |"
    )


def _format_phase(phase: str, results: dict[str, Any]) -> str:
    longest, over = [], []
    for side in ("peer", "ours"):
        runs = [run[phase] for run in results.get("stalls", {}).get(side, [])]
        if not runs:
            longest.append(_MISSING)
            over.append(_MISSING)
            continue
        wall = max(run["max_wall_s"] for run in runs) * 1000
        cpu = max(run["max_cpu_s"] for run in runs) * 1000
        longest.append(f"{wall:,.1f} ({cpu:,.1f})")
        total = sum(run["over"] for run in runs)
        total_cpu = sum(run["over_cpu"] for run in runs)
        over.append(f"{total} ({total_cpu})")
    return f"| {PHASES[phase]} | {' | '.join(longest)} | {' | '.join(over)} |"


def _format(value: float | None) -> str:
    if value is None:
        return _MISSING
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}"
