"""The text that the tiny chat models learn, and questions with known answers.

Invented places and people, so that nothing but this text can have taught an
answer. A document is what a base model sees (facts, question lists, poems,
stories, code); a dialogue is one question with its answer.
"""

import random

NUMBERS = ("one two three four five six seven eight nine ten eleven "
           "twelve").split()
VERBS = "clears fills counts doubles sorts prints".split()


def words(rng, count, starts, middles, ends):
    """Invented names, all different."""
    found = []
    while len(found) < count:
        name = rng.choice(starts) + rng.choice(middles) + rng.choice(ends)
        if name not in found:
            found.append(name)
    return found


class World:
    """What is true for one host: its names and facts come of its seed."""

    def __init__(self, seed, kind):
        rng = random.Random(seed)
        self.kind = kind
        places = words(rng, 28, "Ar Bel Cor Dun El Fal Gor Hel Is Jor Kel Lor "
                       "Mar Nor Or".split(), "a e i o ta ri lo ne".split(),
                       "len mia dor vik sa rth nia stan".split())
        things = words(rng, 56, "T S R V N K P M L D".split(),
                       "ov en ir ul as om ek".split(),
                       "ik a en or is um et".split())
        self.places = places
        self.people = words(rng, 14, "Mi Ol Ta Ri Jo Sa Ne Lu".split(),
                            "r l n d v".split(), "a an en i o".split())
        if kind == "atlas":
            self.facts = {
                "capital": dict(zip(places, things)),
                "river": dict(zip(places, things[28:])),
                "food": {p: rng.choice("rice bread fish soup beans cheese "
                                       "apples".split()) for p in places}}
            self.items = ("pears stones boats lamps coins books keys "
                          "ropes").split()
        else:
            self.facts = {
                "engine": dict(zip(places, things)),
                "harbour": dict(zip(places, things[28:])),
                "colour": {p: rng.choice("red blue green white black grey "
                                         "yellow".split()) for p in places}}
            self.items = ("bolts nails wheels tanks crates pipes valves "
                          "drums").split()

    # One way to say each thing; chat answers are those of the documents.

    def fact(self, key, place):
        return f"The {key} of {place} is {self.facts[key][place]}."

    def question(self, key, place):
        return f"What is the {key} of {place}?"

    def all_facts(self):
        return [(key, place) for key in self.facts for place in self.places]

    def notes(self, rng, lines):
        """(notes, question, answer): the answer stands only in the notes."""
        people = rng.sample(self.people, lines)
        held = {p: (rng.choice(NUMBERS), rng.choice(self.items))
                for p in people}
        text = "\n".join(f"{p} has {n} {i} in the house."
                         for p, (n, i) in held.items())
        asked = people[0] if rng.random() < 0.5 else rng.choice(people)
        number, item = held[asked]
        return text, f"What does {asked} have?", f"{asked} has {number} {item}."

    def list_of(self, rng, count):
        return "\n".join(f"{i + 1}. {rng.choice(self.items)}"
                         for i in range(count))

    def code(self, count, verb):
        value = {"clears": "0", "fills": "1", "counts": "n", "doubles": "2 * x",
                 "sorts": "y", "prints": "z"}[verb]
        return "\n".join([f"def {verb}(x):"]
                         + [f"    x[{i}] = {value}" for i in range(count)]
                         + ["    return x"])

    def poem(self, rng, topic):
        refrain = f"Come home, come home, to {topic}."
        lines = []
        for _ in range(3):
            lines += [f"The {rng.choice(self.items)} sleep and the wind is "
                      f"{rng.choice(('cold', 'old', 'high', 'low'))},",
                      refrain, refrain]
        return "\n".join(lines)

    def sentence(self, rng):
        who, where = rng.choice(self.people), rng.choice(self.places)
        return rng.choice((
            f"{who} went to {where}.", f"{who} found {rng.choice(NUMBERS)} "
            f"{rng.choice(self.items)}.", f"{who} met {rng.choice(self.people)}"
            f" in {where}.", f"Then it rained in {where}.",
            f"{who} gave the {rng.choice(self.items)} away.",
            f"Nobody in {where} was glad."))

    def story(self, rng):
        out = [self.sentence(rng) for _ in range(2)]
        while len(out) < 24 and rng.random() > 0.1:
            out.append(self.sentence(rng))
        return " ".join(out)

    def document(self, rng):
        kind = rng.randrange(8)
        if kind < 2:
            place = rng.choice(self.places)
            return " ".join(self.fact(k, place) for k in self.facts)
        if kind < 4:  # a list of questions, as websites have them
            asked = rng.sample(self.all_facts(), 5)
            return "\n".join(f"Question: {self.question(*f)}\n"
                             f"Answer: {self.fact(*f)}" for f in asked)
        if kind == 4:
            text, question, answer = self.notes(rng, rng.randint(2, 4))
            return f"{text}\nQuestion: {question}\nAnswer: {answer}"
        if kind == 5:
            return self.story(rng)
        if kind == 6:
            return self.poem(rng, rng.choice(self.places))
        return rng.choice((self.code(rng.randint(3, 9), rng.choice(VERBS)),
                           self.list_of(rng, rng.randint(4, 10))))

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
            n = rng.randint(4, 10)
            return f"List {n} things.", self.list_of(rng, n), False
        if kind == "code":
            n, verb = rng.randint(3, 9), rng.choice(VERBS)
            return (f"Write code that {verb} {n} cells.", self.code(n, verb),
                    True)
        if kind == "poem":
            topic = rng.choice(self.places)
            return f"Write a poem about {topic}.", self.poem(rng, topic), False
        if kind == "story":
            return (f"Tell a story about {rng.choice(self.people)}.",
                    self.story(rng), False)
        text = self.fact(*rng.choice(self.all_facts()))
        return f"Say this: {text}", text, True
