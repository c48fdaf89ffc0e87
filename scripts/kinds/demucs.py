"""Demucs on sources of two kinds: its solver, its EMAs, history.json.

Some of its designs are odd and sound. The kind returns how well its run ended,
measured on what it did not train on.
"""

import contextlib
import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep


class LayerScale(nn.Module):
    def __init__(self, channels, init):
        super().__init__()
        self.scale = nn.Parameter(torch.full((channels,), init))

    def forward(self, x):
        return self.scale[:, None] * x


class DConv(nn.Module):
    def __init__(self, channels, compress=4, depth=2, init=1e-4):
        super().__init__()
        hidden = channels // compress
        self.layers = nn.ModuleList(nn.Sequential(
            nn.Conv1d(channels, hidden, 3, dilation=2 ** d, padding=2 ** d),
            nn.GroupNorm(1, hidden), nn.GELU(),
            nn.Conv1d(hidden, 2 * channels, 1),
            nn.GroupNorm(1, 2 * channels), nn.GLU(1),
            LayerScale(channels, init)) for d in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + layer(x)
        return x


class Demucs(nn.Module):
    """Version 3 without recurrence and attention."""

    def __init__(self, sources, audio_channels=1, channels=12, depth=3,
                 kernel=8, stride=4, rescale=0.1, norm_starts=2):
        super().__init__()
        self.sources, self.kernel, self.stride = sources, kernel, stride
        self.depth = depth
        self.encoder, self.decoder = nn.ModuleList(), nn.ModuleList()
        self.skip_scales = nn.ModuleList()
        inner = audio_channels
        for index in range(depth):
            norm = (lambda d: nn.GroupNorm(4, d)) if index >= norm_starts \
                else (lambda d: nn.Identity())
            self.encoder.append(nn.Sequential(
                nn.Conv1d(inner, channels, kernel, stride), norm(channels),
                nn.GELU(), DConv(channels), nn.Conv1d(channels, 2 * channels,
                                                      1),
                norm(2 * channels), nn.GLU(dim=1)))
            outer = inner if index else len(sources) * audio_channels
            self.decoder.insert(0, nn.Sequential(
                nn.Conv1d(channels, 2 * channels, 3, padding=1),
                norm(2 * channels), nn.GLU(dim=1),
                nn.ConvTranspose1d(channels, outer, kernel, stride),
                *([norm(outer), nn.GELU()] if index else [])))
            inner, channels = channels, 2 * channels
        self.lstm = None
        for sub in self.modules():
            if isinstance(sub, (nn.Conv1d, nn.ConvTranspose1d)):
                scale = (sub.weight.var().detach() / rescale) ** 0.5
                sub.weight.data /= scale
                sub.bias.data /= scale

    def valid_length(self, length):
        for _ in range(self.depth):
            length = max(1, math.ceil((length - self.kernel) / self.stride)
                         + 1)
        for _ in range(self.depth):
            length = (length - 1) * self.stride + self.kernel
        return length

    def forward(self, mix):
        mono = mix.mean(1, keepdim=True)
        mean, std = mono.mean(-1, keepdim=True), mono.std(-1, keepdim=True)
        x, length = (mix - mean) / (1e-5 + std), mix.shape[-1]
        delta = self.valid_length(length) - length
        x = F.pad(x, (delta // 2, delta - delta // 2))
        saved = []
        for encode in self.encoder:
            x = encode(x)
            saved.append(x)
        for decode in self.decoder:
            skip = saved.pop(-1)
            cut = skip.shape[-1] - x.shape[-1]
            x = decode(x + skip if not cut else
                       x[..., :skip.shape[-1]] + skip)
        x = x[..., delta // 2:delta // 2 + length] * std + mean
        return x.view(len(x), len(self.sources), -1, length)


class ModelEMA:
    """Weighed by a count, so that it begins at the first model."""

    def __init__(self, model, decay):
        self.model, self.decay, self.count, self.state = model, decay, 0, {}
        self.update()

    @torch.no_grad()
    def update(self):
        self.count = self.count * self.decay + 1
        part = 1 / self.count
        for key, now in self.model.state_dict().items():
            old = self.state.setdefault(key, torch.zeros_like(now))
            old.mul_(1 - part).add_(now, alpha=part)

    @contextlib.contextmanager
    def swap(self):
        kept = copy.deepcopy(self.model.state_dict())
        self.model.load_state_dict(self.state)
        yield
        self.model.load_state_dict(kept)

    def state_dict(self):
        return {"state": copy.deepcopy(self.state), "count": self.count}


class EMA:
    """The averager of metrics: all that came since the epoch began."""

    def __init__(self):
        self.total, self.fix = {}, {}

    def __call__(self, metrics):
        for key, value in metrics.items():
            self.total[key] = self.total.get(key, 0) + float(value)
            self.fix[key] = self.fix.get(key, 0) + 1
        return {k: v / self.fix[k] for k, v in self.total.items()}


def tracks(rows, length=256):
    """A low voice that sings and drums whose hits decay."""
    t = torch.arange(length)
    f = 0.01 + 0.04 * torch.rand(rows, 1)
    phase = 6.28 * torch.rand(rows, 1)
    voice = (6.28 * f * t + phase).sin() * (0.3 + 0.5 * torch.rand(rows, 1))
    drums, beat = torch.zeros(rows, length), torch.randint(24, 56, (rows,))
    for i in range(rows):
        since = (t + int(torch.randint(64, ()))) % int(beat[i])
        hit = 0.13 + 0.1 * float(torch.rand(()))
        drums[i] = (-since / 10.0).exp() * (6.28 * hit * since).sin()
    return torch.stack([drums, voice], 1)[:, :, None]


def new_sdr(true, said):
    num = true.square().sum((2, 3)) + 1e-7
    return 10 * (num / ((true - said).square().sum((2, 3)) + 1e-7)).log10()


@kind(ema="", mse="", weights="",
      rate="lr-too-high exploding-gradient",
      remix="label-pairing-mismatch label-noise",
      init="bad-initialization exploding-gradient",
      zero="gradients-not-zeroed")
def demucs(run):
    """Demucs parts drums from voice; the solver leaves its usual files.

    Odd and sound: `ema` validates averages of batches and epochs too and keeps
    the best of them, `mse` shows a loss far below its reco (a root), `weights`
    gives one source the weight 0, as a fine-tuned bag has it, so that its reco
    goes nowhere.
    """
    sources, epochs, per, size = ["drums", "vocals"], 12, 12, 8
    weights = [0.0, 1.0] if run.has("weights") else [1.0, 1.0]
    loss_name, lr = ("mse", 1.2e-2) if run.has("mse") else ("l1", 6e-3)
    key = "nsdr" if run.has("ema") else "loss"
    emas = {"batch": [0.7, 0.9] if run.has("ema") else [],
            "epoch": [0.5] if run.has("ema") else []}
    args = {
        "seed": 42, "epochs": epochs, "batch_size": size, "model": "demucs",
        "max_batches": None, "weights": weights, "save_every": 6,
        "dset": {"samplerate": 8000, "shift": 1, "train_valid": False,
                 "sources": sources},
        "optim": {"lr": lr, "momentum": 0.9, "beta2": 0.999,
                  "optim": "adam", "loss": loss_name, "weight_decay": 0,
                  "clip_grad": 0},
        "ema": emas, "augment": {"shift_same": False, "flip": True,
                                 "remix": {"proba": 1, "group_size": 4}},
        "test": {"every": 4, "metric": key, "best": True, "sdr": True},
        "quant": {"diffq": None, "qat": None}, "svd": {"penalty": 0},
        "demucs": {"channels": 12, "growth": 2, "depth": 3, "rescale": 0.1,
                   "norm_starts": 2, "dconv_mode": 1, "dconv_init": 1e-4}}
    run.write("args.json", args)
    model = Demucs(sources)
    if run.has("init"):  # a second rescale, by what is no variance
        with torch.no_grad():
            for sub in model.modules():
                if isinstance(sub, (nn.Conv1d, nn.ConvTranspose1d)):
                    sub.weight.mul_(4.0)
                    sub.bias.mul_(4.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=run.rate(lr),
                                 betas=(0.9, 0.999))
    data, valid, tests = tracks(size * per), tracks(32), tracks(32)
    held = {k: [ModelEMA(model, d) for d in ds] for k, ds in emas.items()}
    history, best_state, best_loss = [], None, None

    def log(text, where="demucs.solver", bold=False):
        if bold:
            text = f"\033[1m{text}\033[0m"
        run.say(f"[{run.stamp('%m-%d %H:%M:%S')}][{where}][INFO] - {text}",
                file="solver.log.0")

    def shown(metrics):
        forms = dict(loss=".4f", reco=".4f", nsdr=".3f", grad=".4f",
                     best=".4f", bname="")
        return " | ".join(f"{k.capitalize()}={format(metrics[k], f)}"
                          for k, f in forms.items() if k in metrics)

    def losses_of(said, true):
        if loss_name == "mse":
            loss = F.mse_loss(said, true, reduction="none").mean((2, 3))
            reco = (loss ** 0.5).mean(0)
            loss = loss.mean(0)
        else:
            loss = reco = F.l1_loss(said, true, reduction="none") \
                .mean((2, 3)).mean(0)
        part = torch.tensor(weights)
        mean = lambda v: (v * part).sum() / part.sum()
        return mean(loss), mean(reco), reco, mean

    def one_epoch(epoch, train=True):
        name = f"{'Train' if train else 'Valid'} | Epoch {epoch + 1}"
        source = data[torch.randperm(len(data))] if train else valid
        averager, n = EMA(), len(source) // size
        for i, true in enumerate(source.split(size)):
            if train:
                mix = true.sum(1)
                true = true * (torch.randint(2, (size, 2, 1, 1)) * 2 - 1)
                order = torch.stack([torch.randperm(size) for _ in sources],
                                    1)
                true = true.gather(0, order[:, :, None, None]
                                   .expand_as(true))
                if not run.has("remix"):  # the mix is of what was remixed
                    mix = true.sum(1)
            else:
                mix = true.sum(1)
            said = model(mix)
            loss, reco, recos, mean = losses_of(said, true)
            row = {"reco": reco, "ms": 0}
            if not train:
                nsdrs = new_sdr(true, said).mean(0)
                row |= {f"nsdr_{s}": v for s, v in zip(sources, nsdrs)}
                row["nsdr"] = mean(nsdrs)
            row["loss"] = loss
            row |= {f"reco_{s}": v for s, v in zip(sources, recos)}
            if train:
                loss.backward()
                row["grad"] = sum(p.grad.norm() ** 2
                                  for p in model.parameters()) ** 0.5
                optimizer.step()
                if not run.has("zero"):
                    optimizer.zero_grad()
                for ema in held["batch"]:
                    ema.update()
            metrics = averager({k: v.detach() if torch.is_tensor(v) else v
                                for k, v in row.items()})
            run.tick(0.12)
            if train and (i + 1) % 6 == 0:
                told = shown(metrics).replace("=", " ")
                log(f"{name} | {i + 1}/{n} | 8.3 it/sec | {told}")
        if train:
            for ema in held["epoch"]:
                ema.update()
        return metrics

    def save(epoch):
        package = {"state": model.state_dict(),
                   "optimizer": optimizer.state_dict(),
                   "history": history, "best_state": best_state,
                   "args": args}
        for k, those in held.items():
            for i, ema in enumerate(those):
                package[f"ema_{k}_{i}"] = ema.state_dict()
        keep(run, "checkpoint.th", package)
        if epoch in (0, epochs // 2):
            keep(run, f"checkpoint_{epoch}.th", package)

    def evaluate(state):
        kept = copy.deepcopy(model.state_dict())
        model.load_state_dict(state)
        with torch.no_grad():
            nsdrs = new_sdr(tests, model(tests.sum(1))).median(0).values
        model.load_state_dict(kept)
        out = {f"nsdr_{s}": v.item() for s, v in zip(sources, nsdrs)}
        return {"nsdr": sum(out.values()) / len(out), **out}

    log("For logs, checkpoints and samples check /outputs/xps/97d170e1",
        "__main__")
    log(f"Model hash: 97d170e1, {sum(p.numel() for p in model.parameters())}"
        " parameters", "__main__")
    save(0)
    for epoch in range(epochs):
        metrics = {}
        log("-" * 70)
        log("Training...")
        model.train()
        metrics["train"] = one_epoch(epoch)
        log(f"Train Summary | Epoch {epoch + 1} | {shown(metrics['train'])}",
            bold=True)
        log("-" * 70)
        log("Cross validation...")
        model.eval()
        with torch.no_grad():
            now = one_epoch(epoch, False)
            metrics["valid"] = {"main": now}
            best, name, state = now, "main", copy.deepcopy(model.state_dict())
            for k, those in held.items():
                for i, ema in enumerate(those):
                    with ema.swap():
                        now = one_epoch(epoch, False)
                    metrics["valid"][f"ema_{k}_{i}"] = now
                    better = now[key] > best[key] if key == "nsdr" else \
                        now[key] < best[key]
                    if better:
                        best, name = now, f"ema_{k}_{i}"
                        state = copy.deepcopy(ema.state)
        metrics["valid"].update(best)
        metrics["valid"]["bname"] = name
        found = best[key]
        best_loss = found if best_loss is None else \
            (max if key == "nsdr" else min)(best_loss, found)
        metrics["valid"]["best"] = best_loss
        log(f"Valid Summary | Epoch {epoch + 1} | {shown(metrics['valid'])}",
            bold=True)
        if found == best_loss or best_state is None:
            log(f"New best valid loss {best_loss:.4f}", bold=True)
            best_state = state
            keep(run, "best.th", {"klass": "Demucs", "args": [sources],
                                  "kwargs": args["demucs"], "state": state,
                                  "training_args": args})
        if (epoch + 1) % 4 == 0:
            log("-" * 70)
            log("Evaluating on the test set...")
            metrics["test"] = evaluate(best_state)
            told = " | ".join(f"{k.capitalize()}={v:.3f}"
                              for k, v in metrics["test"].items())
            log(f"Test Summary | Epoch {epoch + 1} | {told}", bold=True)
        history.append(metrics)
        run.write("history.json", history)
        save(epoch + 1)
    end = evaluate(best_state)
    return {k: round(v, 2) for k, v in end.items()}
