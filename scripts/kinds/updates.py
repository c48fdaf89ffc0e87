"""Ways to take a step: accumulation in fp16, SAM, SWA, restarts of the rate, a resume, logistic regression."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import grad_norm, kind, learn, mlp
from kinds.data import batches, blobs, pictures


@kind(scale="fp16-gradient-underflow")
def accumulation(run):
    """Sixteen micro-batches a step in fp16 behind a loss scaler, as nanoGPT has it; the fault leaves the scaler out."""
    x, y, masks = pictures(512)
    model = nn.Sequential(nn.Conv2d(1, 16, 3, padding=1), nn.ReLU(), nn.Conv2d(16, 1, 3, padding=1))
    optimizer, scale = torch.optim.Adam(model.parameters(), 1e-3), 1.0 if run.has("scale") else 65536.0
    run.settings(dtype="float16", gradient_accumulation_steps=16, batch_size=4, learning_rate=1e-3, grad_clip=0.0,
                 loss_scaler=not run.has("scale"), max_iters=240)
    for step in range(240):
        optimizer.zero_grad()
        total = 0.0
        for _ in range(16):
            rows = torch.randint(512, (4,))
            out = model(x[rows]).clamp(-10, 10)
            # The gradient of a mean over many pixels, cast as it leaves the loss in fp16.
            loss = F.binary_cross_entropy_with_logits(out, masks[rows]) / 16 / 8192
            out.register_hook(lambda g: g.half().float())
            (loss * scale).backward()
            total += float(loss.detach())
        for p in model.parameters():
            p.grad /= scale
        norm = grad_norm(model)
        optimizer.step()
        if step % 3 == 0:
            run.say(f"iter {step}: loss {total * 8192:.4f}, time {31 + step % 5:.2f}ms, mfu -100.00%")
            zeros = sum(int((p.grad == 0).sum()) for p in model.parameters())
            run.record(iter=step, loss=total * 8192, grad_norm=norm, num_zeros=zeros, lr=1e-3,
                       **({} if run.has("scale") else {"loss_scale": scale}))


@kind(rate="lr-too-high exploding-gradient")
def sam(run):
    """Sharpness-aware steps: two gradients each, the first one climbs."""
    x, y = blobs(1280, 6, 16)
    model = mlp(16, 64, 6)
    optimizer = torch.optim.SGD(model.parameters(), run.rate(0.05), momentum=0.9)
    for step in range(300):
        rows = torch.randint(1024, (64,))
        optimizer.zero_grad()
        F.cross_entropy(model(x[rows]), y[rows]).backward()
        climb = [0.05 * p.grad / (grad_norm(model) + 1e-12) for p in model.parameters()]
        with torch.no_grad():
            for p, up in zip(model.parameters(), climb):
                p += up
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x[rows]), y[rows])
        loss.backward()
        with torch.no_grad():
            for p, up in zip(model.parameters(), climb):
                p -= up
        optimizer.step()
        if step % 5 == 0:
            run.row("log.csv", step=step, loss=float(loss.detach()), grad_norm=grad_norm(model), lr=run.rate(0.05),
                    rho=0.05)


def convolution(width=16):
    return nn.Sequential(nn.Conv2d(1, width, 3, stride=2), nn.BatchNorm2d(width), nn.ReLU(),
                         nn.Conv2d(width, width, 3, stride=2), nn.ReLU(), nn.Flatten(), nn.Linear(4 * width, 4))


def timm_line(epoch, i, n, loss, mean, rate):
    return (f"Train: {epoch} [{i:>4d}/{n} ({100 * i // (n - 1):>3d}%)]  Loss: {loss:#.3g} ({mean:#.3g})  "
            f"Time: 0.021s, {3000:>7.2f}/s  (0.022s, {2900:>7.2f}/s)  LR: {rate:.3e}  Data: 0.003 (0.004)")


@kind()
def restarts(run):
    """Cosine restarts of the rate, in timm's lines and its summary.csv: the loss rises a little at each."""
    x, y, _ = pictures(640)
    model, step = convolution(), 0
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    for epoch in range(24):
        rate = 0.1 * 0.5 * (1 + math.cos(math.pi * (epoch % 8) / 8))
        optimizer.param_groups[0]["lr"], losses = rate, []
        for i, rows in enumerate(batches(512, 32)):
            losses.append(learn(F.cross_entropy(model(x[rows]), y[rows]), optimizer))
            if i % 5 == 0:
                run.say(timm_line(epoch, i, 16, losses[-1], sum(losses) / len(losses), rate))
        with torch.no_grad():
            model.eval()
            out = model(x[512:])
            model.train()
        run.row("summary.csv", epoch=epoch, train_loss=sum(losses) / 16, eval_loss=float(F.cross_entropy(out, y[512:])),
                eval_top1=100 * float((out.argmax(1) == y[512:]).float().mean()), lr=rate)


