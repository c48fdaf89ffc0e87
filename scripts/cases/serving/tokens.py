"""Byte pair encoding as small as it goes, with special tokens."""

import collections
import re

PIECES = re.compile(r" ?[A-Za-z]+| ?[0-9]| ?[^A-Za-z0-9\s]|\s+(?!\S)|\s")


class Tokenizer:
    """Ids 0 to len(special) - 1 are special, 256 bytes follow, then merges."""

    def __init__(self, special, merges):
        self.special, self.merges = list(special), list(merges)
        self.bytes = [None] * len(special) + [bytes([b]) for b in range(256)]
        self.ranks = {}
        for a, b in self.merges:
            self.ranks[a, b] = len(self.bytes)
            self.bytes.append(self.bytes[a] + self.bytes[b])
        self.split = re.compile(
            "(" + "|".join(re.escape(s) for s in special) + ")")
        self.known = {}

    @classmethod
    def train(cls, text, special, size):
        base = len(special)
        counts = collections.Counter(PIECES.findall(text))
        parts = {p: [base + b for b in p.encode()] for p in counts}
        merges = []
        while base + 256 + len(merges) < size:
            pairs = collections.Counter()
            for piece, ids in parts.items():
                for pair in zip(ids, ids[1:]):
                    pairs[pair] += counts[piece]
            best = max(pairs, key=lambda p: (pairs[p], p))
            new = base + 256 + len(merges)
            merges.append(best)
            for piece, ids in parts.items():
                parts[piece] = merged(ids, best, new)
        return cls(special, merges)

    def __len__(self):
        return len(self.bytes)

    def id_of(self, marker):
        return self.special.index(marker)

    def piece(self, text):
        if text not in self.known:
            ids = [len(self.special) + b for b in text.encode()]
            while len(ids) > 1:
                new, pair = min((self.ranks.get(p, 1 << 30), p)
                                for p in zip(ids, ids[1:]))
                if new == 1 << 30:
                    break
                ids = merged(ids, pair, new)
            self.known[text] = ids
        return self.known[text]

    def encode(self, text):
        ids = []
        for part in self.split.split(text):
            if part in self.special:
                ids.append(self.id_of(part))
            else:
                for piece in PIECES.findall(part):
                    ids += self.piece(piece)
        return ids

    def text(self, token):
        """Of one token; half a character is U+FFFD, as servers have it."""
        raw = self.bytes[token]
        return self.special[token] if raw is None else raw.decode(
            errors="replace")

    def decode(self, ids, show_special=False):
        out, raw = "", b""
        for i in ids:
            if self.bytes[i] is not None:
                raw += self.bytes[i]
                continue
            out += raw.decode(errors="replace")
            raw = b""
            if show_special:
                out += self.special[i]
        return out + raw.decode(errors="replace")


def merged(ids, pair, new):
    out, i = [], 0
    while i < len(ids):
        if i + 1 < len(ids) and (ids[i], ids[i + 1]) == pair:
            out.append(new)
            i += 2
        else:
            out.append(ids[i])
            i += 1
    return out
