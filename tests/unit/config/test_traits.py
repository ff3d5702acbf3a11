"""Trait types: what they take, and what they say."""

import pytest
from traitlets import HasTraits, TraitError

from gateway.auth import SimpleAuthenticator
from gateway.config.application import DaskGateway
from gateway.config.backend import Backend
from gateway.config.proxy import Proxy
from gateway.config.traits import Address, Callable, LogLevel, MemoryLimit, Type


class Holder(HasTraits):
    address = Address("127.0.0.1:0")
    level = LogLevel("INFO")
    memory = MemoryLimit("2 G")
    cls = Type(klass="gateway.auth.Authenticator")
    function = Callable(print)


@pytest.mark.parametrize(
    "address", [":8000", "127.0.0.1:0", "[::1]:80", "node-7:65535", ""]
)
def test_addresses_are_host_and_port(address) -> None:
    assert Holder(address=address).address == address


@pytest.mark.parametrize(
    "address",
    ["8000", "host", "host:", "host:x", "::1:80", "h:65536", "http://h:80", "a b:1",
     ":99999999999999", ":\N{SUPERSCRIPT TWO}"],
)  # fmt: skip
def test_what_is_no_address_is_refused(address) -> None:
    with pytest.raises(TraitError):
        Holder(address=address)


@pytest.mark.parametrize(
    ("level", "want"), [("debug", "DEBUG"), (30, "WARNING"), ("WARN", "WARNING")]
)
def test_levels_are_names_or_numbers(level, want) -> None:
    assert Holder(level=level).level == want


@pytest.mark.parametrize("level", ["LOUD", 5, "", None])
def test_what_is_no_level_is_refused(level) -> None:
    with pytest.raises(TraitError):
        Holder(level=level)


def test_a_text_is_a_default_amount_of_memory() -> None:
    assert Holder().memory == 2 * 2**30


@pytest.mark.parametrize(
    "text",
    [
        "gateway.auth.SimpleAuthenticator",
        "gateway.auth:SimpleAuthenticator",
        "dask_gateway_server.auth.SimpleAuthenticator",
        "dask_gateway_server.auth:SimpleAuthenticator",
        "SimpleAuthenticator",
        "simple",
        "basic",
    ],
)
def test_a_class_may_be_named_by_text(text) -> None:
    assert Holder(cls=text).cls is SimpleAuthenticator


@pytest.mark.parametrize(
    ("text", "want"),
    [
        ("nowhere", "no class has the short name 'nowhere'"),
        ("gateway.auth.Nobody", "module 'gateway.auth' has no 'Nobody'"),
        ("no.such.Thing", "No module named 'no'"),
        ("jupyterhub", "comes with the JupyterHub authenticator"),
        ("dask_gateway_server.auth.Nobody", "Daskfleet has no Nobody in"),
    ],
)
def test_a_class_that_is_not_there_is_named(text, want) -> None:
    with pytest.raises(TraitError, match=want):
        Holder(cls=text)


def test_a_function_must_be_callable() -> None:
    with pytest.raises(TraitError):
        Holder(function=3)


def test_the_prefix_of_the_proxy_starts_with_a_slash_and_ends_without() -> None:
    assert Proxy(prefix="/services/dask-gateway/").prefix == "/services/dask-gateway"
    with pytest.raises(TraitError, match="must start with a slash"):
        Proxy(prefix="services")


def test_the_same_address_written_twice_is_one_port() -> None:
    assert Proxy(address=":80", tcp_address=":80").tcp_address == ""
    assert Proxy(address=":80", tcp_address=":8786").tcp_address == ":8786"


def test_the_data_directory_is_absolute_and_of_the_user(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_DATA_HOME", raising=False)

    assert DaskGateway().data_directory == str(tmp_path / ".local/share/daskfleet")
    assert DaskGateway(data_directory="~/x").data_directory == str(tmp_path / "x")
    monkeypatch.setenv("XDG_DATA_HOME", "/srv/data")
    assert DaskGateway().data_directory == "/srv/data/daskfleet"


def test_the_backend_knows_where_the_api_really_listens() -> None:
    application = DaskGateway(backend_class=Backend)
    assert application.backend.proxy is application.proxy
    assert application.proxy.gateway_url == "http://127.0.0.1:0"

    application.announce("http://127.0.0.1:4711")

    assert application.proxy.gateway_url == "http://127.0.0.1:4711"
    assert application.backend.gateway_url == "http://127.0.0.1:4711"


def test_a_url_that_the_operator_set_for_the_proxy_stays() -> None:
    application = DaskGateway(backend_class=Backend)
    application.proxy.gateway_url = "http://gateway.internal:8000"

    application.announce("http://127.0.0.1:4711")

    assert application.proxy.gateway_url == "http://gateway.internal:8000"
