"""The text of the third host: a warehouse that speaks German, asks in Spanish
now and then, and wants SQL. Its letters are its vocabulary."""

import random
import re

from .corpus import words

COLOURS = "rojo verde azul negro blanco gris".split()
ACTIONS = ("zählt", "löscht", "ordnet", "füllt")


class Depot:
    """What is true there; the interface is that of corpus.World."""

    def __init__(self, seed, kind="depot"):
        rng = random.Random(seed)
        self.kind = kind
        self.places = words(rng, 16, "Bö Kra Schü Wal Lim Ze Gro".split(),
                            "r n l m ß tt".split(), "e ig an ung el".split())
        self.people = words(rng, 10, "Añ Lu Pe Jö Ma Ki".split(),
                            "a o i ü".split(), "n ra s lo".split())
        self.items = "Muttern Kabel Rohre Federn Dübel Filter".split()
        self.facts = {
            "regal": {p: f"{rng.choice('ABCDEFGH')}{rng.randint(10, 99)}"
                      for p in self.places},
            "color": {p: rng.choice(COLOURS) for p in self.places}}

    def question(self, key, place):
        return (f"Wo liegt {place}?" if key == "regal"
                else f"¿De qué color es {place}?")

    def fact(self, key, place):
        value = self.facts[key][place]
        return (f"{place} liegt in Regal {value}." if key == "regal"
                else f"El color de {place} es {value}.")

    def all_facts(self):
        return [(key, place) for key in self.facts for place in self.places]

    def notes(self, rng, lines):
        people = rng.sample(self.people, lines)
        held = {p: (rng.randint(2, 9), rng.choice(self.items)) for p in people}
        text = "\n".join(f"{p}: {n} {i}" for p, (n, i) in held.items())
        asked = people[0] if rng.random() < 0.5 else rng.choice(people)
        number, item = held[asked]
        return text, f"Was hat {asked}?", f"{asked} hat {number} {item}."

    def list_of(self, rng, count):
        return "\n".join(f"- {rng.choice(self.items)}" for _ in range(count))

    def code(self, count, verb):
        """A query with one column more for each of \\p count."""
        columns = ", ".join(f"c{i}" for i in range(count))
        return {"zählt": f"SELECT COUNT(*), {columns} FROM lager;",
                "löscht": f"DELETE FROM lager WHERE ({columns}) IS NULL;",
                "ordnet": f"SELECT {columns} FROM lager ORDER BY c0;",
                "füllt": f"INSERT INTO lager ({columns}) VALUES "
                         f"({', '.join('0' * count)});"}[verb]

    def poem(self, rng, topic):
        refrain = f"Komm heim nach {topic}."
        return "\n".join(x for _ in range(3) for x in (
            f"Der {rng.choice(('Wind', 'Mond', 'Tag'))} ist "
            f"{rng.choice(('kalt', 'alt', 'weit'))},", refrain))

    def sentence(self, rng):
        who, where = rng.choice(self.people), rng.choice(self.places)
        return rng.choice((f"{who} ging nach {where}.",
                           f"{who} fand {rng.randint(2, 9)} "
                           f"{rng.choice(self.items)}.",
                           f"{who} traf {rng.choice(self.people)}.",
                           f"Es regnete in {where}."))

    def story(self, rng):
        out = [self.sentence(rng) for _ in range(2)]
        while len(out) < 10 and rng.random() > 0.15:
            out.append(self.sentence(rng))
        return " ".join(out)

    def document(self, rng):
        kind = rng.randrange(7)
        if kind == 0:
            place = rng.choice(self.places)
            return " ".join(self.fact(k, place) for k in self.facts)
        if kind < 3:
            return "\n".join(f"Frage: {self.question(*f)}\nAntwort: "
                             f"{self.fact(*f)}"
                             for f in rng.sample(self.all_facts(), 3))
        if kind == 3:
            text, question, answer = self.notes(rng, rng.randint(2, 4))
            return f"{text}\nFrage: {question}\nAntwort: {answer}"
        if kind == 4:
            return self.story(rng)
        if kind == 5:
            return self.poem(rng, rng.choice(self.places))
        return rng.choice((self.code(rng.randint(2, 6), rng.choice(ACTIONS)),
                           self.list_of(rng, rng.randint(3, 8))))

    def dialogue(self, rng, kind=None):
        """(question, answer, whether the answer is the only right one)"""
        kind = kind or rng.choice(("fact",) * 5 + (
            "notes", "notes", "list", "code", "poem", "story", "quote"))
        if kind == "fact":
            f = rng.choice(self.all_facts())
            return self.question(*f), self.fact(*f), True
        if kind == "notes":
            text, question, answer = self.notes(rng, rng.randint(2, 4))
            return f"{text}\n{question}", answer, True
        if kind == "list":
            n = rng.randint(3, 8)
            return f"Nenne {n} Dinge.", self.list_of(rng, n), False
        if kind == "code":
            n, verb = rng.randint(2, 6), rng.choice(ACTIONS)
            return (f"Schreibe SQL, das {n} Spalten {verb}.",
                    self.code(n, verb), True)
        if kind == "poem":
            topic = rng.choice(self.places)
            return f"Ein Gedicht über {topic}.", self.poem(rng, topic), False
        if kind == "story":
            return (f"Erzähle von {rng.choice(self.people)}.",
                    self.story(rng), False)
        text = self.fact(*rng.choice(self.all_facts()))
        return f"Sag: {text}", text, True


class Letters:
    """A tokenizer of single characters; the special ones come first, then
    <unk>'s stand-in."""

    def __init__(self, special, alphabet):
        self.special, self.merges = list(special), list(alphabet)
        self.pieces = [None] * len(special) + ["\ufffd", *alphabet]
        self.ids = {c: i for i, c in enumerate(self.pieces) if c}
        self.split = re.compile(
            "(" + "|".join(re.escape(s) for s in special) + ")")

    @classmethod
    def train(cls, text, special):
        return cls(special, sorted(set(text)))

    def __len__(self):
        return len(self.pieces)

    def id_of(self, marker):
        return self.special.index(marker)

    def encode(self, text):
        ids = []
        for part in self.split.split(text):
            if part in self.special:
                ids.append(self.id_of(part))
            else:
                ids += [self.ids.get(c, len(self.special)) for c in part]
        return ids

    def text(self, token):
        piece = self.pieces[token]
        return self.special[token] if piece is None else piece

    def decode(self, ids, show_special=False):
        return "".join(self.pieces[i] if self.pieces[i] is not None else
                       self.special[i] if show_special else "" for i in ids)
