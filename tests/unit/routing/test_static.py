"""What Traefik is started with: nothing shown that need not be, nothing trusted."""

from pathlib import Path

from backends.routing.settings import RoutingSettings
from backends.routing.static import build_static

SETTINGS = RoutingSettings(
    data_directory=Path("/data"), gateway_urls=("http://127.0.0.1:8001",)
)


def test_traefik_shows_no_pages_of_its_own_and_calls_nobody() -> None:
    static = build_static(SETTINGS, 9000)

    assert not {
        "api",
        "metrics",
        "tracing",
        "accessLog",
        "certificatesResolvers",
    } & set(static)
    assert static["global"] == {"checkNewVersion": False, "sendAnonymousUsage": False}
    assert static["ping"] == {"entryPoint": "internal"}
    assert static["entryPoints"]["internal"]["address"] == "127.0.0.1:9000"


def test_nobody_outside_is_believed_unless_told() -> None:
    trusting = RoutingSettings(
        data_directory=Path("/data"),
        gateway_urls=("http://127.0.0.1:8001",),
        tcp_address=":8786",
        trusted_proxies=("10.0.0.0/8",),
    )

    entry_points = build_static(SETTINGS, 9000)["entryPoints"]
    trusted = build_static(trusting, 9000)["entryPoints"]

    assert sorted(entry_points) == ["internal", "public"]
    assert "forwardedHeaders" not in entry_points["public"]
    assert sorted(trusted) == ["dask", "internal", "public"]
    assert trusted["public"]["forwardedHeaders"] == {"trustedIPs": ["10.0.0.0/8"]}


def test_its_log_is_bounded() -> None:
    log = build_static(SETTINGS, 9000)["log"]

    assert log["maxSize"] * (1 + log["maxBackups"]) <= 50
    assert log["filePath"] == "/data/traefik/traefik.log"
