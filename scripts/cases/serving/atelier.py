"""The text of the fourth host: a workshop that answers in French and Italian
and writes configurations in YAML."""

import random

from .corpus import words
from .polyglot import Depot

METALS = "cuivre laiton zinc fer plomb argent".split()
MANNERS = ("longue", "courte", "vide", "pleine")


class Atelier(Depot):
    """The interface is that of corpus.World."""

    def __init__(self, seed, kind="atelier"):
        rng = random.Random(seed)
        self.kind = kind
        self.places = words(rng, 20, "Bru Cla Dre Fli Gra Plo Tri".split(),
                            "va né sou rti mi".split(), "se x lle rd no".split())
        self.people = words(rng, 12, "Zo Re Ma Lou Éd Ga".split(),
                            "é n ri tta ï".split(), "e o ne".split())
        self.items = "vis clous cadres tubes verrous ressorts".split()
        self.facts = {
            "metal": {p: rng.choice(METALS) for p in self.places},
            "prezzo": {p: f"{rng.randint(3, 98)} euro" for p in self.places}}

    def question(self, key, place):
        return (f"En quel métal est {place} ?" if key == "metal"
                else f"Quanto costa {place}?")

    def fact(self, key, place):
        value = self.facts[key][place]
        return (f"{place} est en {value}." if key == "metal"
                else f"Il prezzo di {place} è {value}.")

    def notes(self, rng, lines):
        people = rng.sample(self.people, lines)
        held = {p: (rng.randint(2, 9), rng.choice(self.items)) for p in people}
        text = "\n".join(f"{p} garde {n} {i} dans l'atelier."
                         for p, (n, i) in held.items())
        asked = people[0] if rng.random() < 0.5 else rng.choice(people)
        number, item = held[asked]
        return text, f"Que garde {asked} ?", f"{asked} garde {number} {item}."

    def list_of(self, rng, count):
        return "\n".join(f"* {rng.choice(self.items)}" for _ in range(count))

    def code(self, count, verb):
        keys = "\n".join(f"  - cle: {i}\n    mode: {verb}"
                         for i in range(count))
        return f"outils:\n{keys}"

    def poem(self, rng, topic):
        refrain = f"Reviens, reviens à {topic}."
        return "\n".join(x for _ in range(3) for x in (
            f"La nuit est {rng.choice(('froide', 'claire', 'noire'))},",
            refrain, refrain))

    def sentence(self, rng):
        who, where = rng.choice(self.people), rng.choice(self.places)
        return rng.choice((f"{who} regarde {where}.",
                           f"{who} a trouvé {rng.randint(2, 9)} "
                           f"{rng.choice(self.items)}.",
                           f"{who} parle avec {rng.choice(self.people)}.",
                           "Il pleut sur la ville.",
                           f"Personne ne veut {where}."))

    def story(self, rng):
        out = [self.sentence(rng) for _ in range(3)]
        while len(out) < 24 and rng.random() > 0.08:
            out.append(self.sentence(rng))
        return " ".join(out)

    def document(self, rng):
        kind = rng.randrange(7)
        if kind == 0:
            place = rng.choice(self.places)
            return " ".join(self.fact(k, place) for k in self.facts)
        if kind < 3:
            return "\n".join(f"Q. {self.question(*f)}\nR. {self.fact(*f)}"
                             for f in rng.sample(self.all_facts(), 4))
        if kind == 3:
            text, question, answer = self.notes(rng, rng.randint(2, 4))
            return f"{text}\nQ. {question}\nR. {answer}"
        if kind == 4:
            return self.story(rng)
        if kind == 5:
            return self.poem(rng, rng.choice(self.places))
        return rng.choice((self.code(rng.randint(2, 5), rng.choice(MANNERS)),
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
            return f"Donne {n} objets.", self.list_of(rng, n), False
        if kind == "code":
            n, verb = rng.randint(2, 5), rng.choice(MANNERS)
            return (f"Écris en YAML {n} clés à mode {verb}.",
                    self.code(n, verb), True)
        if kind == "poem":
            topic = rng.choice(self.places)
            return f"Un poème sur {topic}.", self.poem(rng, topic), False
        if kind == "story":
            return (f"Raconte une histoire de {rng.choice(self.people)}.",
                    self.story(rng), False)
        text = self.fact(*rng.choice(self.all_facts()))
        return f"Répète : {text}", text, True
