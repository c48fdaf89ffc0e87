"""What the third host and the fourth leave behind: records of Ollama,
llama.cpp's server, SGLang and OpenAI's batches; an application log that is
JSON; Envoy's access log or Traefik's; a scrape of /metrics."""

import json

from . import writers
from .writers import hash_of, iso, judged, short, stamp, unix

# Of each host and level, for every other fault.
FORMATS = {"ibis": (("ollama", "batch"), ("llamacpp", "sglang")),
           "tern": (("sglang", "ollama"), ("batch", "llamacpp"))}
UPSTREAM = {429: "RL", 500: "-", 503: "UH", 504: "UT"}


def ns(seconds):
    return round(seconds * 1e9)


# Answers.

def ollama(a, model, at, latency, tokenizer, top):
    """A proxy's row for /api/chat: what was sent, what came."""
    r = a.request
    return {"request": {
        "model": model, "stream": False,
        "messages": [{"role": "user", "content": r.question}],
        "options": {"temperature": r.temperature, "top_p": r.top_p,
                    "num_predict": r.max_tokens, **r.options}},
        "response": {
            "model": model, "created_at": iso(at + latency),
            "message": {"role": "assistant", "content": a.text},
            "done": True, "done_reason": a.reason,
            "total_duration": ns(latency), "load_duration": 21000417,
            "prompt_eval_count": len(a.prompt_ids),
            "prompt_eval_duration": ns(0.0004 * len(a.prompt_ids)),
            "eval_count": a.completion_tokens,
            "eval_duration": ns(latency - 0.03)}}


def batch(a, model, at, latency, tokenizer, top):
    """A line of a batch's output; the input file is apart."""
    body = writers.chat_response(a, model, at, top)
    body["id"] = f"chatcmpl-{a.request.id}"
    return {"id": f"batch_req_{a.request.id}", "custom_id": a.request.id,
            "response": {"status_code": 200, "request_id": body["id"][9:],
                         "body": body}, "error": None}


def batch_input(a, model):
    return {"custom_id": a.request.id, "method": "POST",
            "url": "/v1/chat/completions",
            "body": writers.chat_request(a, model)}


def llamacpp(a, model, at, latency, tokenizer, top):
    """The body that /completion answers with."""
    r = a.request
    read = 0.0004 * len(a.prompt_ids)
    out = {"index": 0, "content": a.text, "tokens": [], "id_slot": 0,
           "stop": True, "model": model,
           "tokens_predicted": a.completion_tokens,
           "tokens_evaluated": len(a.prompt_ids),
           "generation_settings": {
               "n_predict": r.max_tokens, "seed": r.seed,
               "temperature": r.temperature, "top_k": 40, "top_p": r.top_p,
               "min_p": 0.05, "repeat_penalty": 1.0, "stop": [],
               "ignore_eos": bool(r.options.get("ignore_eos")),
               "n_probs": top},
           "prompt": a.prompt, "has_new_line": "\n" in a.text,
           "truncated": False,
           "stop_type": {"stop": "eos", "length": "limit"}[a.reason],
           "stopping_word": "", "tokens_cached": len(a.prompt_ids)
           + a.completion_tokens - 1,
           "timings": {"prompt_n": len(a.prompt_ids),
                       "prompt_ms": round(read * 1e3, 3),
                       "predicted_n": a.completion_tokens,
                       "predicted_ms": round((latency - read) * 1e3, 3)}}
    if top:
        def token(i, text, logprob):
            return {"id": i, "token": text, "bytes": list(text.encode()),
                    "logprob": short(logprob)}
        out["completion_probabilities"] = [
            {**token(t.id, t.text, t.logprob),
             "top_logprobs": [token(*one) for one in t.top[:top]]}
            for t in a.tokens]
    return out


