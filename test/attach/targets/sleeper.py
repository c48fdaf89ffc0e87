# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
"""A Python program with a thread: it counts what an injection must not cause.

Runs until SIGTERM, then prints one line and exits with 1 if a sleep ended
early, a selector was interrupted or a sum was wrong.
"""
import os, select, signal, sys, threading, time

over = threading.Event()
signal.signal(signal.SIGTERM, lambda *_: over.set())
early = wrong = rounds = 0
reads, writes = os.pipe()


def work():
    global wrong, rounds
    while not over.is_set():
        data = [[j] * 20 for j in range(500)]
        if sum(map(len, data)) != 10000:
            wrong += 1
        rounds += 1
        time.sleep(0.001)


def watch():
    global wrong
    poll = select.poll()
    poll.register(reads, select.POLLIN)
    while not over.is_set():
        if poll.poll() and os.read(reads, 1) != b"x":
            wrong += 1


for run in (work, watch):
    threading.Thread(target=run, daemon=True).start()
print("ready", flush=True)
while not over.is_set():
    begin = time.monotonic()
    time.sleep(0.02)
    if time.monotonic() - begin < 0.0199 and not over.is_set():
        early += 1
    os.write(writes, b"x")
print(f"rounds={rounds} early={early} wrong={wrong}", flush=True)
os._exit(1 if early or wrong else 0)
