"""What is said of proxy and controller, and what is wrong with it."""

from pathlib import Path

import pytest

from backends.kubernetes.proxy_config import KubeProxySettings
from backends.routing.table import DASK, PUBLIC, TableSettings
from gateway.config.proxy import Proxy
from tests.support import secrets

TOKEN = secrets.remember("made-up-token-of-a-proxy", "the proxy's token")


@pytest.fixture
def token_file(tmp_path: Path) -> str:
    path = tmp_path / "token"
    path.write_text(f"{TOKEN}\n")
    return str(path)


def test_what_is_set_is_resolved(token_file: str) -> None:
    made = KubeProxySettings(
        routes_token_file=token_file,
        gateway_urls=["http://api.gateway.svc:8000"],
        proxy_internal_port=9000,
    )
    proxy = Proxy(
        prefix="/dask/",
        tls_cert="/tls/tls.crt",
        tls_key="/tls/tls.key",
        tcp_address=":8786",
        dashboard_host="dashboards.test",
    )

    assert made.find_proxy_problems() == []
    assert made.resolve_table(proxy) == TableSettings(
        gateway_urls=("http://api.gateway.svc:8000",),
        certificate="/tls/tls.crt",
        key="/tls/tls.key",
        base_path="/dask",
        tls=True,
        dask_entry_point=DASK,
        internal_port=9000,
        dashboard_host="dashboards.test",
    )


def test_by_default_the_proxy_finds_this_gateway_alone() -> None:
    table = KubeProxySettings().resolve_table(Proxy(gateway_url="http://one:8000"))

    assert table == TableSettings(("http://one:8000",), dask_entry_point=PUBLIC)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "relay:8001",
        "ftp://relay",
        "http://",
        "http://a/b",
        "http://u@a",
        "http://a:x",
    ],
)
def test_a_url_with_more_or_less_than_host_and_port_is_refused(url: str) -> None:
    made = KubeProxySettings(gateway_urls=[url])

    assert made.find_proxy_problems() == [
        f"KubeProxySettings.gateway_urls: {url!r} is no http://host:port"
    ]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (None, "No such file"),
        (b"\xff" * 20, "is no text"),
        (b"short\n", "less than 16 characters"),
    ],
)
def test_a_token_that_nobody_can_show_is_refused(
    tmp_path: Path, content: bytes | None, why: str
) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_bytes(content)

    (problem,) = KubeProxySettings(routes_token_file=str(path)).find_proxy_problems()

    assert problem.startswith("KubeProxySettings.routes_token_file: ")
    assert why in problem
    assert "short" not in problem
