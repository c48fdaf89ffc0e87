"""A transducer of icefall: pruned and simple loss, ScaledAdam.

Some of its designs are odd and sound. The kind returns how well its run ended,
measured on what it did not train on.
"""

import copy
import math
import random

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, place, watch


class BasicNorm(nn.Module):
    """The norm of icefall: no mean, no weight, one eps that is learned."""

    def __init__(self):
        super().__init__()
        self.eps = nn.Parameter(torch.tensor(0.25).log())

    def forward(self, x):
        size = (x ** 2).mean(-1, keepdim=True) + self.eps.exp()
        return x * size ** -0.5


class FeedforwardModule(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.in_proj = nn.Linear(dim, 2 * dim)
        self.out_proj = nn.Linear(2 * dim, dim)
        with torch.no_grad():  # ScaledLinear(initial_scale=0.1)
            self.out_proj.weight.mul_(0.1)
            self.out_proj.bias.mul_(0.1)

    def forward(self, x):
        x = self.in_proj(x)
        return self.out_proj(x * torch.sigmoid(x - 1))


class ConvolutionModule(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.pointwise_conv1 = nn.Conv1d(dim, 2 * dim, 1)
        self.depthwise_conv = nn.Conv1d(dim, dim, 3, padding=1, groups=dim)
        self.pointwise_conv2 = nn.Conv1d(dim, dim, 1)

    def forward(self, x):
        x = F.glu(self.pointwise_conv1(x.transpose(1, 2)), 1)
        x = self.depthwise_conv(x)
        return self.pointwise_conv2(x * torch.sigmoid(x - 1)).transpose(1, 2)


class ZipformerEncoderLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.feed_forward1 = FeedforwardModule(dim)
        self.conv_module1 = ConvolutionModule(dim)
        self.feed_forward2 = FeedforwardModule(dim)
        self.norm_final = BasicNorm()
        self.bypass_scale = nn.Parameter(torch.tensor(0.5))

    def forward(self, x):
        begin = x
        x = x + self.feed_forward1(x)
        x = x + self.conv_module1(x)
        x = self.norm_final(x + self.feed_forward2(x))
        return begin + (x - begin) * self.bypass_scale


class Conv2dSubsampling(nn.Module):
    def __init__(self, features, dim):
        super().__init__()
        self.conv = nn.Sequential(
            nn.Conv2d(1, 4, 3, padding=1), nn.SiLU(),
            nn.Conv2d(4, 8, 3, stride=2, padding=1), nn.SiLU())
        self.out = nn.Linear(8 * (features // 2), dim)

    def forward(self, x):
        x = self.conv(x.unsqueeze(1))
        return self.out(x.transpose(1, 2).flatten(2))


class Encoder(nn.Module):
    def __init__(self, features, dim):
        super().__init__()
        self.encoder_embed = Conv2dSubsampling(features, dim)
        self.encoders = nn.ModuleList(
            ZipformerEncoderLayer(dim) for _ in range(2))

    def forward(self, x, lens):
        x = self.encoder_embed(x)
        for layer in self.encoders:
            x = layer(x)
        return x, (lens + 1) // 2


class Decoder(nn.Module):
    """Stateless: an embedding and a convolution over two tokens."""

    blank_id = 0

    def __init__(self, vocab, dim):
        super().__init__()
        self.embedding = nn.Embedding(vocab, dim, padding_idx=0)
        self.conv = nn.Conv1d(dim, dim, 2, groups=4, bias=False)

    def forward(self, y):
        x = self.embedding(y).transpose(1, 2)
        return F.relu(self.conv(F.pad(x, (1, 0))).transpose(1, 2))


class Joiner(nn.Module):
    def __init__(self, dim, vocab):
        super().__init__()
        self.encoder_proj = nn.Linear(dim, dim)
        self.decoder_proj = nn.Linear(dim, dim)
        self.output_linear = nn.Linear(dim, vocab)

    def forward(self, am, lm):
        both = self.encoder_proj(am)[:, :, None] \
            + self.decoder_proj(lm)[:, None]
        return self.output_linear(torch.tanh(both))


def rnnt_loss(logits, y, x_lens, y_lens):
    """Sum of -log p(y|x); frames one after another, symbols at once."""
    log = logits.log_softmax(-1)
    rows, frames, states, _ = log.shape
    blank = log[..., 0]
    emit = log[:, :, :-1].gather(
        3, y[:, None, :, None].expand(-1, frames, -1, 1)).squeeze(3)
    ways = F.pad(emit.cumsum(2), (1, 0))
    alpha, ends = ways[:, 0], []
    for t in range(frames):
        if t:
            come = alpha + blank[:, t - 1] - ways[:, t]
            alpha = ways[:, t] + torch.logcumsumexp(come, 1)
        ends.append(alpha + blank[:, t])
    ends = torch.stack(ends, 1)
    every = torch.arange(rows)
    return -ends[every, x_lens - 1, y_lens].sum()


class Transducer(nn.Module):
    def __init__(self, features=16, dim=24, vocab=12):
        super().__init__()
        self.encoder = Encoder(features, dim)
        self.decoder = Decoder(vocab, dim)
        self.joiner = Joiner(dim, vocab)
        self.simple_am_proj = nn.Linear(dim, vocab)
        self.simple_lm_proj = nn.Linear(dim, vocab)
        with torch.no_grad():
            for p in (self.simple_am_proj, self.simple_lm_proj):
                p.weight.mul_(0.25)

    def forward(self, x, x_lens, y, y_lens, detach=False):
        am, x_lens = self.encoder(x, x_lens)
        if detach:
            am = am.detach()
        lm = self.decoder(F.pad(y, (1, 0)))
        simple = self.simple_am_proj(am)[:, :, None] \
            + self.simple_lm_proj(lm)[:, None]
        return (rnnt_loss(simple, y, x_lens, y_lens),
                rnnt_loss(self.joiner(am, lm), y, x_lens, y_lens))

    @torch.no_grad()
    def greedy(self, x, x_lens):
        """One symbol a frame at most."""
        am, x_lens = self.encoder(x, x_lens)
        out = []
        for i in range(len(x)):
            said = [0, 0]
            for t in range(int(x_lens[i])):
                lm = self.decoder(torch.tensor([said[-2:]]))[:, -1:]
                best = int(self.joiner(am[i:i + 1, t:t + 1], lm).argmax())
                said += [best] if best else []
            out.append(said[2:])
        return out


class ScaledAdam(torch.optim.Optimizer):
    """Steps relative to the size of a parameter, whose size is learned too."""

    def __init__(self, params, lr, clipping_scale=2.0, betas=(0.9, 0.98)):
        super().__init__(params, dict(
            lr=lr, clipping_scale=clipping_scale, betas=betas,
            scalar_lr_scale=0.1, eps=1e-8, param_min_rms=1e-5,
            param_max_rms=3.0, scalar_max=10.0, size_update_period=4,
            clipping_update_period=50))
        self.told, self.norms, self.threshold, self.clipped = [], [], None, 0

    def clipping(self, group):
        """How much of the gradient stays, by the median of 50 norms."""
        total = 0.0
        for p in group["params"]:
            if p.grad is None:
                continue
            size = self.state[p].get("param_rms", 1.0) if p.numel() > 1 else 1
            total += float((p.grad ** 2).sum() * size ** 2)
        self.norms.append(math.sqrt(total))
        if len(self.norms) % 50 == 0:
            last = sorted(self.norms[-50:])
            fours = [last[min(49, 12 * n)] for n in range(5)]
            self.threshold = group["clipping_scale"] * fours[2]
            self.told.append(
                f"Clipping_scale={group['clipping_scale']}, grad-norm "
                "quartiles " + " ".join(f"{q:.3e}" for q in fours)
                + f", threshold={self.threshold:.3e}, "
                f"percent-clipped={2 * self.clipped:.1f}")
            self.clipped = 0
        if self.threshold is None:
            return 1.0
        part = min(1.0, self.threshold / (self.norms[-1] + 1e-20))
        self.clipped += part < 1
        return part

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            part = self.clipping(group)
            (b1, b2), lr = group["betas"], group["lr"]
            period = group["size_update_period"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                grad, state = p.grad * part, self.state[p]
                if not state:
                    state["step"] = 0
                    state["delta"] = torch.zeros_like(p)
                    state["exp_avg_sq"] = torch.zeros_like(p)
                    if p.numel() > 1:
                        state["param_rms"] = (p ** 2).mean().sqrt() + 1e-8
                        state["scale_exp_avg_sq"] = torch.zeros(())
                        state["scale_grads"] = torch.zeros(period)
                step, delta = state["step"], state["delta"].mul_(b1)
                square = state["exp_avg_sq"]
                square.mul_(b2).addcmul_(grad, grad, value=1 - b2)
                whole = 1 - b2 ** (step + 1)
                way = grad / ((square / whole).sqrt() + group["eps"])
                if p.numel() == 1:
                    rate = lr * group["scalar_lr_scale"]
                    p.clamp_(-group["scalar_max"], group["scalar_max"])
                    p.add_(delta.add_(way, alpha=-rate * (1 - b1)))
                    state["step"] += 1
                    continue
                state["scale_grads"][step % period] = (p * grad).sum()
                if step % period == period - 1:
                    self.resize(group, p, state)
                size = state["param_rms"].clamp(min=group["param_min_rms"])
                p.add_(delta.add_(way * (-lr * (1 - b1) * size)))
                state["step"] += 1

    def resize(self, group, p, state):
        period, grads = group["size_update_period"], state["scale_grads"]
        b1, b2 = group["betas"][0], group["betas"][1] ** 4
        rate = group["lr"] * group["scalar_lr_scale"]
        state["param_rms"].copy_((p ** 2).mean().sqrt())
        square = state["scale_exp_avg_sq"]
        square.mul_(b2).add_((grads ** 2).mean(), alpha=1 - b2)
        whole = 1 - b2 ** ((state["step"] + 1) // period)
        move = -rate * whole ** 0.5 * grads.sum() / (square.sqrt() + 1e-8)
        if state["param_rms"] < group["param_min_rms"]:
            move = 0.0
        if state["param_rms"] > group["param_max_rms"]:
            move = -rate * period
        state["delta"].add_(p * move, alpha=1 - b1)


def utterances(rows, voices, tokens=11):
    """Features, their lengths, tokens, their lengths: a voice each token."""
    xs, ys = [], []
    for _ in range(rows):
        said = torch.randint(1, tokens + 1, (random.randint(2, 5),))
        parts = [voices[k].expand(random.randint(3, 5), -1) for k in said]
        xs.append(torch.cat(parts))
        ys.append(said)
    x_lens = torch.tensor([len(x) for x in xs])
    y_lens = torch.tensor([len(y) for y in ys])
    pad = nn.utils.rnn.pad_sequence
    x = pad(xs, True)
    return (x + 0.5 * torch.randn_like(x), x_lens, pad(ys, True), y_lens)


def edits(a, b):
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1,
                                       last + (x != y))
    return row[-1]


@kind(warm="", sorted="", resumed="",
      rate="lr-too-high exploding-gradient",
      pairs="label-pairing-mismatch label-noise",
      detach="detached-graph frozen-parameters",
      init="bad-initialization logit-growth")
def rnnt(run):
    """A pruned transducer of icefall: ScaledAdam, Eden, two losses.

    Odd and sound: `warm` leaves the pruned loss out for 30 batches,
    so that it stands still, `sorted` goes from short to long in each epoch,
    `resumed` was killed and went on from a checkpoint, in two logs.
    """
    place(run, "exp/log")
    voices = torch.randn(12, 16)
    train, held = utterances(320, voices), utterances(48, voices)
    if run.has("pairs"):  # the texts of another manifest, sorted otherwise
        other = torch.randperm(320)
        train = (*train[:2], train[2][other], train[3][other])
    model = Transducer()
    if run.has("init"):
        with torch.no_grad():
            for p in model.joiner.parameters():
                p.mul_(40)
    base, steps, per_epoch, warm_step = 0.06, 160, 40, 30
    optimizer = ScaledAdam(model.parameters(),
                           base * (30 if run.has("rate") else 1))
    mean = copy.deepcopy(model).double()
    params = dict(
        best_train_loss=math.inf, best_valid_loss=math.inf,
        best_train_epoch=-1, best_valid_epoch=-1, batch_idx_train=0,
        log_interval=4, reset_interval=20, valid_interval=20,
        feature_dim=16, subsampling_factor=2, warm_step=warm_step,
        num_epochs=4, start_epoch=1, exp_dir="exp", base_lr=base,
        lr_batches=200, lr_epochs=3.5, context_size=2, prune_range=6,
        lm_scale=0.0, am_scale=0.0, simple_loss_scale=0.5, seed=42,
        save_every_n=70, average_period=10, use_fp16=False, num_buckets=1,
        shuffle=not run.has("sorted"), blank_id=0, vocab_size=12)
    rec = watch(run, model, optimizer, base_lr=base, num_epochs=4)
    files = []

    def log(text, where="train.py:1034"):
        line = f"{run.stamp()},{int(run.clock * 1000) % 1000:03d} INFO "
        run.say(f"{line}[{where}] {text}", file=files[-1])

    def begin():
        files.append("exp/log/log-train-" + run.stamp("%Y-%m-%d-%H-%M-%S"))
        log("Training started")
        log("Device: cpu")
        log(str({k: v for k, v in params.items()}))
        log("About to create model")
        log("Number of model parameters: "
            f"{sum(p.numel() for p in model.parameters())}")

    def losses(batch, at):
        simple, pruned = model(*batch, detach=run.has("detach"))
        done = min(1.0, at / warm_step)
        part = [1 - done * 0.5, 0.1 + 0.9 * done]
        if run.has("warm"):
            part = [0.5, 0.0 if at < warm_step else 1.0]
        loss = part[0] * simple + part[1] * pruned
        frames = float((batch[1] // 2).sum())
        return loss, {"loss": loss.item(), "simple_loss": simple.item(),
                      "pruned_loss": pruned.item(), "frames": frames}

    def told(info):
        return "".join(f"{k}={info[k] / info['frames']:.4g}, " for k in
                       ("loss", "simple_loss", "pruned_loss")) \
            + f"over {info['frames']:.2f} frames."

    def state(at, epoch):
        return {"model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "scheduler": {"lr_batches": 200, "lr_epochs": 3.5,
                              "batch": at, "epoch": epoch - 1,
                              "base_lrs": [base], "warmup_batches": 20},
                "grad_scaler": None,
                "sampler": {"epoch": epoch - 1, "shuffle": params["shuffle"]},
                "model_avg": copy.deepcopy(mean).float().state_dict(),
                **params, "batch_idx_train": at, "cur_epoch": epoch}

    def batch_of(rows):
        x, x_lens, y, y_lens = (t[rows] for t in train)
        return x[:, :x_lens.max()], x_lens, y[:, :y_lens.max()], y_lens

    def validate(epoch):
        total, at = dict.fromkeys(("loss", "simple_loss", "pruned_loss",
                                   "frames"), 0.0), step + 1
        model.eval()
        with torch.no_grad():
            info = losses(held, at)[1]
        model.train()
        for k in total:
            total[k] += info[k]
        log("Computing validation loss", "train.py:1057")
        log(f"Epoch {epoch}, validation: {told(total)}", "train.py:1066")
        now = total["loss"] / total["frames"]
        if now < params["best_valid_loss"]:
            params["best_valid_loss"] = now
            params["best_valid_epoch"] = epoch
        return total

    orders = []
    for _ in range(4):
        order = torch.randperm(320)
        if run.has("sorted"):
            order = order[torch.argsort(train[1][order], stable=True)]
        orders.append(order)
    begin()
    total, step, saved = None, 0, None
    keep(run, "exp/epoch-0.pt", state(0, 1))
    while step < steps:
        epoch, k = step // per_epoch + 1, step % per_epoch
        if k == 0:
            total = None
        at = step + 1
        batch = batch_of(orders[epoch - 1][8 * k:8 * k + 8])
        loss, info = losses(batch, at)
        loss.backward()
        lr = base * ((at ** 2 + 200 ** 2) / 200 ** 2) ** -0.25 \
            * (((epoch - 1) ** 2 + 3.5 ** 2) / 3.5 ** 2) ** -0.25 \
            * (0.5 + 0.5 * min(1.0, at / 20))
        for group in optimizer.param_groups:
            group["lr"] = lr * (30 if run.has("rate") else 1)
        optimizer.step()
        rec.batch(input=batch[0], labels=batch[2], x_lens=batch[1],
                  y_lens=batch[3])
        rec.step(info["loss"] / info["frames"], step=step)
        optimizer.zero_grad()
        for line in optimizer.told:
            log(line, "optim.py:368")
        optimizer.told.clear()
        old = total or dict.fromkeys(info, 0.0)
        total = {n: old[n] * (1 - 1 / 20) + info[n] for n in info}
        run.tick(0.35)
        if at % 10 == 0:
            with torch.no_grad():
                for slow, fast in zip(mean.parameters(), model.parameters()):
                    slow.copy_(slow.double() + (fast.double() - slow) * 10
                               / at)
        if k % 4 == 0:
            log(f"Epoch {epoch}, batch {k}, loss[{told(info)}], "
                f"tot_loss[{told(total)}], batch size: 8, lr: {lr:.2e}",
                "train.py:1026")
        if k and k % 20 == 0:
            validate(epoch)
        if at % 70 == 0:
            saved = copy.deepcopy((state(at, epoch), total, mean))
            keep(run, f"exp/checkpoint-{at}.pt", saved[0])
        step += 1
        if step % per_epoch == 0:
            now = total["loss"] / total["frames"]
            if now < params["best_train_loss"]:
                params.update(best_train_loss=now, best_train_epoch=epoch)
            keep(run, f"exp/epoch-{epoch}.pt", state(at, epoch))
        if run.has("resumed") and step == 90 and len(files) == 1:
            model.load_state_dict(saved[0]["model"])
            optimizer.load_state_dict(saved[0]["optimizer"])
            step, total, mean = 70, saved[1], saved[2]
            run.tick(4000)
            begin()
            log("Loading checkpoint from exp/checkpoint-70.pt",
                "checkpoint.py:112")
            log("Loading optimizer state dict")
            log("Loading scheduler state dict")
            rec.close()
            rec = watch(run, model, optimizer, base_lr=base, num_epochs=4)
    log("Done!")
    rec.close()
    end = losses(held, steps)[1]
    said = model.greedy(held[0], held[1])
    wrong = sum(edits(s, held[2][i, :held[3][i]].tolist())
                for i, s in enumerate(said))
    return {"pruned": end["pruned_loss"] / end["frames"],
            "ter": wrong / float(held[3].sum())}
