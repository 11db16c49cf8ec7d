"""A MySQL server for tests: Oracle's own, beside MariaDB.

Its accounts have MySQL's own kind of password, ``caching_sha2_password``: the drivers need the
package ``cryptography`` for it, since nothing is encrypted here. Making a data folder takes
seconds, so it is made once for each version and copied after that.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import ClassVar

from tests.servers import mysql_program
from tests.servers.mariadb import SqlServer, as_root
from tests.servers.server import Missing, NotStarted

SMALL = ("--innodb-redo-log-capacity=8M", "--innodb-doublewrite=OFF", "--performance-schema=OFF")


class MySQL(SqlServer):
    """One mysqld of MySQL."""

    package: ClassVar = "mysql-server"
    is_mariadb = False

    def prepare(self) -> None:
        """Have a data folder that is nobody else's."""
        super().prepare()
        data = self.folder / "data"
        try:
            _copy(_template(), data)
        except OSError:  # the cache cannot be written to
            shutil.rmtree(data, ignore_errors=True)
            _initialize(data)

    def command(self) -> Sequence[str]:
        return [
            *_mysqld(),
            *SMALL,
            "--mysqlx=OFF",
            "--skip-log-bin",
            *self.options(),
            "--secure-file-priv=NULL",
        ]


@cache
def _mysqld() -> tuple[str, ...]:
    """The program, and where the rest of it is."""
    found = mysql_program.find()
    if found is None:
        raise Missing(mysql_program.ADVICE)
    return *found, "--no-defaults", f"--basedir={Path(found[-1]).parents[1]}"


@cache
def _template() -> Path:
    """The data folder of a server that was never used, made by whoever comes first."""
    version = mysql_program.version(_mysqld()[:-2])
    made = mysql_program.cache() / f"mysql-data-{version}"
    made.parent.mkdir(parents=True, exist_ok=True)
    with mysql_program.locked(made.with_name(f"{made.name}.lock")):
        if not made.exists():
            with tempfile.TemporaryDirectory(prefix="unfinished-", dir=made.parent) as work:
                _initialize(Path(work) / "data")
                (Path(work) / "data").rename(made)
    return made


def _initialize(data: Path) -> None:
    command = [*_mysqld(), *SMALL, "--initialize-insecure", f"--datadir={data}", *as_root()]
    ran = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
    if ran.returncode != 0:
        raise NotStarted(f"mysqld --initialize-insecure: {ran.stderr[-2000:]}")
    (data / "auto.cnf").unlink(missing_ok=True)  # the server's identity: each copy makes its own


def _copy(source: Path, target: Path) -> None:
    """Most of it is zeros, which GNU's cp leaves out."""
    copied = subprocess.run(["cp", "-a", "--sparse=always", source, target], capture_output=True)
    if copied.returncode != 0:
        shutil.copytree(source, target, dirs_exist_ok=True)


FAST = "innodb-flush-method=nosync"
"""Wait for no disk: a server that is killed loses nothing by that, only a power cut would tell."""


def mysql() -> MySQL:
    """The server that most tests share: ``shared(mysql)``."""
    return MySQL(FAST)
