import base64

import pytest
from aiohttp.test_utils import make_mocked_request
from argon2 import PasswordHasher
from hypothesis import given
from hypothesis import strategies as st
from structlog.testing import capture_logs
from traitlets import TraitError

from gateway.auth.base import Authenticator
from gateway.auth.basic import SimpleAuthenticator, find_source, parse_basic
from gateway.auth.slowdown import Slowdown
from gateway.domain.errors import Unauthenticated
from gateway.domain.user import User
from tests.support.builders import basic

CHEAP = PasswordHasher(time_cost=1, memory_cost=8, parallelism=1)


def a_request(headers=None):
    return make_mocked_request("GET", "/api/v1/clusters/", headers=headers or {})


def encode(raw: bytes) -> str:
    return f"Basic {base64.b64encode(raw).decode()}"


async def test_without_a_password_everybody_is_whom_they_say():
    authenticator = SimpleAuthenticator()

    assert await authenticator.authenticate(a_request(basic("zoë"))) == User("zoë")


async def test_the_stock_clients_latin_1_is_read_too():
    authenticator = SimpleAuthenticator(password="pâss")

    user = await authenticator.authenticate(a_request(basic("zoë", "pâss", "latin-1")))
    again = await authenticator.authenticate(a_request(basic("zoë", "pâss", "utf-8")))

    assert user == again == User("zoë")


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(None, id="absent"),
        pytest.param("", id="empty"),
        pytest.param("Basic", id="no space"),
        pytest.param("Basic ", id="nothing"),
        pytest.param("Basic %%%", id="no base64"),
        pytest.param("Basic é", id="not ascii"),
        pytest.param("Bearer abc", id="another scheme"),
        pytest.param(encode(b"alice"), id="no colon"),
        pytest.param(encode(b":secret word"), id="empty name"),
        pytest.param(encode(b" alice:secret word"), id="blank before"),
        pytest.param(encode(b"al\nice:secret word"), id="line break"),
        pytest.param(encode(b"al\0ice:secret word"), id="nul"),
        pytest.param(encode("a\u2028b:secret word".encode()), id="line separator"),
        pytest.param(encode(b"a" * 256 + b":secret word"), id="long name"),
        pytest.param(encode(b"alice:" + b"x" * 1025), id="long password"),
        pytest.param(encode(b"alice:wrong word"), id="wrong password"),
    ],
)
async def test_w20_whatever_is_malformed_or_wrong_is_a_401_with_a_challenge(header):
    authenticator = SimpleAuthenticator(password="secret word")
    headers = {} if header is None else {"Authorization": header}

    with pytest.raises(Unauthenticated) as caught, capture_logs() as logs:
        await authenticator.authenticate(a_request(headers))

    assert caught.value.challenge.startswith("Basic realm=")
    assert "word" not in str(caught.value).replace("password", "")
    assert "word" not in str(logs).replace("password", "")


@given(raw=st.binary(max_size=300))
async def test_no_header_breaks_the_parser(raw):
    try:
        name, passwords = parse_basic(encode(raw))
    except Unauthenticated:
        return

    assert name
    assert 1 <= len(passwords) <= 2


async def test_a_password_file_gives_groups_roles_and_is_read_again(tmp_path):
    path = tmp_path / "passwords"
    path.write_text(f"alice:{CHEAP.hash('open sesame')}:lab\n")
    authenticator = SimpleAuthenticator(
        password_file=str(path), admin_users={"bob"}, admin_groups={"lab"}
    )
    await authenticator.setup(None)
    request = a_request(basic("alice", "open sesame"))
    alice = await authenticator.authenticate(request)
    assert alice == User("alice", ["lab"], admin=True)

    path.write_text(f"bob:{CHEAP.hash('open sesame')}\n")
    authenticator._file_checked = float("-inf")
    with pytest.raises(Unauthenticated):
        await authenticator.authenticate(request)
    bob = await authenticator.authenticate(a_request(basic("bob", "open sesame")))

    assert bob == User("bob", admin=True)


async def test_verified_credentials_are_not_hashed_again_nor_kept_in_clear(tmp_path):
    path = tmp_path / "passwords"
    path.write_text(f"alice:{CHEAP.hash('open sesame')}\n")
    authenticator = SimpleAuthenticator(password_file=str(path))
    await authenticator.setup(None)
    request = a_request(basic("alice", "open sesame"))
    first = await authenticator.authenticate(request)
    authenticator._file.check = None  # a second hash would call it

    assert await authenticator.authenticate(request) == first
    header = request.headers["Authorization"]
    assert header.encode() not in authenticator._verified._entries


async def test_a_password_and_a_file_cannot_both_be_set(tmp_path):
    with pytest.raises(TraitError, match="not both"):
        SimpleAuthenticator(password="secret word", password_file=str(tmp_path))


async def test_guessing_is_slowed_down_by_source_and_forgotten():
    now, slept = 0.0, []

    async def sleep(seconds):
        slept.append(seconds)

    slowdown = Slowdown(lambda: now, sleep)
    for _ in range(12):
        await slowdown.wait("here")
        slowdown.note_failure("here")
    await slowdown.wait("elsewhere")
    now = 300.0
    await slowdown.wait("here")

    assert slept == [0.25, 0.5, 1, 2, 4, 4, 4]


@pytest.mark.parametrize(
    ("forwarded", "want"),
    [
        ("10.0.0.1", "10.0.0.1"),
        ("made up, 10.0.0.1", "10.0.0.1"),
        ("x" * 99, "x" * 64),
        # Through the door of the dashboards, which the proxy itself asks at.
        ("10.0.0.1, 127.0.0.1", "10.0.0.1"),
        ("made up, 10.0.0.1,127.0.0.1", "10.0.0.1"),
        ("127.0.0.1", "127.0.0.1"),
    ],
)
def test_a_source_is_what_our_own_proxy_saw(forwarded, want):
    assert find_source(a_request({"X-Forwarded-For": forwarded})) == want


@pytest.mark.parametrize("name", ["", "a b", "a;b", "a=b", "ä"])
async def test_a_cookie_name_that_is_none_is_refused(name):
    with pytest.raises(TraitError, match="cookie_name"):
        SimpleAuthenticator(cookie_name=name)


async def test_a_site_that_only_starts_its_own_authenticator_is_told():
    with pytest.raises(NotImplementedError):
        await Authenticator().authenticate(a_request())