def sglang(a, model, at, latency, tokenizer, top):
    """/generate, with what was sent beside it and what a benchmark knows."""
    r = a.request
    meta = {"id": r.id, "finish_reason":
            {"type": "stop", "matched": 1} if a.reason == "stop"
            else {"type": "length", "length": r.max_tokens},
            "prompt_tokens": len(a.prompt_ids),
            "completion_tokens": a.completion_tokens, "cached_tokens": 0,
            "e2e_latency": round(latency, 5)}
    if top:
        meta["output_token_logprobs"] = [
            [short(t.logprob), t.id, t.text] for t in a.tokens]
        meta["output_top_logprobs"] = [
            [[short(p), i, text] for i, text, p in t.top[:top]]
            for t in a.tokens]
    row = {"request": {"text": a.prompt, "sampling_params": {
        "temperature": r.temperature, "top_p": r.top_p,
        "max_new_tokens": r.max_tokens, **r.options}},
        "response": {"text": a.text, "meta_info": meta}}
    if r.expected is not None:
        row |= {"label": r.expected, "correct": a.right()}
    return row


def write_answers(case, answers, form, alternatives, logprobs, model, hop,
                  server_log):
    at, rows, log, latencies, left = 0.0, [], [], [], logprobs
    write = globals()[form]
    for a in answers:
        top = alternatives if a.completion_tokens <= left else 0
        left -= a.completion_tokens if top else 0
        at += case.rng.uniform(0.3, 1.1)
        latency = 0.04 + 0.004 * a.completion_tokens * case.rng.uniform(
            0.9, 1.2)
        latencies.append(latency)
        rows.append(write(a, model, at, latency, case.tokenizer, top))
        if form == "batch":
            rows[-1] |= judged(a)
        log.append((at + latency, app_line(
            at + latency, "generation finished", a.request.id, model=model,
            duration_ms=round(latency * 1e3, 1),
            input_tokens=len(a.prompt_ids), output_tokens=a.completion_tokens,
            stop=a.reason)))
    name = {"ollama": "proxy", "batch": "batch_output",
            "llamacpp": "completions", "sglang": "bench"}[form]
    writers.write_jsonl(case.folder / f"{name}.jsonl", rows)
    if form == "batch":
        writers.write_jsonl(case.folder / "batch_input.jsonl",
                            [batch_input(a, model) for a in answers])
    if server_log:
        case.write_log(log, "app.jsonl")
    return latencies


# Logs.

def app_line(at, event, id, level="info", **fields):
    """structlog's JSON, as applications of Python write it."""
    return json.dumps({"event": event, "request_id": id, **fields,
                       "logger": "depot.llm", "level": level,
                       "timestamp": iso(at)}, ensure_ascii=False)


def envoy(call, id, size, path, agent="depot-app/0.9"):
    """Envoy's default format; written with the time of the beginning."""
    ms = round(call.latency * 1e3)
    flags = UPSTREAM.get(call.status, "-")
    below = "-" if flags in ("UH", "RL", "UT") else str(max(0, ms - 1))
    return (f'[{iso(call.arrived)}] "POST {path} HTTP/1.1" {call.status} '
            f"{flags} {180 + 4 * call.prompt_tokens} {size} {ms} {below} "
            f'"10.40.{hash_of(id) % 5}.{hash_of(id) % 40 + 2}" "{agent}" '
            f'"{id}" "ibis.depot.svc" "10.41.0.7:8080"')


def traefik(call, id, size, path):
    """Traefik's common format; without the id of the request."""
    day = f"{writers.stamp(call.arrived):%d/%b/%Y:%H:%M:%S} +0000"
    below = '"-"' if call.status == 503 else '"http://172.18.0.3:8080"'
    return (f'10.60.0.{hash_of(id) % 40 + 2} - - [{day}] "POST {path} HTTP/2.0"'
            f' {call.status} {size} "-" "-" {hash_of(id) % 900} '
            f'"llm@docker" {below} {round(call.latency * 1e3)}ms')


