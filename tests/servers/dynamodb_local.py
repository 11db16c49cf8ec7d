"""Amazon's own DynamoDB Local, in memory: for those who may use it, and say so.

Its license binds whoever installs or uses it, and grants use to nobody without an AWS account in
good standing. So nothing fetches or starts it unless the variable ``FENCELOCK_DYNAMODB_LOCAL`` is
set to ``licensed``: then ``make servers`` has Maven fetch it into the user's cache, and the tests
start it, with its telemetry off. No part of it is in this repository.
"""

from __future__ import annotations

from tests.servers.dynalite import Dynalite
from tests.servers.maven_programs import DYNAMODB_LOCAL, is_licensed
from tests.servers.server import Missing, program

MAIN = "com.amazonaws.services.dynamodbv2.local.main.ServerRunner"
ADVICE = (
    "Amazon's DynamoDB Local is used only with FENCELOCK_DYNAMODB_LOCAL=licensed, by those whom "
    "its license allows to: see docs/engines/dynamodb.md"
)


class DynamoDBLocal(Dynalite):
    """One server, whose tables are in memory."""

    package = "DynamoDBLocal"

    def command(self) -> list[str]:
        if not is_licensed():
            raise Missing(ADVICE)
        classes = DYNAMODB_LOCAL.classpath()
        java = program("java", "default-jre-headless")
        native = f"-Djava.library.path={DYNAMODB_LOCAL.home}"
        options = ["-inMemory", "-sharedDb", "-disableTelemetry", "-port", str(self.port)]
        return [java, "-Xmx256m", "-XX:+UseSerialGC", native, "-cp", classes, MAIN, *options]
