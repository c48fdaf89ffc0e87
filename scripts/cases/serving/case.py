"""What every served case needs: its questions, the files of its host, and the
label that the answers are kept under."""

import random
from dataclasses import replace

from . import mixed, writers
from .server import Request, Settings, answer

LIMIT = 60_000  # bytes of a file
LOGPROBS = 240  # tokens with log probabilities; a client samples its requests


class Served:
    """One case while it is recorded. \\p level 0 keeps less than 1: mostly no
    log probabilities."""

    def __init__(self, fault, host, level, seed, folder):
        self.fault, self.host, self.level = fault, host, level
        self.world, self.tokenizer = host.world, host.tokenizer
        self.rng = random.Random(f"{fault.id}{host.host.name}{level}{seed}")
        self.folder = folder
        self.vllm = host.host.writes == "vllm"
        self.mixed = host.host.writes == "mixed"
        self.label = {}

    # Questions.

    def new_id(self):
        return ("chatcmpl-" if self.vllm else "") + f"{self.rng.getrandbits(48):012x}"

    def ask(self, *kinds, **settings):
        """One request of each kind, with the settings of all."""
        h, out = self.host.host, []
        heat, nucleus = h.heat
        settings = {"temperature": heat, "top_p": nucleus if
                    settings.get("temperature", heat) == heat else 1.0,
                    **settings}
        settings["max_tokens"] = round(settings["max_tokens"] * h.stretch)
        for kind in kinds:
            question, right, one = self.world.dialogue(self.rng, kind)
            out.append(Request(self.new_id(), question, right if one else None,
                               kind, seed=self.rng.randrange(1000), **settings))
        return out

    def reply(self, requests, **settings):
        return answer(self.host, requests, Settings(**settings))

    def other_tokenizer(self, permuted):
        """Another vocabulary of the same size and special ids: trained on
        other text, or with its ids in another order."""
        if not self.host.host.vocabulary:
            return self.other_letters(permuted)
        from .corpus import World
        from .tokens import Tokenizer
        rng = random.Random(99)
        special, size = self.host.host.special, len(self.tokenizer)
        world = World(4242, "yard" if self.host.host.kind == "atlas"
                      else "atlas")
        text = "\n".join(world.document(rng) for _ in range(600))
        other = Tokenizer.train(text, special, size)
        if permuted:
            other = Tokenizer(special, self.tokenizer.merges)
            head = len(special)
            order = list(range(head, size))
            rng.shuffle(order)
            pieces = list(other.bytes)
            other.bytes = pieces[:head] + [pieces[i] for i in order]
            place = {old: head + n for n, old in enumerate(order)}
            known, other_piece = {}, other.piece

            def piece(text):
                if text not in known:
                    known[text] = [place[i] for i in other_piece(text)]
                return known[text]
            other.piece = piece
        return other

    def other_letters(self, permuted):
        """The alphabet with one letter moved to its front, or shuffled."""
        from .polyglot import Letters
        letters = list(self.tokenizer.merges)
        if permuted:
            random.Random(99).shuffle(letters)
        else:
            # One letter that the other alphabet lacks: all behind it are off.
            letters = [letters[-1], *letters[:-1]]
        return Letters(self.host.host.special, letters)

    # Files.

    def write_answers(self, answers, alternatives=0, prompt_ids=False,
                      model=None, server_log=True, hop="client"):
        """The client's record, and the server's own log of the same."""
        h, at, rows, log = self.host.host, 0.0, [], []
        model = model or h.model
        if self.mixed:
            kinds = [f.id for f in generation_ids()]
            form = mixed.FORMATS[h.name][self.level][
                kinds.index(self.fault.id) % 2]
            return mixed.write_answers(self, answers, form, alternatives,
                                       LOGPROBS, model, hop, server_log)
        latencies, left = [], LOGPROBS
        for a in answers:
            top = alternatives if a.completion_tokens <= left else 0
            left -= a.completion_tokens if top else 0
            at += self.rng.uniform(0.6, 2.0)
            latency = 0.05 + 0.012 * a.completion_tokens * self.rng.uniform(
                0.9, 1.15)
            latencies.append(latency)
            if self.vllm:
                rows.append({
                    "timestamp": writers.iso(at),
                    "request": writers.chat_request(a, model),
                    "response": writers.chat_response(
                        a, model, at, top, prompt_ids),
                    "latency_s": round(latency, 3), "status_code": 200,
                    **writers.judged(a)})
                log += [(at + 0.01, writers.vllm_received(a, at + 0.01)),
                        (at + latency, writers.vllm_generated(a, at + latency)),
                        (at + latency + 0.001, writers.vllm_access(
                            at, 200, port=40000 + len(rows)))]
            else:
                rows.append(writers.tgi_row(a, self.tokenizer, at, latency,
                                            top, prompt_ids))
                log.append((at + latency, writers.tgi_line(a, at, latency)))
        writers.write_jsonl(self.folder / f"{hop}.jsonl", rows)
        if server_log:
            self.write_log(log)
        return latencies

    def write_log(self, lines, name="engine.log"):
        lines = [text for _, text in sorted(lines, key=lambda line: line[0])]
        (self.folder / name).write_text("\n".join(lines) + "\n")

    def write_model(self, **how):
        writers.model_folder(self.folder / "model", self.host.host,
                             self.tokenizer, **how)

    def with_logprobs(self):
        return 3 if self.level else 0


def generation_ids():
    from .generation_faults import FAULTS
    return FAULTS


def changed(request, **fields):
    return replace(request, **fields)
