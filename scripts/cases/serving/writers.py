"""What a served model leaves behind, as its parts write it: answers with log
probabilities (OpenAI's and vLLM's chat form, TGI's), server logs (vLLM,
uvicorn, TGI), nginx's access log, and the model's folder."""

import json
from datetime import datetime, timedelta, timezone

START = datetime(2026, 3, 2, 10, 0, 0, tzinfo=timezone.utc)


def stamp(seconds):
    return START + timedelta(seconds=seconds)


def unix(seconds):
    return round(stamp(seconds).timestamp(), 3)


def iso(seconds):
    return stamp(seconds).isoformat(timespec="milliseconds").replace(
        "+00:00", "Z")


def short(x):
    return round(max(x, -9999.0), 4)  # vLLM's stand-in for minus infinity


def write_jsonl(path, rows):
    path.write_text("".join(json.dumps(r, ensure_ascii=False) + "\n"
                            for r in rows))


# Answers.

def chat_logprobs(answer, alternatives):
    return {"content": [
        {"token": t.text, "logprob": short(t.logprob),
         "top_logprobs": [{"token": text, "logprob": short(p)}
                          for _, text, p in t.top[:alternatives]]}
        for t in answer.tokens]}


def chat_request(answer, model):
    r = answer.request
    return {"model": model,
            "messages": [{"role": "user", "content": r.question}],
            "temperature": r.temperature, "top_p": r.top_p,
            "max_tokens": r.max_tokens, **r.options}


def judged(answer):
    if answer.request.expected is None:
        return {}
    return {"expected": answer.request.expected, "correct": answer.right()}


def chat_response(answer, model, at, alternatives=0, prompt_ids=False):
    choice = {"index": 0, "message": {"role": "assistant",
                                      "content": answer.text},
              "finish_reason": answer.reason}
    if alternatives:
        choice["logprobs"] = chat_logprobs(answer, alternatives)
    body = {"id": answer.request.id, "object": "chat.completion",
            "created": int(unix(at)), "model": model, "choices": [choice],
            "usage": {"prompt_tokens": len(answer.prompt_ids),
                      "completion_tokens": answer.completion_tokens,
                      "total_tokens": len(answer.prompt_ids)
                      + answer.completion_tokens}}
    if prompt_ids:
        body["prompt_token_ids"] = answer.prompt_ids
        body["prompt_logprobs"] = [{str(i): {"logprob": None}}
                                   for i in answer.prompt_ids]
    return body


def tgi_row(answer, tokenizer, at, latency, alternatives, prompt_ids):
    """One row of a client that keeps what it sent to /generate."""
    r = answer.request
    details = {"finish_reason": {"stop": "eos_token"}.get(answer.reason,
                                                          answer.reason),
               "generated_tokens": answer.completion_tokens,
               "seed": r.seed if r.temperature else None}
    if prompt_ids:
        details["prefill"] = [{"id": i, "text": tokenizer.text(i),
                               "logprob": None} for i in answer.prompt_ids]
    if alternatives:
        details["tokens"] = [{"id": t.id, "text": t.text,
                              "logprob": short(t.logprob)}
                             for t in answer.tokens]
        details["top_tokens"] = [
            [{"id": i, "text": text, "logprob": short(p)}
             for i, text, p in t.top[:alternatives]] for t in answer.tokens]
    return {"request_id": r.id, "timestamp": iso(at), "endpoint": "/generate",
            "inputs": answer.prompt,
            "parameters": {"temperature": r.temperature or None,
                           "top_p": r.top_p if r.top_p < 1 else None,
                           "do_sample": r.temperature > 0,
                           "max_new_tokens": r.max_tokens, **r.options},
            "response": {"generated_text": answer.text, "details": details},
            "latency_s": round(latency, 3), "status_code": 200,
            **judged(answer)}


# Logs of servers.

def vllm_prefix(seconds, place, level="INFO"):
    return f"{level} {stamp(seconds):%m-%d %H:%M:%S} [{place}]"


def vllm_received(answer, at):
    r = answer.request
    return (f"{vllm_prefix(at, 'logger.py:42')} Received request {r.id}: "
            f"prompt: {answer.prompt!r}, params: SamplingParams(n=1, "
            f"presence_penalty=0.0, frequency_penalty=0.0, "
            f"repetition_penalty=1.0, temperature={float(r.temperature)}, "
            f"top_p={float(r.top_p)}, top_k=-1, min_p=0.0, seed=None, stop=[],"
            f" stop_token_ids=[], ignore_eos="
            f"{bool(r.options.get('ignore_eos'))}, max_tokens={r.max_tokens}, "
            f"min_tokens={r.options.get('min_tokens', 0)}, logprobs=None), "
            f"prompt_token_ids: {answer.prompt_ids}, lora_request: None.")


def vllm_generated(answer, at):
    return (f"{vllm_prefix(at, 'logger.py:76')} Generated response "
            f"{answer.request.id}: output: {answer.text!r}, "
            f"output_token_ids: {[t.id for t in answer.tokens]}, "
            f"finish_reason: {answer.reason}")


