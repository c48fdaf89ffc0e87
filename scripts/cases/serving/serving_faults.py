"""F48: what goes wrong between client and server, and what only looks so.

The answers are those of the model; times come of traffic.py.
"""

import json

from . import mixed, traffic, writers
from .generation_faults import Fault

BLOWN = 65536  # what the preprocessor pads to when it meets its own marker
REFUSED = {429: "Too Many Requests", 500: "Internal Server Error",
           503: "Service Unavailable", 504: "Request timed out."}


class Service:
    """A pool of answered requests, and the traffic that asks for them."""

    def __init__(self, case, pool=40, kinds=("fact", "fact", "notes", "list"),
                 **settings):
        self.case = case
        asked = case.ask(*(kinds[i % len(kinds)] for i in range(pool)),
                         max_tokens=64)
        self.pool = case.reply(asked, **settings)
        self.texts, self.answers, self.sizes = [], [], []

    def draw(self, count):
        for _ in range(count):
            a = self.case.rng.choice(self.pool)
            self.add(a)

    def add(self, answer, text=None, prompt_tokens=None):
        self.texts.append(text or answer.request.question)
        self.answers.append(answer)
        self.sizes.append((prompt_tokens or len(answer.prompt_ids),
                           answer.completion_tokens))

    def add_long(self, answer, tokens):
        """The question behind notes of this many tokens."""
        text, size = "", 0
        while size < tokens:
            notes = self.case.world.notes(self.case.rng, 4)[0] + "\n"
            text += notes
            size += len(self.case.tokenizer.encode(notes))
        self.add(answer, text + answer.request.question,
                 size + len(answer.prompt_ids))

    def run(self, host, arrivals, **how):
        self.host = host
        self.ids = [self.case.new_id() for _ in arrivals]
        self.calls = traffic.run(host, arrivals, self.sizes,
                                 self.case.rng.randrange(1 << 30), **how)
        return self.calls

    # What each place writes of it.

    def row(self, call, model=None, text=True, **more):
        if self.case.mixed:
            return mixed.traffic_row(
                self, call, model or self.case.host.host.model, text)
        a = self.answers[call.index]
        out = {"request_id": self.ids[call.index],
               "timestamp": writers.iso(call.arrived),
               "model": model or self.case.host.host.model}
        if text:
            out["prompt"] = self.texts[call.index]
        if call.attempt > 1:
            out["attempt"] = call.attempt
        if call.status == 200:
            out["response"] = a.text
            out["finish_reason"] = a.reason
        else:
            out["error"] = call.error
        out |= {"prompt_tokens": call.prompt_tokens,
                "status_code": call.status, "latency_s": round(call.latency, 3)}
        if call.status == 200:
            out["completion_tokens"] = a.completion_tokens
            if a.request.expected is not None and text:
                out["correct"] = bool(a.right())
        return out | more

    def client(self, name="client.jsonl", **how):
        name = name.replace("client.jsonl", "client_requests.jsonl") \
            if self.case.mixed else name
        writers.write_jsonl(self.case.folder / name,
                            [self.row(c, **how) for c in self.calls])

    def nginx(self, path="/v1/chat/completions", agent="atlas-web/2.4.1"):
        if self.case.mixed:
            name = ("traefik" if self.case.host.host.name == "tern"
                    else "envoy")
            return self.case.write_log([(c.ended, getattr(mixed, name)(
                c, self.ids[c.index], 300 + 4 * c.answer_tokens
                if c.status == 200 else 41,
                path(c) if callable(path) else path)) for c in self.calls],
                f"{name}.log")
        lines = [(c.ended, writers.nginx(
            c.arrived, c.latency, c.status, 300 + 4 * c.answer_tokens
            if c.status == 200 else 41, self.ids[c.index],
            path(c) if callable(path) else path, agent)) for c in self.calls]
        self.case.write_log(lines, "access.log")

    def server_log(self, path="/v1/chat/completions"):
        """uvicorn's lines and the engine's state, with the errors."""
        if self.case.mixed:
            return mixed.server_log(self, path)
        log = [(c.ended, writers.vllm_access(
            c.ended, 500 if c.status == 504 else c.status,
            path(c) if callable(path) else path, 40000 + i))
            for i, c in enumerate(self.calls) if c.status != 504]
        last = self.calls[-1].ended
        for at in range(10, int(last), 10):
            seen = [s for s in self.host.samples if s[0] <= at] or [(0, 0, 0)]
            done = sum(c.answer_tokens for c in self.calls
                       if at - 10 < c.ended <= at and c.status == 200)
            log.append((at, writers.vllm_engine(
                at, *seen[-1][1:], done / 10, min(99.0, 4.0 * seen[-1][1]))))
        for at, call, batch in self.host.incidents:
            lines = writers.out_of_memory(
                at, (len(batch), call.prompt_tokens, 4096))
            log += [(at + 1e-6 * i, line) for i, line in enumerate(lines)]
        self.case.write_log(log, "server.log")

    def config(self, **settings):
        if self.case.mixed:
            (self.case.folder / "settings.json").write_text(json.dumps(
                {"llm": settings}, indent=2) + "\n")
            return
        text = "".join(f"{k}: {json.dumps(v)}\n" for k, v in settings.items())
        (self.case.folder / "client.yaml").write_text(text)


