"""Check that any valid name can be locked, and that no two are confused."""

from __future__ import annotations

from .... import aio
from ...._client.validation import NAME_BYTES_MAX
from ..check import check, expect, given, kept_out
from ..context import LONG_S, CheckContext

# fmt: off
ODD = (
    "ünïcödé", "锁", "🔒", "two words", "  spaces around  ", "{}", "a}{b", "{0}", "*?[]", "100%",
    "%s%d", "it's", 'a "quoted" word', "`tick`", "../up", "/etc/passwd", "a/b//c", "a\\b", "a:b",
    "a,b;c", "$HOME", "--", "'; DROP TABLE locks; --", "NULL", "0", "-1", "1e9", "true", ".", "..",
    "~", "@", "a_b", "#?&=", "\u00a0", "\u202eright to left", "e\u0301",
)
ALIKE = (
    "Name", "name", "NAME", "nam", "name ", " name", "names", "name/", "name/x", "name:x", "name.x",
    "name%2Fx", "name_x", "name-x", "nameXx", "name%", "name*", "1", "01", "1.0", "+1", "é",
    "e\u0301", "ß", "ss", "\u0131", "i", "I",
)
# fmt: on


def _longest(name: str, filler: str = "x") -> str:
    room = NAME_BYTES_MAX - len(name.encode())
    full = name + filler * (room // len(filler.encode()))
    return full + "x" * (NAME_BYTES_MAX - len(full.encode()))


@check()
async def any_valid_name_can_be_locked(context: CheckContext) -> None:
    """Letters of any script, spaces, quotes, wildcards, paths and 512 bytes are just names."""
    client, rival = await context.connect(), await context.connect()
    longest = [_longest(context.name("long")), _longest(context.name("wide"), "锁")]
    for name in [*map(context.name, ODD), *longest]:
        async with client.lock(name, ttl=LONG_S) as lease:
            expect(lease.name == name, f"{name!r} became {lease.name!r}")
            await kept_out(rival.lock(name), f"{name!r} was locked twice")
            shown = [holding.name for holding in await rival.holders(name)]
            expect(shown == [name], f"{name!r} is shown as {shown}")
        await given(await rival.lock(name).try_acquire(), f"{name!r} was released").release()


@check()
async def names_are_told_apart(context: CheckContext) -> None:
    """Names that differ in case, accents, spaces, prefixes or their last byte are different."""
    client = await context.connect()
    long = _longest(context.name("long"))
    leases: list[aio.Lease] = []
    for name in [*map(context.name, ALIKE), long, long[:-1] + "y", long[:-1]]:
        lease = await client.lock(name, ttl=LONG_S).try_acquire()
        leases.append(given(lease, f"{name!r} is held by nobody"))
    for lease in leases:
        shown = [holding.fence for holding in await client.holders(lease.name)]
        expect(shown == [lease.fence], f"{lease!r} is shown with fences {shown}")
        expect(await lease.release() is True, f"{lease!r} was freed by another's release")
