"""What scripts/benchmark/excerpts.py says of a set with one mistake of each kind.

usage: wrong-excerpts.py SCRIPTS_FOLDER
"""

import pathlib
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, sys.argv[1])

from benchmark import excerpts

KB = pathlib.Path("kb")
KB.mkdir(exist_ok=True)
(KB / "classes.tsv").write_text("layer\tclass\tdefinition\ntooling\tdisk-full\ta disk is full\n")
(KB / "tooling.md").write_text("**References**: https://example.org/r/issues/3, https://example.org/r/issues/33\n")


def one(name, number, **changes):
    return {"id": name, "set": "dev", "log": "full\n", "class": "disk-full", "also": [],
            "url": f"https://example.org/r/issues/{number}", "why": "It was full.", **changes}


SET = [one("Twice", 1), one("a-2", 1, url="https://example.org/r/pull/1#c2"), one("a-3", 3),
       one("a-4", 4, set="train", **{"class": "gremlins"}), one("a-5", 5, log="line\n" * 13), {"id": "a-6"},
       one("a-7", 7, log="/home/anna/train.py: no answer of 192.168.3.4, driver 570.158.01.2.3\n", **{"class": None}),
       one("a-8", 8, log="C:\\Users\\user\\a.py, /home/user/a.py: 10.0.0.1, 127.0.0.1\n", **{"class": None})]
print("\n".join(excerpts.problems(SET, KB)))
