"""An engine that takes a held lock away for whoever asks, and tells nobody.

It is by somebody else, as it would be found: in a package of its own.
"""

from __future__ import annotations

from tests.cli.program import Program

STEALING = """
from fencelock.engines.sqlite.engine import SqliteEngine

class Stealing(SqliteEngine):
    schemes = ("stealing",)

    async def acquire(self, request):
        await self.revoke(request.name, "stolen")
        return await super().acquire(request)

    async def renew(self, grants):
        return [grant._replace(valid_until=grant.valid_until + 1) for grant in grants]
"""


def stealing(program: Program) -> str:
    """The address of an engine that steals, as another package brings it."""
    (program.folder / "stealing.py").write_text(STEALING)
    metadata = program.folder / "stealing-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: stealing\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[fencelock.engines]\nstealing = stealing:Stealing\n"
    )
    program.add_to_path(program.folder)
    return f"stealing:///{program.folder}/stolen.db"