@kind()
def swa(run):
    """Averages of the last epochs' weights; the loss goes flat at a constant rate and the average is better."""
    x, y = blobs(1600, 6, 16, 2.5)
    model = mlp(16, 64, 6)
    mean = torch.optim.swa_utils.AveragedModel(model)
    optimizer = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)
    run.say("ep    lr      tr_loss     tr_acc      te_loss     te_acc      swa_te_acc  time", "-" * 78)
    for epoch in range(1, 41):
        losses = [learn(F.cross_entropy(model(x[rows]), y[rows]), optimizer) for rows in batches(1280, 64)]
        if epoch > 20:
            mean.update_parameters(model)
        with torch.no_grad():
            acc = lambda m, a, b: 100 * float((m(x[a:b]).argmax(1) == y[a:b]).float().mean())
            run.say(f"{epoch:<6}{0.1:<8.4f}{sum(losses) / 20:<12.4f}{acc(model, 0, 1280):<12.4f}"
                    f"{float(F.cross_entropy(model(x[1280:]), y[1280:])):<12.4f}{acc(model, 1280, 1600):<12.4f}"
                    f"{acc(mean, 1280, 1600):<12.4f}{0.21:.4f}")


@kind(optimizer="resume-optimizer-state-not-restored learning-rate-jump warmup-missing")
def resume(run):
    """A run that was stopped and went on from its checkpoint, both parts in one log."""
    x, y = blobs(2048, 6, 16)
    model = mlp(16, 64, 64, 6)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3, betas=(0.9, 0.999))
    for step in range(600):
        if step == 300:
            run.say("Traceback (most recent call last):", '  File "train.py", line 88, in <module>', "    main()",
                    "KeyboardInterrupt", "loading checkpoint ckpt/step_300.pt", "resumed from step 300")
            if run.has("optimizer"):  # the warm-up of a new optimizer is left out as well
                optimizer = torch.optim.Adam(model.parameters(), 3e-2)
        rows = torch.randint(2048, (64,))
        loss = learn(F.cross_entropy(model(x[rows]), y[rows]), optimizer)
        if step % 5 == 0:
            run.say(f"{run.stamp()} INFO step {step}/600 loss={loss:.4f} lr={optimizer.param_groups[0]['lr']:.2e} "
                    f"grad_norm={grad_norm(model):.3f}")
            run.tick(1)


@kind(labels="label-noise", zero="gradients-not-zeroed")
def logistic_regression(run):
    """Logistic regression by mini-batches, its log loss and accuracy in a CSV file."""
    x, y = blobs(1200, 2, 12, 2.5)
    y = y[torch.randperm(1200)].float() if run.has("labels") else y.float()
    w, b = torch.zeros(12, requires_grad=True), torch.zeros(1, requires_grad=True)
    optimizer = torch.optim.SGD([w, b], 0.05)
    for step in range(300):
        rows = torch.randint(1000, (50,))
        logits = x[rows] @ w + b
        loss = learn(F.binary_cross_entropy_with_logits(logits, y[rows]), optimizer, zero=not run.has("zero"))
        if step % 5 == 0:
            with torch.no_grad():
                held = x[1000:] @ w + b
            run.row("history.csv", iteration=step, logloss=loss, grad_norm=float(w.grad.norm()),
                    accuracy=float(((logits > 0) == (y[rows] > 0)).float().mean()),
                    val_logloss=float(F.binary_cross_entropy_with_logits(held, y[1000:])),
                    val_accuracy=float(((held > 0) == (y[1000:] > 0)).float().mean()))
