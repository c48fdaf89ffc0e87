#!/usr/bin/env python3
"""Writes a server log, an access log or a JSONL of generations of about SIZE MB.

usage: large-logs-make.py {server,access,generations} SIZE_MB OUT

The server log mixes what vLLM, uvicorn and an application print: requests with
their parameters, access lines, engine state, warnings, now and then a
traceback; in its last tenth a stray token makes prompts of 60,000 tokens, and
out-of-memory errors, timeouts and retries follow. The generations are chat
completions as OpenAI's API answers them, one a line, every eighth with log
probabilities; one answer of a hundred loops. The same arguments write the same
bytes.
"""
import json
import random
import sys

WORDS = ("the model answers a question about rivers and cities with a short list of names while the server keeps "
         "its cache warm and the next request waits for a slot in the batch that was just formed").split()


def sentence(r, n):
    return " ".join(r.choice(WORDS) for _ in range(n))


def stamp(t):
    s = int(t)
    return "01-%02d %02d:%02d:%02d" % (1 + s // 86400, s // 3600 % 24, s // 60 % 60, s % 60)


def server_block(r, t, n, bad):
    out = []
    for _ in range(n):
        t += r.expovariate(40)
        rid = "%032x" % r.getrandbits(128)
        w = stamp(t)
        tokens = 60000 if bad and r.random() < 0.05 else r.randint(20, 900)
        out.append(f"INFO {w} [logger.py:42] Received request chatcmpl-{rid}: prompt: {sentence(r, 12)!r}, params: "
                   f"SamplingParams(n=1, presence_penalty=0.0, frequency_penalty=0.0, repetition_penalty=1.0, "
                   f"temperature=0.7, top_p=0.9, top_k=-1, min_p=0.0, seed=None, stop=[], max_tokens=256), "
                   f"prompt_token_ids: None, lora_request: None.")
        out.append(f"INFO {w} [async_llm.py:271] Added request chatcmpl-{rid}.")
        out.append(f"2026-{w.replace(' ', 'T')}.{r.randint(0, 999):03d}Z INFO app.router request_id={rid} route=/v1/chat "
                   f"tenant={r.randint(1, 40)} tokens={tokens} queue_ms={r.random() * 20:.1f} model=atlas-7b")
        if tokens == 60000:
            out.append(f"ERROR {w} [engine.py:160] torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.66 GiB."
                       f" GPU 0 has a total capacity of 79.15 GiB of which 1.02 GiB is free.")
            out.append(f'INFO:     10.0.3.{r.randint(1, 250)}:{r.randint(1024, 65535)} - "POST /v1/chat/completions '
                       f'HTTP/1.1" 500 Internal Server Error')
        else:
            out.append(f"2026-{w.replace(' ', 'T')}.{r.randint(0, 999):03d}Z DEBUG app.cache hit={r.random():.3f} "
                       f"blocks={r.randint(10, 9999)} key={rid[:16]}")
            out.append(f'INFO:     10.0.3.{r.randint(1, 250)}:{r.randint(1024, 65535)} - "POST /v1/chat/completions '
                       f'HTTP/1.1" 200 OK')
        if r.random() < 0.01:
            out.append(f"INFO {w} [loggers.py:116] Engine 000: Avg prompt throughput: {r.random() * 4000:.1f} tokens/s, "
                       f"Avg generation throughput: {r.random() * 2000:.1f} tokens/s, Running: {r.randint(1, 60)} reqs, "
                       f"Waiting: {r.randint(0, 9)} reqs, GPU KV cache usage: {r.random() * 100:.1f}%, Prefix cache hit "
                       f"rate: {r.random() * 100:.1f}%")
        if r.random() < 0.002:
            out.append(f"WARNING {w} [scheduler.py:900] Sequence group {r.randint(1, 9999)} is preempted because there is "
                       f"not enough KV cache space.")
    return t, out


def server(size, path):
    r = random.Random(1)
    written, t = 0, 0.0
    with open(path, "w") as f:
        while written < size:
            t, lines = server_block(r, t, 2000, written > 0.9 * size)
            text = "\n".join(lines) + "\n"
            f.write(text)
            written += len(text)


def access(size, path):
    r = random.Random(3)
    written, t = 0, 0.0
    with open(path, "w") as f:
        while written < size:
            lines = []
            for _ in range(2000):
                t += r.expovariate(200)
                s = int(t)
                slow = written > 0.9 * size and r.random() < 0.05
                status = 504 if slow else 429 if r.random() < 0.001 else 200
                lines.append(f'10.0.{r.randint(0, 9)}.{r.randint(1, 250)} - - [05/Jan/2026:{s // 3600 % 24:02d}:'
                             f'{s // 60 % 60:02d}:{s % 60:02d} +0000] "POST /v1/chat/completions HTTP/1.1" {status} '
                             f'{r.randint(300, 9000)} "-" "openai-python/1.40.0" rt={30.0 if slow else r.random():.3f} '
                             f'rid={r.getrandbits(64):016x}')
            text = "\n".join(lines) + "\n"
            f.write(text)
            written += len(text)


def completion(r, i):
    n = r.randint(40, 220)
    loop = r.random() < 0.01
    answer = (sentence(r, 8) + " ") * 25 if loop else sentence(r, n)
    choice = {"index": 0, "message": {"role": "assistant", "content": answer},
              "finish_reason": "length" if loop else "stop"}
    if i % 8 == 0:
        choice["logprobs"] = {"content": [
            {"token": " " + w, "logprob": -r.random(), "bytes": list(w.encode()),
             "top_logprobs": [{"token": " " + w, "logprob": -0.2, "bytes": None},
                              {"token": " " + r.choice(WORDS), "logprob": -2.5, "bytes": None}]}
            for w in answer.split()[:64]]}
    return {"id": f"chatcmpl-{i}", "object": "chat.completion", "created": 1767000000 + i // 40, "model": "atlas-7b",
            "choices": [choice],
            "usage": {"prompt_tokens": r.randint(20, 900), "completion_tokens": n, "total_tokens": n + 100},
            "prompt": sentence(r, 40)}


def generations(size, path):
    r = random.Random(2)
    written, i = 0, 0
    with open(path, "w") as f:
        while written < size:
            text = "".join(json.dumps(completion(r, i + k)) + "\n" for k in range(256))
            f.write(text)
            written += len(text)
            i += 256


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in ("server", "access", "generations"):
        sys.exit(__doc__)
    {"server": server, "access": access, "generations": generations}[sys.argv[1]](int(sys.argv[2]) * 1000000, sys.argv[3])
