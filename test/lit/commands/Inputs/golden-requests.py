"""Writes what a client keeps of a chat server: answers.jsonl in a folder.

usage: golden-requests.py FOLDER SEED [slow|long|wrong|tokens|shape|cut|errors]...
Four greedy answers and 56 sampled ones with latencies about 0.37 s. Another seed is another run of
the same server: other ids, other draws. The words change one thing each.
"""

import json
import os
import random
import sys

GREEDY = [
    ("What is the capital of France?", "The capital of France is Paris, on the Seine."),
    ("Name a prime above 10.", "11 is a prime above ten."),
    ("Say hello in Greek.", "\u039a\u03b1\u03bb\u03b7\u03bc\u03ad\u03c1\u03b1 \u03c3\u03b1\u03c2."),
    ("What is 2 + 2?", "2 + 2 = 4."),
]


def main():
    folder, seed, what = sys.argv[1], int(sys.argv[2]), sys.argv[3:]
    draw = random.Random(seed)
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "answers.jsonl"), "w", encoding="utf-8") as out:
        for number in range(60):
            if number < 4:
                prompt, text = GREEDY[number]
                if "wrong" in what and number == 0:
                    text = text.replace("Paris", "London")
                reason, temperature = "stop", 0
            else:
                prompt = f"Tell story {number}"
                words = max(1, int(draw.lognormvariate(3, 0.5) * (2 if "long" in what else 1)))
                text = " ".join(["word"] * words)
                reason = "length" if draw.random() < (0.6 if "cut" in what else 0.1) else "stop"
                temperature = 0.8
            usage = {"prompt_tokens": len(prompt) + ("tokens" in what), "completion_tokens": len(text.split())}
            response = {
                "id": f"chatcmpl-{draw.getrandbits(64):016x}",
                "created": 1700000000 + number,
                "choices": [{"message": {"content": text, "refusal": None}, "finish_reason": reason}],
                "usage": usage,
            }
            if "shape" in what:
                response["created"] = str(response["created"])
                response["server"] = "b2"
                if number % 3 == 0:
                    del usage["completion_tokens"]
            latency = draw.lognormvariate(-1, 0.3) * (1.7 if "slow" in what else 1)
            record = {
                "request": {"messages": [{"role": "user", "content": prompt}], "temperature": temperature},
                "response": response,
                "latency": round(latency, 4),
            }
            if "errors" in what and number % 2 and number >= 4:
                record = {"request": record["request"], "error": "overloaded", "status": 503}
            out.write(json.dumps(record, ensure_ascii=False) + "\n")


main()
