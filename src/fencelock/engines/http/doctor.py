"""Find what in a service, and in the connection to it, would break a promise."""

from __future__ import annotations

import ipaddress

from ...model import Finding
from .messages import About
from .settings import Settings


def diagnose(settings: Settings, about: About) -> list[Finding]:
    """Return the findings on a service and its settings."""
    findings = [
        Finding("ok", "service", f"version {about.version} over {about.engine}://"),
        Finding("ok", "identity", f"the service knows this client as {about.identity!r}"),
        *_on_the_way(settings),
    ]
    if about.scope == "process":
        text = "its locks live in the memory of one node, and end with it"
        advice = "run `fencelock serve` over sqlite:///, redis://, postgresql:// or etcd://"
        findings.append(Finding("warning", "durability", text, advice))
    elif not about.traits.portable:
        text = "held locks end with the node that acquired them"
        findings.append(Finding("warning", "nodes", text, "run one node, or another engine"))
    elif about.scope == "machine" and len(settings.nodes) > 1:
        text = f"several nodes over {about.engine}:// exclude each other only on one machine"
        advice = "give nodes on several machines a store that all of them reach"
        findings.append(Finding("warning", "nodes", text, advice))
    missing = [verb for verb in ("acquire", "observe", "revoke") if verb not in about.verbs]
    if missing:
        text = f"this identity has no right to {' or '.join(missing)}, whatever the name"
        findings.append(Finding("note", "rights", text))
    return findings


def _on_the_way(settings: Settings) -> list[Finding]:
    if settings.tls is not None:
        return [Finding("ok", "tls", "calls are encrypted, and the certificate is checked")]
    if all(_is_loopback(host) for host, _ in settings.nodes):
        return [Finding("note", "tls", "calls are in plain text, and stay on this machine")]
    advice = "give the service a certificate, and write https://"
    if settings.token is None and settings.token_file is None:
        return [Finding("warning", "tls", "calls cross the network in plain text", advice)]
    text = "the token crosses the network in plain text: whoever reads it can take every lock"
    return [Finding("problem", "tls", text, advice)]


def _is_loopback(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
