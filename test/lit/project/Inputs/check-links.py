"""Checks that every link of the markdown pages of a folder leads to a file and, where it has an anchor, to a heading of it.

usage: check-links.py FOLDER
"""

import collections
import pathlib
import re
import sys


def without_code(text):
    return re.sub(r"``.*?``|`[^`\n]*`", "", re.sub(r"^(```|~~~).*?^\1", "", text, flags=re.M | re.S))


def anchors(path, known={}):
    """The anchors of the headings of `path`, as GitHub makes them."""
    if path not in known:
        text = re.sub(r"^(```|~~~).*?^\1", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
        counts, known[path] = collections.Counter(), set()
        for heading in re.findall(r"^#+ +(.*?)\s*#*$", text, flags=re.M):
            plain = re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading)
            anchor = re.sub(r"[^\w\- ]", "", plain.lower()).replace(" ", "-")
            known[path].add(anchor + (f"-{counts[anchor]}" if counts[anchor] else ""))
            counts[anchor] += 1
    return known[path]


def main():
    folder, broken, seen = pathlib.Path(sys.argv[1]).resolve(), 0, 0
    for page in sorted(folder.glob("*.md")):
        text = without_code(page.read_text(encoding="utf-8"))
        links = re.findall(r"\]\(([^()\s]+)\)", text) + re.findall(r"^\[\d+\]: (\S+)", text, flags=re.M)
        numbers = set(re.findall(r"^\[(\d+)\]: ", text, flags=re.M))
        for number in set(re.findall(r"\]\[(\d+)\]", text)) - numbers:
            broken += 1
            print(f"{page.name}: nothing defines [{number}]")
        for link in sorted(set(links)):
            if "://" in link:
                continue
            seen += 1
            name, _, anchor = link.partition("#")
            target = (page.parent / name).resolve() if name else page
            if not target.is_file() or (anchor and anchor not in anchors(target)):
                broken += 1
                print(f"{page.name}: {link} leads nowhere")
    print(f"{seen} links, {broken} broken")
    sys.exit(broken != 0 or not seen)


main()