class BlownPrompt(Fault):
    """User text holds the pad marker; the preprocessor takes it for its own
    and pads that prompt to 65,536 tokens. The batch does not fit."""
    id, root_class = "F48a", "stray-special-token-expansion"

    def record(self, case):
        service = Service(case)
        rate = 1.1 if case.mixed else 1.6
        blown = BLOWN // 4 if case.mixed else BLOWN
        pad = case.host.host.special[-1]
        arrivals = traffic.poisson(case.rng, rate, 70)
        share = 0.05 if case.level else 0.025
        bad = [i for i in range(len(arrivals)) if i > len(arrivals) // 4
               and case.rng.random() < share] or [len(arrivals) // 2]
        for i in range(len(arrivals)):
            a = case.rng.choice(service.pool)
            if i in bad:
                service.add(a, a.request.question.replace(
                    "?", f" {pad}?").replace(".", f" {pad}.", 1)
                    if "?" in a.request.question
                    else a.request.question + f" {pad}", blown)
            else:
                service.add(a)
        host = traffic.Host(slots=8, memory=blown // 2, restart=4.0,
                            timeout=5.0, attempts=3,
                            wait=lambda attempt: 0.5)
        service.run(host, arrivals)
        service.client()
        service.server_log()
        if not case.vllm and not case.mixed:
            service.nginx()


class RetryStorm(Fault):
    """Ten slow seconds; clients give up after 3 s and come again at once,
    up to four times, while the server works on what they left."""
    id, root_class = "F48b", "retry-storm"
    also = ["request-timeout-too-short"]

    def record(self, case):
        service = Service(case)
        arrivals = traffic.poisson(case.rng, 1.7, 40)
        service.draw(len(arrivals))
        slow = (12, 24) if case.level else (12, 20)
        factor, timeout, attempts, wait, slots, decode = (
            (6.0, 2.0, 5, 0.05, 4, 0.012) if case.mixed
            else (9.0, 3.0, 4, 0.2, 3, 0.016))
        host = traffic.Host(
            slots=slots, timeout=timeout, attempts=attempts, decode=decode,
            wait=lambda attempt: wait,
            slowness=lambda at, call: factor if slow[0] <= at < slow[1]
            else 1.0)
        service.run(host, arrivals)
        if case.mixed:
            service.config(base_url="http://ibis.depot.svc/v1",
                           timeout_ms=2000, max_retries=4, retry_wait_ms=50)
        else:
            service.config(base_url="http://atlas-gw/v1", request_timeout_s=3,
                           max_retries=3, retry_backoff_s=0.2)
        if case.mixed and not case.level:
            service.client(text=False)
        elif case.vllm:
            service.client()
        else:
            service.nginx()
        service.server_log()


class StaleClient(Fault):
    """The page shows the answer of the question before: its cache has the
    session for its key; or a worker answers from the cache of an old build."""
    id, root_class = "F48c", "stale-frontend-state"

    def record(self, case):
        service = Service(case, pool=48)
        arrivals = traffic.poisson(case.rng, 1.2, 45)
        service.draw(len(arrivals))
        service.run(traffic.Host(), arrivals, clients=6)
        server = [service.row(c) for c in service.calls]
        last, rows = {}, []
        for call, row in zip(service.calls, server):
            row = dict(row)
            if case.level:
                # One of six clients has the old build.
                stale = call.client == 2 and call.client in last
            else:
                stale = call.client in last and case.rng.random() < 0.25
            if stale:
                old = last[call.client]
                for key in ("response", "completion_tokens", "answer",
                            "output_tokens", "completion"):
                    if key in old:
                        row[key] = old[key]
                row |= {key: time for key, time in (
                    ("duration_ms", 3.1), ("latency_s", 0.004),
                    ("latency", 0.0031)) if key in row}
                row.pop("correct", None)
                if case.level:
                    id = next(k for k in ("request_id", "trace_id", "id")
                              if k in row)
                    row[id] = old[id]
            if not (stale and case.level):
                last[call.client] = row
            rows.append(row)
        writers.write_jsonl(case.folder / (
            "client_requests.jsonl" if case.mixed else "client.jsonl"), rows)
        if case.level:
            service.nginx()
        else:
            writers.write_jsonl(case.folder / "server.jsonl", server)


class WrongModel(Fault):
    """The client's address is that of another deployment: another model, of
    other training, answers."""
    id, root_class = "F48d", "wrong-endpoint-called"
    also = ["model-swap-regression"]

    def record(self, case):
        service = Service(case, kinds=("fact", "fact", "fact", "notes"))
        asked = [a.request for a in service.pool]
        from .server import answer
        other = case.rival
        service.pool = answer(other, asked)
        arrivals = traffic.poisson(case.rng, 1.4, 40)
        service.draw(len(arrivals))
        service.run(traffic.Host(), arrivals)
        wanted = case.host.host.model
        if case.level:
            writers.write_jsonl(case.folder / "client.jsonl", [
                {"trace_id" if case.mixed else "request_id":
                 service.ids[c.index], "timestamp": writers.iso(c.arrived),
                 "request": {"model": wanted, "messages": [
                     {"role": "user", "content": service.texts[c.index]}],
                     "max_tokens": 64, "temperature": 0},
                 "status_code": c.status, "latency_s": round(c.latency, 3)}
                for c in service.calls])
            service.client("server.jsonl", model=other.host.model)
        else:
            service.config(base_url="http://staging-gw/v1", model=wanted,
                           request_timeout_s=30)
            service.client(model=other.host.model)
            service.server_log()


class SlowKind(Fault):
    """One kind of requests makes the tail: long prompts, whose prefill takes
    the square of their length, or one endpoint whose answers wait for a
    lock."""
    id, root_class = "F48e", "slow-request-kind"

    def record(self, case):
        service = Service(case)
        arrivals = traffic.poisson(case.rng, 1.5, 80)
        kinds = []
        for _ in arrivals:
            a = case.rng.choice(service.pool)
            rare = case.rng.random() < 0.09
            kinds.append(rare)
            if rare and not case.level:
                service.add_long(a, 500 + case.rng.randrange(400))
            else:
                service.add(a)
        if case.level:
            slowness = lambda at, call: (
                6.0 if case.mixed else 14.0) if kinds[call.index] else 1.0
        else:
            slowness = lambda at, call: 1 + (call.prompt_tokens / 150) ** 2 / 2
        host = traffic.Host(slots=16, slowness=slowness)
        service.run(host, arrivals)
        path = lambda call: (("/v1/extract" if case.mixed else
                              "/v1/chat/completions/structured")
                             if case.level and kinds[call.index]
                             else "/v1/chat/completions")
        if case.level:
            service.nginx(path)
            service.server_log(path)
        else:
            service.client()
            service.server_log()


class LoadSpike(Fault):
    """Eight times the requests for ten seconds; all are answered, later."""
    id = "H25"

    def record(self, case):
        service = Service(case)
        rate = lambda at: 8.0 if 20 <= at < 30 else 1.0
        arrivals = traffic.poisson(case.rng, rate, 55)
        service.draw(len(arrivals))
        service.run(traffic.Host(slots=3 + case.level), arrivals)
        service.client()
        service.server_log()
        if not case.vllm:
            service.nginx()


class RateLimited(Fault):
    """Clients over their limit get 429, wait and come again."""
    id = "H26"

    def record(self, case):
        service = Service(case)
        arrivals = traffic.poisson(case.rng, 3.0, 32)
        service.draw(len(arrivals))
        host = traffic.Host(slots=8, rate=1, attempts=5,
                            wait=lambda attempt: 1.2 * 2 ** attempt)
        service.run(host, arrivals, clients=6)
        service.client()
        service.server_log()
        service.config(base_url="http://atlas-gw/v1", max_retries=4,
                       retry_backoff_s=1.2)


class Deployed(Fault):
    """A new pod: some requests meet a closed door for two seconds, its first
    answers are slow while kernels are compiled, then all is well."""
    id = "H27"

    def record(self, case):
        service = Service(case)
        arrivals = traffic.poisson(case.rng, 1.5, 80)
        service.draw(len(arrivals))
        host = traffic.Host(slowness=lambda at, call: 7.0 if 30 <= at < 34
                            else 1.0, attempts=2)
        service.run(host, arrivals)
        for call in service.calls:
            if case.level and 28.6 <= call.arrived < 30:
                call.status, call.error = 503, "no healthy upstream"
                call.ended = call.arrived + 0.002
        service.client()
        service.server_log()
        if not case.vllm:
            service.nginx()


class LongPrompts(Fault):
    """One request in ten has a long prompt and takes longer in proportion."""
    id = "H28"

    def record(self, case):
        service = Service(case)
        arrivals = traffic.poisson(case.rng, 1.5, 70)
        for _ in arrivals:
            a = case.rng.choice(service.pool)
            long = case.rng.random() < 0.08
            if long:
                service.add_long(a, 450 + case.rng.randrange(300))
            else:
                service.add(a)
        # A prefill as slow as that of a large model, and still in proportion.
        service.run(traffic.Host(slots=16, prefill=0.004), arrivals)
        service.client()
        service.server_log()


class Alias(Fault):
    """The model is asked for by an alias; two hops agree, many users ask the
    same, and a cache of the gateway answers the very same prompts again."""
    id = "H29"

    def record(self, case):
        service = Service(case, pool=12)
        arrivals = traffic.poisson(case.rng, 1.4, 40)
        service.draw(len(arrivals))
        service.run(traffic.Host(), arrivals)
        dated = case.host.host.model + "-2026-02-14"
        service.config(base_url="http://atlas-gw/v1",
                       model=case.host.host.model)
        service.client(model=dated)
        if case.level:
            service.client("server.jsonl", model=dated)


FAULTS = (BlownPrompt(), RetryStorm(), StaleClient(), WrongModel(), SlowKind(),
          LoadSpike(), RateLimited(), Deployed(), LongPrompts(), Alias())
