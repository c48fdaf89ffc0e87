"""Requests through a queue on a virtual clock.

The answers are real; when they were given is simulated, so that recording is
quick and repeats exactly. The server has `slots` places. A request that gets
one takes

    prefill * prompt tokens + decode * answer tokens * (1 + crowd * share of
    the slots that are taken when it begins)

seconds, times `slowness(time)`. Others wait, first come, first served. A
prompt of more than `memory` tokens runs the device out of memory as it
begins: all requests under way fail and the server is away for `restart`
seconds. A client that waited for `timeout` gives up with 504; its request
stays in the queue all the same. `retry` says when a failed one comes again.
With more than `queue` waiting, or more than `rate` a second of one client,
the answer is 429 at once.
"""

import heapq
import random
from dataclasses import dataclass, field



@dataclass
class Call:
    """One attempt of a request."""
    index: int                  # of the request
    attempt: int
    arrived: float              # seconds since the first
    prompt_tokens: int
    answer_tokens: int
    client: int = 0
    began: float = None
    ended: float = None         # for the client
    status: int = None
    error: str = ""

    @property
    def latency(self):
        return self.ended - self.arrived


@dataclass
class Host:
    slots: int = 8
    prefill: float = 0.0004
    decode: float = 0.011
    crowd: float = 0.6
    memory: int = None
    restart: float = 6.0
    timeout: float = 30.0
    queue: int = None
    rate: float = None
    slowness: object = lambda at, call: 1.0
    attempts: int = 1
    wait: object = lambda attempt: 1.0  # before attempt + 1
    incidents: list = field(default_factory=list)  # (time, call) of OOMs
    samples: list = field(default_factory=list)  # (time, running, waiting)


def poisson(rng, rate, seconds):
    """Times of arrival; `rate` may be a function of the time."""
    at, top = 0.0, 60.0
    out = []
    while True:
        at += rng.expovariate(top)
        if at > seconds:
            return out
        if rng.random() < (rate(at) if callable(rate) else rate) / top:
            out.append(at)


def run(host, arrivals, sizes, seed, clients=12):
    """The calls in the order of their arrival. \\p sizes gives (prompt tokens,
    answer tokens) of each request."""
    rng = random.Random(seed)
    events, calls, waiting, running = [], [], [], []
    away, tick = 0.0, 0

    def push(at, what, call):
        nonlocal tick
        tick += 1
        heapq.heappush(events, (at, tick, what, call))

    def fail(call, at, status, error):
        if call.ended is None:
            call.ended, call.status, call.error = at, status, error
            if call.attempt < host.attempts:
                again = Call(call.index, call.attempt + 1, 0, *sizes[call.index],
                             client=call.client)
                again.arrived = at + host.wait(call.attempt) * (
                    1 + 0.1 * rng.random())
                push(again.arrived, "arrive", again)

    def begin(at):
        while waiting and len(running) < host.slots and at >= away:
            call = waiting.pop(0)
            call.began = at
            running.append(call)
            if host.memory and call.prompt_tokens > host.memory:
                push(at + 0.4, "oom", call)
                continue
            work = host.prefill * call.prompt_tokens + host.decode * (
                call.answer_tokens * (1 + host.crowd * len(running)
                                      / host.slots))
            work *= host.slowness(at, call) * rng.lognormvariate(0, 0.06)
            push(at + work, "finish", call)

    for index, at in enumerate(arrivals):
        push(at, "arrive", Call(index, 1, at, *sizes[index],
                                client=index % clients))
    while events:
        at, _, what, call = heapq.heappop(events)
        if what == "arrive":
            calls.append(call)
            recent = sum(c.client == call.client and at - c.arrived < 1.0
                         for c in calls[-200:])
            if (host.queue is not None and len(waiting) >= host.queue) or (
                    host.rate and recent > host.rate):
                fail(call, at + 0.003, 429, "Too Many Requests")
            else:
                push(at + host.timeout, "timeout", call)
                waiting.append(call)
        elif what == "timeout":
            fail(call, at, 504, "Request timed out.")
        elif what == "finish" and call in running:
            running.remove(call)
            if call.ended is None:
                call.ended, call.status = at, 200
        elif what == "oom" and call in running:
            host.incidents.append((at, call, list(running)))
            for other in running:
                fail(other, at, 500, "CUDA out of memory")
            running.clear()
            away = at + host.restart
            push(away, "back", call)
        host.samples.append((at, len(running), len(waiting)))
        begin(at)
    return sorted(calls, key=lambda c: c.arrived)
