"""The directions of the proxy, which is part of the package: ``fencelock torture`` needs it."""

from __future__ import annotations

from fencelock.judge.torture.proxy import TO_CLIENT as TO_CLIENT
from fencelock.judge.torture.proxy import TO_SERVER as TO_SERVER