def usage_row(service, call, model, text):
    """A row of the fourth host's client, in other words."""
    a, good = service.answers[call.index], call.status == 200
    row = {"id": service.ids[call.index], "start_time": iso(call.arrived),
           "path": "/v1/responses", "model": model, "status": call.status,
           "latency": round(call.latency, 4), "attempt": call.attempt,
           "usage": {"prompt_tokens": call.prompt_tokens,
                     "completion_tokens": a.completion_tokens if good else 0}}
    if text:
        row["prompt"] = service.texts[call.index]
    if good and text:
        row["completion"] = a.text
        row["finish_reason"] = a.reason
    if not good:
        row["error"] = {"code": call.status, "message": call.error}
    return row


def traffic_row(service, call, model, text):
    """One row of the application's own record."""
    if service.case.host.host.name == "tern":
        return usage_row(service, call, model, text)
    a, good = service.answers[call.index], call.status == 200
    row = {"trace_id": service.ids[call.index], "ts": round(
        unix(call.arrived) * 1e3), "endpoint": "/v1/chat", "model": model,
        "http_status": call.status,
        "duration_ms": round(call.latency * 1e3, 1),
        "input_tokens": call.prompt_tokens,
        "output_tokens": a.completion_tokens if good else 0,
        "retry_count": call.attempt - 1}
    if text:
        row["question"] = service.texts[call.index]
    if good and text:
        row["answer"] = a.text
        row["finish_reason"] = a.reason
    if not good:
        row["error"] = call.error
    return row


def server_log(service, path):
    """The application's log, the errors of its device, one scrape at the
    end."""
    log = []
    for i, c in enumerate(service.calls):
        id = service.ids[c.index]
        if c.status == 200:
            log.append((c.ended, app_line(
                c.ended, "generation finished", id, path=path(c) if callable(
                    path) else path, duration_ms=round(c.latency * 1e3, 1),
                output_tokens=c.answer_tokens, status=200)))
        elif c.status == 504:
            log.append((c.ended, app_line(
                c.ended, "client went away before the answer was ready", id,
                "warning", waited_ms=round(c.latency * 1e3, 1))))
        else:
            log.append((c.ended, app_line(c.ended, "request failed", id,
                                          "error", status=c.status,
                                          error=c.error)))
    for at, call, running in service.host.incidents:
        bytes = len(running) * call.prompt_tokens * 4096 * 2
        log.append((at, app_line(
            at, "engine step failed", service.ids[call.index], "error",
            batch=len(running), tokens=call.prompt_tokens, exception=
            "Traceback (most recent call last):\n"
            '  File "/app/depot/engine.py", line 88, in step\n'
            "    out = self.model(ids)\n"
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate "
            f"{bytes / 2**30:.2f} GiB. GPU 0 has a total capacity of 15.77 GiB"
            " of which 902.12 MiB is free. Including non-PyTorch memory, this "
            "process has 14.88 GiB memory in use.")))
    service.case.write_log(log, "app.jsonl")
    last = service.host.samples[-1]
    good = [c for c in service.calls if c.status == 200]
    (service.case.folder / "metrics.prom").write_text(
        "# HELP llamacpp:prompt_tokens_total Number of prompt tokens "
        "processed.\n# TYPE llamacpp:prompt_tokens_total counter\n"
        "llamacpp:prompt_tokens_total "
        f"{sum(c.prompt_tokens for c in good)}\n"
        "# HELP llamacpp:tokens_predicted_total Number of generation tokens "
        "processed.\n# TYPE llamacpp:tokens_predicted_total counter\n"
        "llamacpp:tokens_predicted_total "
        f"{sum(c.answer_tokens for c in good)}\n"
        "# HELP llamacpp:requests_processing Number of requests processing.\n"
        "# TYPE llamacpp:requests_processing gauge\n"
        f"llamacpp:requests_processing {last[1]}\n"
        "# HELP llamacpp:requests_deferred Number of requests deferred.\n"
        "# TYPE llamacpp:requests_deferred gauge\n"
        f"llamacpp:requests_deferred {last[2]}\n")