def vllm_access(at, status, path="/v1/chat/completions", port=40000):
    words = {200: "OK", 429: "Too Many Requests", 500:
             "Internal Server Error", 503: "Service Unavailable"}
    return f'INFO:     10.2.0.{port % 9 + 2}:{port} - "POST {path} HTTP/1.1" ' \
           f"{status} {words.get(status, '')}".rstrip()


def vllm_engine(at, running, waiting, tokens, cache):
    return (f"{vllm_prefix(at, 'loggers.py:118')} Engine 000: Avg prompt "
            f"throughput: {tokens * 1.7:.1f} tokens/s, Avg generation "
            f"throughput: {tokens:.1f} tokens/s, Running: {running} reqs, "
            f"Waiting: {waiting} reqs, GPU KV cache usage: {cache:.1f}%, "
            f"Prefix cache hit rate: 0.0%")


def out_of_memory(at, shape, total=22.06):
    """Lines of a server whose batch did not fit: PyTorch's message of a
    tensor of this shape in 16 bits."""
    size = 2
    for n in shape:
        size *= n
    head = vllm_prefix(at, "serving_engine.py:211", "ERROR")
    return [f"{head} Exception in batch step", f"{head} Traceback (most recent "
            "call last):",
            f'{head}   File "/srv/app/engine.py", line 148, in step',
            f"{head}     hidden = self.model(batch.ids)  # {list(shape)}",
            f'{head}   File "/srv/app/model.py", line 87, in forward',
            f"{head}     scores = q @ k.transpose(-1, -2)",
            f"{head} torch.OutOfMemoryError: CUDA out of memory. Tried to "
            f"allocate {size / 2**30:.2f} GiB. GPU 0 has a total capacity of "
            f"{total:.2f} GiB of which 1.31 GiB is free. Including non-PyTorch"
            f" memory, this process has 20.74 GiB memory in use. Of the "
            f"allocated memory 19.02 GiB is allocated by PyTorch, and 1.12 GiB"
            f" is reserved by PyTorch but unallocated."]


def tgi_line(answer, at, latency):
    """At the end of a request, as text-generation-inference writes it."""
    r = answer.request
    some = lambda v: f"Some({v})" if v else "None"
    return (f"{stamp(at + latency).isoformat(timespec='microseconds')[:-6]}Z"
            f"  INFO generate{{parameters=GenerateParameters {{ best_of: None,"
            f" temperature: {some(r.temperature)}, repetition_penalty: None, "
            f"top_k: None, top_p: {some(r.top_p if r.top_p < 1 else None)}, "
            f"typical_p: None, do_sample: {str(r.temperature > 0).lower()}, "
            f"max_new_tokens: Some({r.max_tokens}), return_full_text: None, "
            f"stop: [], truncate: {some(r.options.get('truncate'))}, "
            f"watermark: false, details: true, seed: None }} "
            f'total_time="{latency * 1000:.3f}ms" '
            f'validation_time="0.4ms" queue_time="0.1ms" '
            f'inference_time="{latency * 1000 - 0.5:.3f}ms" time_per_token='
            f'"{(latency * 1000 - 0.5) / max(1, answer.completion_tokens):.6f}'
            f'ms" seed="None"}}: text_generation_router::server: '
            "router/src/server.rs:500: Success")


def nginx(at, latency, status, size, id, path="/v1/chat/completions",
          agent="atlas-web/2.4.1"):
    """Combined, with $request_time and $request_id; written at the end."""
    day = f"{stamp(at + latency):%d/%b/%Y:%H:%M:%S} +0000"
    return (f'10.2.0.{hash_of(id) % 40 + 2} - - [{day}] "POST {path} HTTP/1.1"'
            f' {status} {size} "-" "{agent}" rt={latency:.3f} rid={id}')


def hash_of(text):
    return sum(ord(c) * (i + 7) for i, c in enumerate(text))


# The model's folder.

def model_folder(folder, host, tokenizer, checkpoint="chat", **changes):
    folder.mkdir(parents=True, exist_ok=True)

    def write(name, value):
        (folder / name).write_text(json.dumps(value, indent=1) + "\n")

    name = host.model if checkpoint == "chat" else host.model.replace(
        "-chat", "").replace("-it", "").replace("-instruct", "")
    end = tokenizer.id_of(host.end_turn)
    kinds = {"vllm": "llama", "tgi": "gpt_neox", "mixed": "mistral"}
    write("config.json", {
        "_name_or_path": name, "architectures": [host.architecture],
        "model_type": kinds[host.writes],
        "hidden_size": host.width, "num_hidden_layers": host.depth,
        "num_attention_heads": 4, "vocab_size": len(tokenizer),
        "max_position_embeddings": host.window,
        "bos_token_id": 0, "eos_token_id": end, "torch_dtype": "float32"})
    write("generation_config.json", changes.get(
        "generation", {"bos_token_id": 0, "eos_token_id":
                       [end, 1] if end != 1 else 1}))
    write("tokenizer_config.json", {
        "add_bos_token": False, "bos_token": host.bos,
        "eos_token": host.end_turn, "pad_token": host.special[-1],
        "model_max_length": host.window, "chat_template": host.template,
        "added_tokens_decoder": {
            str(i): {"content": s, "special": True}
            for i, s in enumerate(tokenizer.special)},
        "tokenizer_class": "PreTrainedTokenizerFast"})
