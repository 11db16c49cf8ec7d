"""Find what in a datacenter and its settings would break a promise."""

from __future__ import annotations

from typing import Any

from ...errors import Denied
from ...model import Finding
from .agents import Agents
from .settings import Settings

SERVERS_MIN = 3
SERVERS_ADVICE = "run three or five servers: one may then fail"
DEV_ADVICE = "run a server with a data_dir: one started by -dev forgets all when it ends"


async def diagnose(agents: Agents, settings: Settings) -> list[Finding]:
    """Return all findings about one datacenter."""
    count = await agents.get("/v1/status/peers", len) or 0
    findings = [Finding("ok", "servers", f"{count} servers decide by majority")]
    if count < SERVERS_MIN:
        text = f"{count} server(s): no lock can be acquired or renewed while one is down"
        findings = [Finding("warning", "servers", text, SERVERS_ADVICE)]
    text = f"{2 * settings.session_ttl_min:g} s and a lock-delay of {settings.lock_delay:g} s"
    text = f"a holder that dies keeps its locks for up to twice their ttl, at least for {text}"
    findings.append(Finding("note", "sessions", text))
    try:
        about: dict[str, Any] = await agents.get("/v1/agent/self", dict) or {}
    except Denied:
        text = "its settings cannot be seen with this token, which lacks read for agent_prefix"
        return [*findings, Finding("note", "agent", text)]
    config = about.get("Config", {})
    text = f"{config.get('NodeName')} in {config.get('Datacenter')}, Consul {config.get('Version')}"
    findings.append(Finding("ok", "agent", text))
    if about.get("DebugConfig", {}).get("DevMode"):
        text = "the agent keeps all in memory: locks and fences are gone when it restarts"
        findings.append(Finding("problem", "data", text, DEV_ADVICE))
    return findings
