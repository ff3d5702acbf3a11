import grp
import os
import pwd
from types import SimpleNamespace

import pytest

from backends.database.launcher import StartFailed
from backends.local.accounts import find_account

ENTRIES = {
    "alice": SimpleNamespace(
        pw_name="alice", pw_uid=1001, pw_gid=100, pw_dir="/homes/alice"
    ),
    "root": SimpleNamespace(pw_name="root", pw_uid=0, pw_gid=0, pw_dir="/"),
    "toor": SimpleNamespace(pw_name="toor", pw_uid=0, pw_gid=100, pw_dir="/"),
    "postgres": SimpleNamespace(pw_name="postgres", pw_uid=105, pw_gid=7, pw_dir="/"),
}


@pytest.fixture(autouse=True)
def accounts(monkeypatch):
    monkeypatch.setattr(pwd, "getpwnam", ENTRIES.__getitem__)
    monkeypatch.setattr(os, "getgrouplist", lambda _name, gid: [gid, 2000])


def test_an_account_is_taken_with_all_its_groups():
    account = find_account("alice")

    assert (account.uid, account.gid, account.groups) == (1001, 100, (100, 2000))
    assert account.home == "/homes/alice"


@pytest.mark.parametrize("name", ["root", "toor"])
def test_w32_nobody_becomes_root_by_any_name(name):
    with pytest.raises(StartFailed, match="superuser"):
        find_account(name, minimum_uid=1)


@pytest.mark.parametrize("name", ["mallory", ""])
def test_w32_a_name_without_an_account_is_refused_and_told_what_to_do(name):
    with pytest.raises(StartFailed, match=r"no account .* administrator"):
        find_account(name)


def test_w32_accounts_of_services_run_nothing_unless_the_operator_lets_them():
    with pytest.raises(StartFailed, match="minimum_uid is 1000"):
        find_account("postgres")

    assert find_account("postgres", minimum_uid=100).uid == 105


def test_real_accounts_are_read_from_the_system(monkeypatch):
    monkeypatch.undo()
    entry = next(one for one in pwd.getpwall() if one.pw_uid > 0)

    account = find_account(entry.pw_name, minimum_uid=1)

    assert account.uid == entry.pw_uid
    assert entry.pw_gid in account.groups
    assert all(grp.getgrgid(gid) for gid in account.groups)
