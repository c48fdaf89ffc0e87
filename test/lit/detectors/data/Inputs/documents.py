"""Writes data sets of made-up words for duplicates.test and contamination.test: documents.py FOLDER."""

import json
import pathlib
import random
import sys

FOLDER = pathlib.Path(sys.argv[1])
RANDOM = random.Random(1)
VOCABULARY = ["".join(RANDOM.choice("abcdefghijklmnop") for _ in range(RANDOM.randint(3, 9))) for _ in range(3000)]


def words(count):
    return " ".join(RANDOM.choice(VOCABULARY) for _ in range(count))


def write(name, texts):
    path = FOLDER / name
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "w") as out:
        for text in texts:
            out.write(json.dumps(text if isinstance(text, dict) else {"text": text}) + "\n")


def edited(text):
    """With one word more in the middle: of 196 runs of five words 4 go and 5 come."""
    half = len(text) // 2
    return text[:text.index(" ", half)] + " edited" + text[text.index(" ", half):]


def ask(question, answer):
    return {"question": question, "answer": answer}


base = [words(200) for _ in range(100)]
# 10 of 110 documents are copies, 6 of them word for word; the largest group has 5.
write("copies/train.jsonl", base + [base[3].upper() + "!"] * 4 + [base[8], base[9]] + [edited(base[i]) for i in range(20, 24)])
write("fresh/train.jsonl", base)
# The same few copies in a hundred are what any crawl has.
write("some/train.jsonl", base + base[:4])
# Short answers that are all the same.
write("short/train.jsonl", [ask("Is it " + word + "?", "yes") for word in VOCABULARY[:100]] + ["yes"] * 100)
system = words(200)
write("system/train.jsonl", [{"messages": [{"role": "system", "content": system}, {"role": "user", "content": words(15)},
                                           {"role": "assistant", "content": words(10)}]} for _ in range(100)])
licence = words(150)
write("licence/train.jsonl", [licence + "\n" + words(40) for _ in range(30)] + base)
write("few/train.jsonl", base[:5])

# Ten of 40 questions stand within long documents, one is a document, and one differs from its copy in the last third.
questions = [words(30) for _ in range(40)]
leaky = [words(200) for _ in range(100)]
for i in range(10):
    leaky[i * 7] = words(80) + " " + questions[i].title() + " " + words(90)
leaky[99] = questions[10]
leaky[98] = words(40) + " " + " ".join(questions[11].split()[:20]) + " " + words(50)
write("leaked/train.jsonl", leaky)
write("leaked/test.jsonl", [{"id": f"q{i}", "text": text} for i, text in enumerate(questions)])
write("clean/train.jsonl", base)
write("clean/test.jsonl", questions)
# One of 400 is in: what the set says stays right.
write("one/train.jsonl", base + [questions[0]])
write("one/validation.jsonl", [words(30) for _ in range(399)] + [questions[0]])
# Few-shot examples, a licence and a system prompt that both sides have.
shots = words(120)
write("templates/train.jsonl", [shots + " " + words(80)] + [licence + " " + words(80) for _ in range(11)] + base)
write("templates/test.jsonl", [shots + " " + words(30) for _ in range(20)] + [licence + " " + words(10)])
# A sentence that is quoted in a long test document: 20 of 200 words.
quotation = words(20)
write("quoted/train.jsonl", base + [words(50) + " " + quotation + " " + words(50)])
write("quoted/test.jsonl", [words(90) + " " + quotation + " " + words(90)])
# Prompts of an evaluation, and what users asked.
write("prompts/train.jsonl", leaky)
write("prompts/answers.jsonl", [{"id": f"p{i}", "prompt": text, "response": "a", "expected": "b"} for i, text in
                                enumerate(questions)])
write("users/train.jsonl", leaky)
write("users/answers.jsonl", [{"id": f"p{i}", "prompt": text, "response": "a"} for i, text in enumerate(questions)])
# Two runs that were split anew: a test of one may be training of the other.
write("resplit/before/train.jsonl", base[:60])
write("resplit/before/test.jsonl", base[60:])
write("resplit/after/train.jsonl", base[40:])
write("resplit/after/test.jsonl", base[:40])
