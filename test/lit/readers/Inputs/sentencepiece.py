"""Writes a model of SentencePiece as its trainer does (sentencepiece_model.proto), and a vocab.json of GPT-2's kind."""

import json
import os
import sys

import wire

folder = sys.argv[1]
NORMAL, UNKNOWN, CONTROL, USER, BYTE = 1, 2, 3, 4, 6


def piece(text, kind=NORMAL, score=0.0):
    message = wire.text(1, text) + wire.float32(2, score)
    if kind != NORMAL:  # the default is not written
        message += wire.number(3, kind)
    return wire.text(1, message)


def write(name, data):
    os.makedirs(os.path.dirname(os.path.join(folder, name)), exist_ok=True)
    with open(os.path.join(folder, name), "wb") as out:
        out.write(data)


pieces = [piece("<unk>", UNKNOWN), piece("<s>", CONTROL), piece("</s>", CONTROL), piece("<tool>", USER), piece("<0x0A>", BYTE),
          piece("▁Hi", score=-1.5), piece("▁you", score=-2.0), piece("é", score=-3.0)]
# model_type BPE, byte_fallback, the identifiers; pad_id -1 fills ten bytes.
trainer = wire.text(2, wire.number(3, 2) + wire.number(4, 8) + wire.number(35, 1) + wire.number(40, 0) + wire.number(41, 1)
                    + wire.number(42, 2) + wire.number(43, -1))
normalizer = wire.text(3, wire.text(1, "identity") + wire.text(2, b"") + wire.number(4, 0))
model = b"".join(pieces) + trainer + normalizer
write("spm/tokenizer.model", model)
# Half of the fourth piece is missing.
write("cut/tokenizer.model", b"".join(pieces[:4])[:-3])

vocabulary = {"<|endoftext|>": 0, "Hi": 1, "Ġyou": 2, "Ċ": 3, "Ã©": 4}
for i in range(5, 300):
    vocabulary["Ġw%d" % i] = i
write("bpe/vocab.json", json.dumps(vocabulary, ensure_ascii=False).encode())
write("bpe/merges.txt", "#version: 0.2\nĠ y\no u\nĠy ou\n".encode())
write("broken/vocab.json", json.dumps(vocabulary, ensure_ascii=False).encode()[:-40])
# Settings that are whole numbers are none: too few, or the same again and again.
write("other/config.json", json.dumps({"size.%d" % i: i for i in range(30)}).encode())
write("other/counts.json", json.dumps({"w%d" % i: i % 7 for i in range(300)}).encode())
