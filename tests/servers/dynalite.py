"""Dynalite, a store of its own with DynamoDB's interface: from npm, on LevelDB. It is not AWS's.

Many requests are under way in it at once, and it makes each conditional write one atomic step by
itself. It does not tell the item that refused a write, as DynamoDB can.
"""

from __future__ import annotations

from tests.servers import npm_programs
from tests.servers.dynamodb import DynamoDB, client
from tests.servers.server import Missing, until

# Left alone, Node.js hangs up on whoever has been silent for five seconds, even as they begin to
# speak; and dynalite ends when a client is killed in the middle of a request.
_SERVE = """
const [folder, path, port] = process.argv.slice(1)
const server = require(folder)({ path, createTableMs: 0 })
server.keepAliveTimeout = 0
server.listen(Number(port), '127.0.0.1')
process.on('uncaughtException', (error) => {
  if (error.code !== 'ECONNRESET') {
    console.error(error)
    process.exit(1)
  }
})
"""


class Dynalite(DynamoDB):
    """One server, whose tables are in its folder."""

    package = "dynalite"

    def command(self) -> list[str]:
        found = npm_programs.find(self.package)
        if found is None:
            raise Missing(npm_programs.ADVICE)
        node, folder = found
        return [node, "-e", _SERVE, folder, str(self.folder / "db"), str(self.port)]

    def answers(self) -> bool:
        client(self.url).list_tables()
        return True

    @property
    def locks_url(self) -> str:
        """The URL of the engine that keeps its locks here."""
        return f"dynamodb://any:any@{self.address}/locks"

    def fresh_table(self) -> str:
        name, asks = super().fresh_table(), client(self.url)

        def is_active() -> bool:
            found = asks.describe_table(TableName=name)
            return bool(found["Table"]["TableStatus"] == "ACTIVE")

        until(is_active, f"{name} to be made")
        return name
