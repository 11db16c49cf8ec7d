"""The proxy of the tests, which is part of the package: ``fencelock torture`` needs it."""

from __future__ import annotations

from fencelock.judge.torture.proxy import Proxy as Proxy
