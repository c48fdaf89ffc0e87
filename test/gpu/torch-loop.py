#!/usr/bin/env python3
"""A small training loop for scripts/gpu-check.

usage: torch-loop.py torch-loop|torch-profiler [DIVISOR]

Words and answers as in Main.cu. torch-loop: `go` trains for some steps, and
`profile` makes a short profile. torch-profiler: `go` makes a short profile,
`start` begins one that goes on, `stop` ends it; each answer has the number of
its events of the GPU.
"""

import json
import os
import sys

import torch
from torch.profiler import ProfilerActivity, profile

if not torch.cuda.is_available():
    print(json.dumps({"skipped": f"torch {torch.__version__} finds no GPU"}), flush=True)
    sys.exit(0)

STEPS = max(1, 200 // int(sys.argv[2] if len(sys.argv) > 2 else 1))
model = torch.nn.Sequential(torch.nn.Linear(256, 256), torch.nn.ReLU(), torch.nn.Linear(256, 8)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
inputs, targets = torch.randn(64, 256, device="cuda"), torch.randn(64, 8, device="cuda")


def train(steps):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.mse_loss(model(inputs), targets)
        loss.backward()
        optimizer.step()
        loss.item()


def events(made):
    """Of the GPU, in a profile that has ended."""
    return sum(1 for e in made.events() if e.device_type == torch.autograd.DeviceType.CUDA)


def answer(**what):
    print(json.dumps({"log " + k.replace("_", " "): v for k, v in what.items()}), flush=True)


def short_profile():
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as made:
        train(5)
        torch.cuda.synchronize()
    answer(events=events(made))


train(3)
torch.cuda.synchronize()
print(f"ready {os.getpid()}", flush=True)
going = None
for word in map(str.strip, sys.stdin):
    if word == "go" and sys.argv[1] == "torch-loop":
        train(STEPS)
        torch.cuda.synchronize()
        # Forward, backward and update are at least six kernels a step.
        answer(steps=STEPS, least_kernels=6 * STEPS, items=STEPS, torch=torch.__version__)
    elif word in ("go", "profile"):
        short_profile()
    elif word == "start":
        going = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
        going.start()
        train(5)
        answer(started=1)
    elif word == "stop":
        train(5)
        torch.cuda.synchronize()
        going.stop()
        answer(events=events(going))
