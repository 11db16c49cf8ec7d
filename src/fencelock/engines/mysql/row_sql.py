"""The table of ``mode=row``: its statements, and what can be read of holders.

A holder writes about itself into the row that it has locked, and never commits that: who wants to
know reads uncommitted rows. It goes back by itself when the transaction is rolled back.
"""

from __future__ import annotations

import json
from typing import Any

from ...errors import FencelockError
from ...model import Grant, Holding, Request
from ...world import World
from .lease_sql import UNUSED_US
from .literals import NOW, micros, text
from .wire.pool import Pool
from .wire.session_pool import idle_limit
from .wire.transaction import Transaction

BLOCK_S = 10  # how long one statement waits in the server's queue
CLEAN_UP_S = 30.0
KNOWN_S = 30.0  # a row that was seen is there for twice as long, whoever cleans up
KNOWN_MAX = 10_000


class RowTable:
    """The rows of one prefix, as one client uses them."""

    def __init__(self, world: World, pool: Pool, table: str) -> None:
        self._world = world
        self._pool = pool
        self._rows = f"{table}_rows"
        self._clean_up_at = world.now() + CLEAN_UP_S
        self._known: dict[str, float] = {}
        """Names whose rows need not be made, and until when."""

    def knows(self, name: str) -> bool:
        """Whether the row of a name is there, as far as we know."""
        return self._known.get(name, 0.0) > self._world.now()

    def remember(self, name: str) -> None:
        """Remember that the row of a name is there."""
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known[name] = self._world.now() + KNOWN_S

    def forget(self, name: str) -> None:
        """Forget it: it is not."""
        self._known.pop(name, None)

    def lock(self, request: Request, wait: str, transaction: Transaction) -> list[str]:
        """Lock the row of a name, which is made if need be, and write who has it.

        The insert id of the last is the fence, or 0 when there was no row.
        """
        n, ttl = text(request.name), micros(request.ttl)
        limits = f"wait_timeout={idle_limit(request.ttl)},innodb_lock_wait_timeout={BLOCK_S}"
        statements: list[str] = []
        if transaction.limits != limits:
            statements.append(f"SET SESSION {limits}")
        if not self.knows(request.name):
            statements.append(
                f"INSERT IGNORE INTO {self._rows} (name,owner,fence,ttl,since,used_at,meta)"
                f" SELECT {n},'',0,0,0,{NOW},'' FROM DUAL WHERE NOT EXISTS"
                f" (SELECT 1 FROM {self._rows} WHERE name={n})"
            )
        transaction.limits = limits
        write = (
            f"UPDATE {self._rows} SET fence=LAST_INSERT_ID(GREATEST(fence+1,{NOW})),"
            f"owner={text(request.owner)},ttl={ttl},since={NOW},used_at={NOW}+{ttl},"
            f"meta={text(request.meta)} WHERE name={n}"
        )
        lock = f"SELECT fence FROM {self._rows} WHERE name={n} FOR UPDATE{wait}"
        return [*statements, "START TRANSACTION", lock, write]

    def extend(self, grant: Grant) -> str:
        """Write that the holder lives, and until when."""
        ttl = micros(grant.ttl)
        return (
            f"SET SESSION wait_timeout={idle_limit(grant.ttl)};UPDATE {self._rows} SET ttl={ttl},"
            f"used_at={NOW}+{ttl} WHERE name={text(grant.name)} AND owner={text(grant.owner)}"
        )

    def alive(self, transaction: Transaction) -> str:
        """Look from outside whether the session of a transaction is there."""
        return f"SELECT IS_USED_LOCK({transaction.identity_lock})"

    def kill(self, transaction: Transaction, timeout_s: int) -> tuple[str, str]:
        """End the session of a transaction, and wait until it has ended.

        Its identity lock is free when the session has ended, and by then its transaction has.
        """
        lock = transaction.identity_lock
        return (
            f"KILL IS_USED_LOCK({lock})",
            f"SELECT GET_LOCK({lock},{timeout_s}),RELEASE_LOCK({lock})",
        )

    def free(self, name: str) -> str:
        """What a holder writes before it commits."""
        return f"UPDATE {self._rows} SET owner='',meta='',used_at={NOW} WHERE name={text(name)}"

    async def fence(self, name: str, transaction: Transaction) -> tuple[bool, int]:
        """Whether a session is still there, and the fence that was last committed for a name."""
        busy, row = await self._pool.query(
            f"{self.alive(transaction)};SELECT fence FROM {self._rows} WHERE name={text(name)}"
        )
        return busy.rows != [(None,)], int(row.rows[0][0] or 0) if row.rows else 0

    async def clean_up(self) -> None:
        """Now and then remove rows of names that nobody uses; those that are held look used."""
        if self._world.now() < self._clean_up_at:
            return
        self._clean_up_at = self._world.now() + CLEAN_UP_S * (1 + self._world.random())
        old = f"owner='' AND used_at<{NOW}-{UNUSED_US}"
        try:
            replies = await self._pool.query(
                "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;"
                f"SELECT name FROM {self._rows} WHERE {old} LIMIT 100"
            )
            if names := ",".join(f"X'{(row[0] or b'').hex()}'" for row in replies[-1].rows):
                await self._pool.query(
                    f"DELETE FROM {self._rows} WHERE name IN ({names}) AND {old}"
                )
        except FencelockError:
            pass  # another client, or the next time, does it

    async def holder(self, name: str) -> tuple[str, int, str] | None:
        """Who holds a name: the owner, its fence and what it says of itself."""
        for owner, fence, meta in await self._read("owner,fence,meta", "name=", name):
            return (owner or b"").decode(), int(fence or 0), (meta or b"").decode()
        return None

    async def holdings(self, where: str, value: str) -> list[Holding]:
        columns = f"name,fence,ttl,{NOW}-since,used_at-{NOW},meta"
        return [
            Holding(
                (name or b"").decode(),
                int(fence or 0),
                int(ttl or 0) / 1e6,
                max(0.0, int(age or 0) / 1e6),
                int(left or 0) / 1e6,
                json.loads(meta or b"{}"),
            )
            for name, fence, ttl, age, left, meta in await self._read(columns, where, value)
        ]

    async def _read(self, columns: str, where: str, value: str) -> list[Any]:
        replies = await self._pool.query(
            "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;"
            f"SELECT {columns} FROM {self._rows} WHERE {where}{text(value)}"
            " AND owner<>'' ORDER BY name"
        )
        return list(replies[-1].rows)
