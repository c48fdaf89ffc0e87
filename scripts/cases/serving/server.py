"""Answers requests with a tiny model, as an inference server would.

`Settings` is where a fault sits: what the server loaded and how it was
started. `answer()` runs a list of requests in one batch, token by token, and
keeps what a server can log: ids, log probabilities, alternatives, why it
ended. No caches: the models are small enough to be run anew at each token.
"""

import math
from dataclasses import dataclass, field

import torch

from .model import rendered


@dataclass
class Request:
    """One question. `expected` is None where many answers are right."""
    id: str
    question: str
    expected: str = None
    kind: str = ""
    temperature: float = 0.0
    top_p: float = 1.0
    max_tokens: int = 96
    seed: int = 0
    options: dict = field(default_factory=dict)  # others, as they are sent


@dataclass
class Settings:
    """What is served. The defaults are sound."""
    checkpoint: str = "chat"        # or base
    reads: object = None            # tokenizer of prompts, if not the model's
    writes: object = None           # tokenizer of answers, likewise
    bos: bool = True
    keep: int = None                # last tokens of a prompt that are kept
    banned: tuple = ()              # ids that get no probability
    ignore_end: bool = False
    forced: dict = field(default_factory=dict)  # (id, position) -> token id
    processed: bool = False         # log probabilities after temperature


@dataclass
class Drawn:
    """A token of an answer."""
    id: int
    text: str
    logprob: float
    top: list                       # (id, text, logprob), likeliest first


@dataclass
class Answer:
    request: Request
    prompt: str                     # as it was rendered
    prompt_ids: list                # as the model had them
    sent_ids: int                   # before the server cut any
    tokens: list
    text: str
    reason: str

    @property
    def completion_tokens(self):
        return len(self.tokens)

    def right(self):
        """True, False, or None where nobody can say."""
        if self.request.expected is None:
            return None
        return self.text.strip() == self.request.expected.strip()


def draw(logits, request, generator):
    """Id of the next token, by temperature and nucleus."""
    if request.temperature == 0:
        return int(logits.argmax())
    p = torch.softmax(logits / request.temperature, -1)
    if request.top_p < 1:
        order = p.sort(descending=True)
        outside = order.values.cumsum(-1) - order.values > request.top_p
        p[order.indices[outside]] = 0
    return int(torch.multinomial(p, 1, generator=generator))


@torch.no_grad()
def answer(served, requests, settings=Settings(), alternatives=5):
    host, tokenizer = served.host, served.tokenizer
    model = getattr(served, settings.checkpoint)
    reads = settings.reads or tokenizer
    writes = settings.writes or tokenizer
    ends = {tokenizer.id_of(host.end_turn), tokenizer.id_of(host.end_text)}
    out = []
    for r in requests:
        text = rendered(host, r.question)
        if not settings.bos:
            text = text.removeprefix(host.bos)
        ids = reads.encode(text)
        sent = len(ids)
        ids = ids[-(settings.keep or host.window - 24):]
        out.append(Answer(r, text, ids, sent, [], "", None))
    generators = [torch.Generator().manual_seed(1000 * host.seed + i
                                                + 7919 * r.seed)
                  for i, r in enumerate(requests)]
    while True:
        open_ = [i for i, a in enumerate(out) if a.reason is None]
        if not open_:
            break
        rows = [(out[i].prompt_ids + [t.id for t in out[i].tokens])[-host.window:]
                for i in open_]
        longest = max(map(len, rows))
        logits = model(torch.tensor([r + [0] * (longest - len(r))
                                     for r in rows]))
        for n, i in enumerate(open_):
            a, r = out[i], out[i].request
            raw = logits[n, len(rows[n]) - 1]
            masked = raw.clone()
            masked[list(settings.banned)] = -math.inf
            token = draw(masked, r, generators[i])
            token = settings.forced.get((r.id, len(a.tokens)), token)
            shown = raw
            if settings.processed:
                shown = masked / (r.temperature or 1.0)
            odds = torch.log_softmax(shown, -1)
            best = odds.topk(alternatives)
            top = [(int(t), writes.text(int(t)), float(p))
                   for t, p in zip(best.indices, best.values)]
            a.tokens.append(Drawn(token, writes.text(token),
                                  float(odds[token]), top))
            if token in ends and not settings.ignore_end:
                a.reason = "stop"
            elif len(a.tokens) >= r.max_tokens:
                a.reason = "length"
    for a in out:
        a.text = writes.decode([t.id for t in a.tokens])
    return out
