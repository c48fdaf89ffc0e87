#!/usr/bin/env python3
"""Does what a tutorial says, block by block, and compares what it shows with what happens.

usage: run-tutorial.py TUTORIAL.md SOURCE CULPRIT SCRATCH [--renew] [--with=NAME]...

The walk begins in SCRATCH/project, beside SCRATCH/culprit, which stands for a checkout: its plugins and kb are copies, its
test/cases are those of SOURCE, its test/lit/detectors holds empty folders. Blocks are fenced and say in their first line what to do:

  ```console            commands behind `$ `, each with all that it prints; a line `...` stands for any lines, and
                        `...` in a line for any part of it
  ```console status=2   the same; the last command ends with this status, all others with 0
  ```lua file=PATH      the text of a file, from the folder that the commands before have gone to
  ```diff file=PATH     lines with `-` become lines with `+`; they and those around them stand once in the file
  ```text append=PATH   text for the end of a file

A block of any other kind is an error: nothing in a tutorial goes untried. What stands between `<!-- with NAME -->` and
`<!-- end -->` is skipped unless --with=NAME is given. With --renew the output of commands is written into the tutorial; what
was left out of one that has changed is for a person to choose.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys


class Wrong(Exception):
    pass


def blocks(lines):
    """(first line of the content, end, info string, what it is with) of each fenced block."""
    start = info = needs = None
    for number, line in enumerate(lines):
        marker = re.match(r"<!-- (with (\S+)|end) -->", line)
        if start is None and marker:
            needs = marker.group(2)
        elif start is None and line.startswith("```"):
            start, info = number + 1, line[3:].strip()
        elif start is not None and line.startswith("```"):
            yield start, number, info, needs
            start = None


def agrees(shown, printed):
    """Whether the lines printed are those shown, `...` being any lines."""
    if not shown:
        return not printed
    if shown[0] == "...":
        return any(agrees(shown[1:], printed[skipped:]) for skipped in range(len(printed) + 1))
    line = ".*".join(re.escape(part) for part in shown[0].split("..."))
    return bool(printed) and re.fullmatch(line, printed[0]) is not None and agrees(shown[1:], printed[1:])


class Walk:
    def __init__(self, source, culprit, scratch):
        self.scratch = scratch
        shutil.rmtree(scratch, ignore_errors=True)
        checkout = scratch / "culprit"
        for folder in ("plugins", "kb"):
            shutil.copytree(source / folder, checkout / folder)
        for group in (source / "plugins").iterdir():
            (checkout / "test" / "lit" / "detectors" / group.name).mkdir(parents=True)
        (checkout / "test" / "cases").symlink_to(source / "test" / "cases")
        if (source.parent / "shared").is_dir():
            (scratch / "shared").symlink_to(source.parent / "shared")
        self.folder = scratch / "project"
        self.folder.mkdir()
        (scratch / "bin").mkdir()
        (scratch / "bin" / "culprit").symlink_to(culprit)
        # A project is looked for upward, and not beyond the home folder.
        self.environment = dict(os.environ, NO_COLOR="1", COLUMNS="100", TZ="UTC", LC_ALL="C", HOME=str(scratch),
                                PATH=f"{scratch / 'bin'}:{os.environ.get('PATH', os.defpath)}")
        for name in ("CULPRIT_FAKE_VERSION", "CULPRIT_HOME", "OLDPWD"):
            self.environment.pop(name, None)

    def run(self, command):
        """What `command` prints, as lines, and its status; `cd` and `export` hold for those after it."""
        state = self.scratch / "state"
        script = f"{command}\nstatus=$?\n{{ pwd; env -0; }} > {state}\nexit $status\n"
        done = subprocess.run(["bash", "-c", script], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=120, check=False)
        folder, rest = state.read_text(encoding="utf-8").split("\n", 1)
        self.folder = pathlib.Path(folder)
        self.environment = dict(pair.split("=", 1) for pair in rest.split("\0") if pair)
        lines = [line.rstrip() for line in done.stdout.replace(str(self.scratch), "~").rstrip("\n").split("\n")]
        return ([] if lines == [""] else lines), done.returncode

    def write(self, path, text):
        target = self.folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")

    def change(self, path, lines):
        target = self.folder / path
        text = target.read_text(encoding="utf-8")
        before = "".join(line[1:] + "\n" for line in lines if not line.startswith("+"))
        after = "".join(line[1:] + "\n" for line in lines if not line.startswith("-"))
        if text.count(before) != 1:
            raise Wrong(f"{path} holds the lines to change {text.count(before)} times:\n{before}")
        target.write_text(text.replace(before, after), encoding="utf-8")

    def console(self, lines, status, renew):
        """Runs the commands among `lines`; the lines as they are to be."""
        out = []
        at = 0
        while at < len(lines):
            if not lines[at].startswith("$ "):
                raise Wrong(f"output without a command: {lines[at]}")
            first = at
            while lines[at].endswith("\\"):
                at += 1
            at += 1
            command = lines[first:at]
            shown = []
            while at < len(lines) and not lines[at].startswith("$ "):
                shown.append(lines[at])
                at += 1
            while shown and not shown[-1]:
                shown.pop()
            printed, got = self.run("\n".join(command)[2:])
            if not agrees(shown, printed):
                if not renew or "..." in shown:
                    raise Wrong("$ " + "\n".join(command)[2:] + "\nprints\n  " + "\n  ".join(printed) + "\nand not\n  " +
                                "\n  ".join(shown))
                shown = printed
            wanted = status if at == len(lines) else 0
            if got != wanted:
                raise Wrong(f"{command[0]}: ends with {got} and not {wanted}\n  " + "\n  ".join(printed))
            out += command + shown
        return out

    def block(self, info, lines, renew):
        words = info.split()
        options = dict(word.split("=", 1) for word in words[1:])
        text = "".join(line + "\n" for line in lines)
        if words[:1] == ["console"]:
            return self.console(lines, int(options.get("status", 0)), renew)
        if words[:1] == ["diff"] and "file" in options:
            self.change(options["file"], lines)
        elif "file" in options:
            self.write(options["file"], text)
        elif "append" in options:
            target = self.folder / options["append"]
            self.write(options["append"], target.read_text(encoding="utf-8") + text)
        else:
            raise Wrong(f"'```{info}' does not say what to do with it")
        return lines


def main():
    sys.setrecursionlimit(10000)
    paths = [pathlib.Path(word).resolve() for word in sys.argv[1:] if not word.startswith("--")]
    flags = [word for word in sys.argv[1:] if word.startswith("--")]
    tutorial, source, culprit, scratch = paths
    lines = tutorial.read_text(encoding="utf-8").split("\n")
    walk = Walk(source, culprit, scratch)
    out, end = [], 0
    try:
        for start, stop, info, needs in list(blocks(lines)):
            out += lines[end:start]
            end = stop
            if needs and f"--with={needs}" not in flags:
                out += lines[start:stop]
                continue
            try:
                out += walk.block(info, lines[start:stop], "--renew" in flags)
            except (Wrong, subprocess.TimeoutExpired, OSError) as problem:
                out += lines[start:stop]
                sys.exit(f"{tutorial.name}:{start}: {problem}")
    finally:
        if "--renew" in flags:
            tutorial.write_text("\n".join(out + lines[end:]), encoding="utf-8")


main()
