"""Every setting is documented; what is generated from that can be used."""

import re
from pathlib import Path

import pytest

from gateway.config.catalogue import describe_sections, find_documented_classes
from gateway.config.check import check_file
from gateway.config.documents import format_config_file, format_reference
from gateway.config.dropin import peer_names

ROOT = Path(__file__).parents[3]
SECTIONS = describe_sections()
SETTINGS = [setting for section in SECTIONS for setting in section.settings]


@pytest.mark.parametrize("setting", SETTINGS, ids=lambda s: f"{s.section}.{s.name}")
def test_every_setting_says_what_it_is(setting) -> None:
    assert len(setting.help) > 20
    assert setting.help.endswith((".", ".)"))
    assert setting.default or "By default" in setting.help


def test_every_section_of_the_peer_that_exists_is_there() -> None:
    assert [section.name for section in SECTIONS] == [
        "DaskGateway",
        "Proxy",
        "Authenticator",
        "SimpleAuthenticator",
        "Backend",
        "DBBackendBase",
        "LocalBackend",
        "UnsafeLocalBackend",
        "KubeBackend",
        "KubeController",
        "ClusterConfig",
        "LocalClusterConfig",
        "KubeClusterConfig",
        "UserPolicy",
    ]


def test_no_setting_of_a_class_is_left_out() -> None:
    described = {(setting.section, setting.name) for setting in SETTINGS}

    for cls in find_documented_classes():
        sections = {base.__name__ for base in cls.__mro__}
        for name in cls.class_traits(config=True):
            assert any((section, name) in described for section in sections), name


def test_the_reference_shows_nothing_of_the_machine_it_was_made_on() -> None:
    text = format_reference(SECTIONS)

    assert str(Path.home()) not in text
    assert str(ROOT) not in text


def test_the_generated_file_sets_nothing_and_can_be_used(tmp_path) -> None:
    path = tmp_path / "config.py"
    path.write_text(format_config_file(SECTIONS))

    with peer_names():
        assert [p for p in check_file(path) if p.is_error(strict=True)] == []


def test_each_setting_of_the_generated_file_can_be_uncommented(tmp_path) -> None:
    text = format_config_file(SECTIONS)
    live = re.sub(r"^# (c\.\w+\.\w+ = (?!\.\.\.).*)$", r"\1", text, flags=re.MULTILINE)
    path = tmp_path / "config.py"
    path.write_text(live)

    assert live.count("\nc.") > 40
    with peer_names():
        found = [p.format() for p in check_file(path) if p.is_error(strict=True)]
    assert found == []


def test_the_generated_file_looks_like_the_peers() -> None:
    text = format_config_file(SECTIONS)

    assert (
        "## `[host]:port` of the public port. Without a host it listens on all\n"
        "#  interfaces.\n"
        "#  Default: ':8000'\n"
        "# c.Proxy.address = ':8000'\n"
    ) in text
    # Defaults stand on one line, however long, so that they can be uncommented.
    prose = [line for line in text.splitlines() if line.startswith(("## ", "#  "))]
    assert max(len(line) for line in prose if "Default: " not in line) <= 79
