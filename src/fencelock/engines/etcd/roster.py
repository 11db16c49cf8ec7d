"""What a cluster says of its members, read for whoever examines it."""

from __future__ import annotations

from typing import NamedTuple

from .protobuf import fields


class Status(NamedTuple):
    version: str
    member: int
    leader: int
    size: int
    errors: list[str]
    is_learner: bool


def read_status(data: bytes) -> Status:
    version, member, leader, size, learner = "", 0, 0, 0, False
    errors: list[str] = []
    for number, whole, part in fields(data):
        if number == 1:
            member = next((value for kind, value, _ in fields(part) if kind == 2), 0)
        elif number == 2:
            version = part.decode()
        elif number == 3:
            size = whole
        elif number == 4:
            leader = whole
        elif number == 8:
            errors.append(part.decode())
        elif number == 10:
            learner = bool(whole)
    return Status(version, member, leader, size, errors, learner)


class Member(NamedTuple):
    id: int
    name: str
    client_urls: list[str]
    is_learner: bool


def read_members(data: bytes) -> list[Member]:
    return [_read_member(part) for number, _, part in fields(data) if number == 2]


def _read_member(data: bytes) -> Member:
    member, name, learner = 0, "", False
    urls: list[str] = []
    for number, whole, part in fields(data):
        if number == 1:
            member = whole
        elif number == 2:
            name = part.decode()
        elif number == 4:
            urls.append(part.decode())
        elif number == 5:
            learner = bool(whole)
    return Member(member, name, urls, learner)
