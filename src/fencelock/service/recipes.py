"""The handlers that the recipes of a client need: remember numbers, and observe a name."""

from __future__ import annotations

from . import messages
from .call import Answer, Call, demand
from .handlers import Service


async def remember(service: Service, call: Call, body: messages.Remember) -> Answer:
    """Write a number down that outlives the process of the client."""
    name = demand(call, "acquire", body.name)
    node = service.node
    await node.call_engine(node.engine.remember, name, body.item, body.number, body.keep)
    return Answer(messages.Done())


async def recall(service: Service, call: Call, body: messages.Recall) -> Answer:
    """Read the numbers that are remembered for a name."""
    name = demand(call, "acquire", body.name)
    items = await service.node.call_engine(service.node.engine.recall, name)
    return Answer(messages.Remembered(items=dict(items)))


async def forget(service: Service, call: Call, body: messages.Forget) -> Answer:
    """Remember nothing for a name any more."""
    name = demand(call, "acquire", body.name)
    await service.node.call_engine(service.node.engine.forget, name)
    return Answer(messages.Done())


async def announce(service: Service, call: Call, body: messages.Announce) -> Answer:
    """Tell all who observe a name that it has changed."""
    name = demand(call, "acquire", body.name)
    await service.node.call_engine(service.node.engine.announce, name)
    return Answer(messages.Done())


async def observe(service: Service, call: Call, body: messages.Observe) -> Answer:
    """Wait until a name may have changed since it was seen."""
    node = service.node
    name = demand(call, "acquire", body.name)
    observed = await node.observed_names.begin(name)
    try:
        deadline = call.received_at + body.hold
        while body.seen == observed.stamp and node.world.now() < deadline:
            if call.gone or node.draining:
                break
            observed.wakes[call.wake] = None
            await node.world.wait(call.wake, deadline)
            call.wake.clear()
    finally:
        node.observed_names.end(observed, call.wake)
    return Answer(messages.Observed(seen=observed.stamp))
