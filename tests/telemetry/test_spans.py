"""Spans of OpenTelemetry: whoever had to wait has a link to who was in its way."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanContext, StatusCode

import fencelock
from fencelock import AcquireTimeout, aio, observe
from fencelock.integrations.opentelemetry import trace
from tests.cli.program import eventually
from tests.faults.flavors import Lab, run


class Traced:
    """A provider whose spans are kept."""

    def __init__(self) -> None:
        self.exporter, self.provider = InMemorySpanExporter(), TracerProvider()
        self.provider.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.tracer = self.provider.get_tracer("test")

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.exporter.get_finished_spans() if span.name == name]


@pytest.fixture
def traced() -> Iterator[Traced]:
    traced = Traced()
    stop = trace(traced.provider)
    yield traced
    stop()
    assert observe.context is None


def context_of(span: ReadableSpan) -> SpanContext:
    found: SpanContext | None = span.context
    assert found is not None
    return found


def facts(span: ReadableSpan) -> dict[str, object]:
    return {str(key).removeprefix("fencelock."): v for key, v in (span.attributes or {}).items()}


def test_an_acquire_and_a_hold_are_spans_below_that_of_the_caller(
    flavor: str, url: str, traced: Traced
) -> None:
    async def scenario(lab: Lab) -> None:
        client = await lab.connect(url)
        with traced.tracer.start_as_current_span("work") as work:
            lease = await client.lock("order:7").acquire()
            fence = lease.fence
            await lease.release()
        (acquire,), (hold,) = traced.named("acquire order:*"), traced.named("hold order:*")
        for span in (acquire, hold):
            assert span.parent is not None
            assert span.parent.span_id == work.get_span_context().span_id
        assert facts(acquire)["outcome"] == "granted"
        assert facts(acquire)["engine"] == url.partition(":")[0]
        assert facts(hold)["fence"] == fence
        assert facts(hold)["end"] == "released"
        assert [link.context.span_id for link in hold.links] == [context_of(acquire).span_id]
        assert not acquire.links

    run(flavor, scenario)


def test_who_waits_and_who_is_refused_have_a_link_to_the_holder(
    flavor: str, url: str, traced: Traced
) -> None:
    async def scenario(lab: Lab) -> None:
        holder, other = await lab.connect(url), await lab.connect(url)
        lease = await holder.lock("seat").acquire()
        (first,) = traced.named("acquire seat")
        with pytest.raises(AcquireTimeout):
            await other.lock("seat").acquire(timeout=0.05)
        assert await other.lock("seat").try_acquire() is None
        job = lab.start(other.lock("seat").acquire(timeout=60))
        await lab.until_queued(holder, "seat", 1)
        await lease.release()
        await (await job.result()).release()
        spans = traced.named("acquire seat")
        assert [facts(span)["outcome"] for span in spans] == [
            "granted",
            "timeout",
            "busy",
            "granted",
        ]
        for span in spans[1:]:
            assert [link.context.span_id for link in span.links] == [context_of(first).span_id]
            assert [link.context.trace_id for link in span.links] == [context_of(first).trace_id]
        assert spans[1].status.status_code is StatusCode.ERROR
        assert facts(spans[3])["waited"] is True

    run(flavor, scenario)


HOLDER = """
import sys
import fencelock
from fencelock.integrations.opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
provider = TracerProvider()
trace(provider)
with provider.get_tracer("holder").start_as_current_span("work") as span:
    with fencelock.connect(sys.argv[1]).lock("seat"):
        print(format(span.get_span_context().trace_id, "032x"), flush=True)
        sys.stdin.readline()
"""


def test_the_link_leads_into_another_process(tmp_path: Path, traced: Traced) -> None:
    url = f"sqlite:///{tmp_path}/locks.db"
    command = [sys.executable, "-c", HOLDER, url]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        assert holder.stdout is not None
        assert holder.stdin is not None
        theirs = holder.stdout.readline().strip()
        with fencelock.connect(url) as client:
            assert client.lock("seat").try_acquire() is None
        holder.stdin.write("\n")
    (span,) = traced.named("acquire seat")
    assert [format(link.context.trace_id, "032x") for link in span.links] == [theirs]


def test_a_loss_ends_the_span_of_the_hold_with_an_error(url: str, traced: Traced) -> None:
    with fencelock.connect(url) as client:
        lease = client.lock("seat", ttl=60).acquire()
        client.revoke("seat", "it hangs")
        with pytest.raises(fencelock.Revoked):
            lease.renew()
        eventually(lambda: traced.named("hold seat"))
    (hold,) = traced.named("hold seat")
    assert facts(hold)["loss"] == "revoked"
    assert hold.status.status_code is StatusCode.ERROR


def test_several_locks_and_a_client_that_was_never_opened_have_spans(traced: Traced) -> None:
    with fencelock.connect("memory://") as client:
        with client.locks("a", "b", group="both"):
            pass
    assert len(traced.named("acquire both")) == len(traced.named("hold both")) == 2
    broken = fencelock.connect("redis://127.0.0.1:1/0")
    with pytest.raises(fencelock.Unavailable):
        broken.lock("c").acquire(timeout=0)
    broken.close()
    (span,) = traced.named("acquire c")
    assert facts(span)["outcome"] == "unavailable"


def test_tasks_of_one_loop_do_not_end_the_spans_of_each_other(traced: Traced) -> None:
    async def one(client: aio.Client, n: int) -> None:
        with traced.tracer.start_as_current_span(f"work {n}"):
            async with client.lock("seat"):
                await asyncio.sleep(0)

    async def main() -> None:
        async with aio.connect("memory://") as client:
            await asyncio.gather(*(one(client, n) for n in range(8)))

    asyncio.run(main())
    parents = {context_of(span).span_id for n in range(8) for span in traced.named(f"work {n}")}
    for name in ("acquire seat", "hold seat"):
        spans = traced.named(name)
        assert {span.parent.span_id for span in spans if span.parent} == parents
        assert len(spans) == 8


def test_the_context_is_in_the_meta_only_while_somebody_traces() -> None:
    traced = Traced()
    with fencelock.connect("memory://") as client:
        with client.lock("a"):
            (untraced,) = client.holders("a")
        stop = trace(traced.provider)
        with pytest.raises(fencelock.Misconfigured, match="already"):
            trace(traced.provider)
        with client.lock("a"):
            (holding,) = client.holders("a")
        with client.lock("a", meta={"job": "x" * 4000}):
            (full,) = client.holders("a")
        with client.lock("a", meta={"traceparent": "mine"}):
            (mine,) = client.holders("a")
        stop()
        stop()
        with client.lock("a"):
            (after,) = client.holders("a")
    assert len(str(holding.meta["traceparent"])) == 55
    assert holding.meta["pid"] == untraced.meta["pid"]
    assert "traceparent" not in {**untraced.meta, **after.meta, **full.meta}
    assert full.meta["job"] == "x" * 4000
    assert mine.meta["traceparent"] == "mine"


@pytest.mark.parametrize(
    "meta", ["", "{", "[]", "7", '{"traceparent": 7}', '{"traceparent": "00-zz"}']
)
def test_whatever_others_wrote_as_their_meta_is_no_link(meta: str, traced: Traced) -> None:
    observe.emit(observe.Event("refused", "a", outcome="busy", group="a", blocker=meta))
    (span,) = traced.named("acquire a")
    assert not span.links
    assert json.dumps(facts(span))
