import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.auth.signing import Purpose, Signer
from gateway.domain.errors import ConfigError

KEY, OTHER = b"k" * 32, b"o" * 32


@given(message=st.binary(max_size=200), context=st.text(max_size=50))
def test_what_was_signed_is_believed_in_its_own_context_only(message, context):
    signer = Signer([KEY], Purpose.SESSION)
    text = signer.sign(message, context=context)

    assert signer.verify(text, context=context) == message
    assert signer.verify(text, context=context + "x") is None


@given(text=st.text(max_size=200))
def test_no_text_that_was_not_signed_is_believed(text):
    assert Signer([KEY], Purpose.SESSION).verify(text) is None


@given(message=st.binary(max_size=40), data=st.data())
def test_a_changed_character_is_noticed(message, data):
    signer = Signer([KEY], Purpose.SESSION)
    text = signer.sign(message)
    at = data.draw(st.integers(0, len(text) - 1))
    changed = text[:at] + data.draw(st.characters()) + text[at + 1 :]

    assert changed == text or signer.verify(changed) is None


def test_a_context_cannot_take_from_the_message():
    signer = Signer([KEY], Purpose.SESSION)

    assert signer.verify(signer.sign(b"bc", context="a"), context="ab") is None


@pytest.mark.parametrize("other", [p for p in Purpose if p is not Purpose.SESSION])
def test_a_text_for_one_purpose_is_no_good_for_another(other):
    text = Signer([KEY], Purpose.SESSION).sign(b"alice")

    assert Signer([KEY], other).verify(text) is None


def test_after_a_rotation_old_texts_are_believed_until_the_old_key_goes():
    old = Signer([OTHER], Purpose.SESSION).sign(b"alice")
    new = Signer([KEY, OTHER], Purpose.SESSION).sign(b"alice")

    assert Signer([KEY, OTHER], Purpose.SESSION).verify(old) == b"alice"
    assert Signer([KEY], Purpose.SESSION).verify(old) is None
    assert Signer([KEY], Purpose.SESSION).verify(new) == b"alice"


@pytest.mark.parametrize("keys", [[], [b"short"], [KEY, b""]])
def test_keys_that_are_too_short_are_refused(keys):
    with pytest.raises(ConfigError, match="signing keys"):
        Signer(keys, Purpose.SESSION)
