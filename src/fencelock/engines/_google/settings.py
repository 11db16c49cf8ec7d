"""Read the project from a URL, and whether an emulator is used in its place."""

from __future__ import annotations

import os
import re

from ...engine import Address
from ...errors import Misconfigured
from ...model import Finding
from ..options import text

LOGIN = (
    "run gcloud auth application-default login, or name a service account's key file in "
    "GOOGLE_APPLICATION_CREDENTIALS"
)
_EMULATOR = "locks are on an emulator, which keeps nothing when it ends"
_EMULATOR_ADVICE = "leave emulator= out, and {} unset, to lock in Google Cloud"
_PROJECT = re.compile(r"[a-z][a-z0-9.-]*[a-z0-9]")


def read_emulator(value: object) -> str:
    """Read the option ``emulator``."""
    found = text("emulator")(value)
    if not found.rpartition(":")[2].isdigit():
        raise Misconfigured(f"emulator must be host:port, not {found!r:.80}")
    return found


def settled(address: Address, variable: str) -> Address:
    """Add the emulator that Google's own clients would use, if the options name none."""
    found = os.environ.get(variable)
    if not found or "emulator" in address.options:
        return address
    return address._replace(options={**address.options, "emulator": read_emulator(found)})


def read_project(address: Address, example: str) -> str:
    """Return the project, which a URL has instead of a host."""
    project, port = address.hosts[0] if len(address.hosts) == 1 else ("", None)
    if port is not None:
        raise Misconfigured(f"{example}: a server of one's own is named by emulator=host:port")
    if not _PROJECT.fullmatch(project):
        raise Misconfigured(
            f"the URL names no project of Google Cloud by {project!r:.80}: {example}"
        )
    if address.user is not None or address.password is not None:
        raise Misconfigured(f"credentials are not part of the URL: {LOGIN}")
    return project


def emulator_finding(variable: str) -> Finding:
    """Return the doctor's finding about an emulator."""
    return Finding("warning", "emulator", _EMULATOR, _EMULATOR_ADVICE.format(variable))
