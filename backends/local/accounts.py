"""System accounts that jobs run as."""

import os
import pwd
from dataclasses import dataclass
from typing import Final

from backends.database.launcher import StartFailed

# login.defs(5): below it are the system's own accounts.
FIRST_PERSON: Final = 1000


@dataclass(frozen=True, slots=True)
class Account:
    """A user of this machine.

    Parameters
    ----------
    name
        Login name.
    uid, gid
        Numbers of the user and of its primary group.
    groups
        Numbers of all its groups.
    home
        Home directory; may not exist.
    """

    name: str
    uid: int
    gid: int
    groups: tuple[int, ...]
    home: str


def find_account(owner: str, *, minimum_uid: int = FIRST_PERSON) -> Account:
    """Return the account of a cluster's owner.

    Parameters
    ----------
    owner
        Name that the authenticator vouches for.
    minimum_uid
        Accounts below it run no jobs: they are root and the system's own.

    Raises
    ------
    StartFailed
        If there is no such account, or it is one that may not run jobs.
    """
    try:
        entry = pwd.getpwnam(owner)
    except KeyError:
        raise StartFailed(
            f"there is no account {owner!r} on the gateway's machine; "
            "ask its administrator to make one"
        ) from None
    if entry.pw_uid == 0:
        raise StartFailed(f"{owner!r} is the superuser, who may not run clusters")
    if entry.pw_uid < minimum_uid:
        raise StartFailed(
            f"{owner!r} is a system account (user id {entry.pw_uid}), which may not "
            f"run clusters; c.LocalBackend.minimum_uid is {minimum_uid}"
        )
    return Account(
        name=entry.pw_name,
        uid=entry.pw_uid,
        gid=entry.pw_gid,
        groups=tuple(os.getgrouplist(entry.pw_name, entry.pw_gid)),
        home=entry.pw_dir,
    )
