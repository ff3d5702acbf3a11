"""What of an operator's settings is refused, and with which words."""

from pathlib import Path

import pytest

from backends.routing.settings import RoutingSettings, find_problems

GOOD = {"data_directory": Path("/data"), "gateway_urls": ("http://127.0.0.1:8001",)}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"address": "[::]:443", "tcp_address": "10.0.0.1:8786"},
        {"prefix": "/services/dask-gateway/"},
        {"prefix": "/"},
        {"gateway_urls": ("http://n1:8001/", "https://[::1]:8443")},
        {"tls_cert": Path("/c.pem"), "tls_key": Path("/k.pem")},
        {"dashboard_host": "dash.example.org", "log_level": "debug"},
        {"trusted_proxies": ("10.0.0.0/8", "::1")},
        {"probe_address": "proxy.example.org:443", "externally_managed": True},
    ],
)
def test_good_settings_pass(changes: dict) -> None:
    assert find_problems(RoutingSettings(**(GOOD | changes))) == ()


@pytest.mark.parametrize(
    ("changes", "want"),
    [
        ({"address": "8000"}, "Proxy.address must be"),
        ({"address": ":0"}, "above 0"),
        ({"address": ":99999"}, "above 0"),
        ({"address": ":٨٠٠٠"}, "above 0"),
        ({"address": "::1:80"}, "brackets"),
        ({"address": "a b:80"}, "no host name"),
        ({"gateway_urls": ()}, "at least one gateway"),
        ({"gateway_urls": ("http://h:1/api",)}, "http://h:1/api"),
        ({"gateway_urls": ("http://u:p@h:1",)}, "no URL of a gateway"),
        ({"gateway_urls": ("http://h:x",)}, "no URL of a gateway"),
        ({"gateway_urls": ("h:1",)}, "no URL of a gateway"),
        ({"prefix": "dask"}, "Proxy.prefix"),
        ({"prefix": "/a`b"}, "Proxy.prefix"),
        ({"prefix": "/../x"}, "Proxy.prefix"),
        ({"dashboard_host": "a`b"}, "Proxy.dashboard_host"),
        ({"dashboard_host": "dash:80"}, "Proxy.dashboard_host"),
        ({"tls_cert": Path("/c.pem")}, "need each other"),
        ({"log_level": "loud"}, "Proxy.log_level"),
        ({"trusted_proxies": ("10.0.0.1/8",)}, "Proxy.trusted_proxies"),
        ({"data_directory": Path("/{{x}}")}, "template"),
    ],
)
def test_bad_settings_are_named(changes: dict, want: str) -> None:
    problems = find_problems(RoutingSettings(**(GOOD | changes)))

    assert len(problems) == 1
    assert want in problems[0]


def test_one_address_for_both_means_one_port() -> None:
    """The peer's default."""
    settings = RoutingSettings(**GOOD, address=":8000", tcp_address=":8000")

    assert settings.dask_address is None
