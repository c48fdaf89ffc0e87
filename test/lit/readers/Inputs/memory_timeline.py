"""Writes memory timelines: long.json and many.json of either form, a short one, and one with events that are none.

usage: memory_timeline.py FOLDER
"""

import json
import pathlib
import sys

START = 1696966047096061874  # ns


def events(pairs):
    """Each pair takes memory and gives it back."""
    for i in range(pairs):
        yield [START + 14 * i, 2, 512 + i, i % 8]
        yield [START + 14 * i + 7, 4, -512 - i, i % 8]


def main():
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    times = [START // 1000 + 3 * i for i in range(5000)]
    sizes = [[0, i + 1, 0, 0, 0, 0, 0, 0, 0] for i in range(5000)]
    folder.joinpath("long.json").write_text(json.dumps([times, sizes]))
    folder.joinpath("many.json").write_text(json.dumps(list(events(100_000))))
    short = json.dumps([[-1, 1, 4096, 0]] + list(events(200)))
    folder.joinpath("short.json").write_text(short)
    # 401 good ones, 11 that are no events, a good one.
    good = [START + 3000, 2, 700, 0]
    odd = ["99999999999999999999999999, 0", "1.5, 0", "NaN, 0", '"700", 0', "[700], 0", "700, 0, 0", "700", "700, 8",
           "1125899906842625, 0", "-700, 0"]
    odd = [f"[{START}, 2, {end}]" for end in odd] + [f"[{START}, 9, 700, 0]"]
    folder.joinpath("odd.json").write_text(f"{short[:-1]}, {', '.join(odd)}, {json.dumps(good)}]")


main()
