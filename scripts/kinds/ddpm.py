"""Diffusion by improved-diffusion's TrainLoop, on small grey pictures.

Some of its designs are odd and sound. The kind tells how well its run ended,
measured on what it did not train on.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, place

STEPS = 50


def zero_module(module):
    for p in module.parameters():
        nn.init.zeros_(p)
    return module


def normalization(channels):
    return nn.GroupNorm(8, channels)


class ResBlock(nn.Module):
    def __init__(self, channels, emb, out):
        super().__init__()
        self.in_layers = nn.Sequential(
            normalization(channels), nn.SiLU(),
            nn.Conv2d(channels, out, 3, padding=1))
        self.emb_layers = nn.Sequential(nn.SiLU(), nn.Linear(emb, 2 * out))
        self.out_layers = nn.Sequential(
            normalization(out), nn.SiLU(), nn.Dropout(p=0.0),
            zero_module(nn.Conv2d(out, out, 3, padding=1)))
        self.skip_connection = nn.Identity() if out == channels \
            else nn.Conv2d(channels, out, 1)

    def forward(self, x, emb):
        h = self.in_layers(x)
        scale, shift = self.emb_layers(emb)[..., None, None].chunk(2, 1)
        h = self.out_layers[0](h) * (1 + scale) + shift
        return self.skip_connection(x) + self.out_layers[1:](h)


class AttentionBlock(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = normalization(channels)
        self.qkv = nn.Conv1d(channels, 3 * channels, 1)
        self.proj_out = zero_module(nn.Conv1d(channels, channels, 1))

    def forward(self, x, emb):
        flat = x.flatten(2)
        q, k, v = self.qkv(self.norm(flat)).chunk(3, 1)
        scale = q.shape[1] ** -0.25
        weight = torch.softmax((q * scale).mT @ (k * scale), -1)
        return (flat + self.proj_out(v @ weight.mT)).view_as(x)


class Downsample(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.op = nn.Conv2d(channels, channels, 3, stride=2, padding=1)

    def forward(self, x, emb):
        return self.op(x)


class Upsample(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)

    def forward(self, x, emb):
        return self.conv(F.interpolate(x, scale_factor=2, mode="nearest"))


class First(nn.Conv2d):
    def forward(self, x, emb):
        return super().forward(x)


class TimestepEmbedSequential(nn.Sequential):
    def forward(self, x, emb):
        for layer in self:
            x = layer(x, emb)
        return x


class UNetModel(nn.Module):
    """One block at each of two sizes, attention in the middle."""

    def __init__(self, width=16, outs=1):
        super().__init__()
        emb = 4 * width
        make = TimestepEmbedSequential
        self.width = width
        self.time_embed = nn.Sequential(
            nn.Linear(width, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.input_blocks = nn.ModuleList([
            make(First(1, width, 3, padding=1)),
            make(ResBlock(width, emb, width)), make(Downsample(width)),
            make(ResBlock(width, emb, 2 * width))])
        two = 2 * width
        self.middle_block = make(ResBlock(two, emb, two),
                                 AttentionBlock(two),
                                 ResBlock(two, emb, two))
        self.output_blocks = nn.ModuleList([
            make(ResBlock(2 * two, emb, two)),
            make(ResBlock(two + width, emb, two), Upsample(two)),
            make(ResBlock(two + width, emb, width)),
            make(ResBlock(2 * width, emb, width))])
        self.out = nn.Sequential(
            normalization(width), nn.SiLU(),
            zero_module(nn.Conv2d(width, outs, 3, padding=1)))

    def forward(self, x, timesteps):
        half = self.width // 2
        freqs = torch.exp(-math.log(10000) * torch.arange(half) / half)
        args = timesteps[:, None].float() * freqs[None]
        emb = self.time_embed(torch.cat([args.cos(), args.sin()], -1))
        hs, h = [], x
        for block in self.input_blocks:
            h = block(h, emb)
            hs.append(h)
        h = self.middle_block(h, emb)
        for block in self.output_blocks:
            h = block(torch.cat([h, hs.pop()], 1), emb)
        return self.out(h)


class Logger:
    """The logger of baselines: a table and progress.csv."""

    def __init__(self, run):
        self.run, self.keys, self.rows = run, [], []
        self.sums, self.counts = {}, {}

    def mean(self, key, value):
        self.sums[key] = self.sums.get(key, 0.0) + value
        self.counts[key] = self.counts.get(key, 0) + 1

    def dump(self, **values):
        values |= {k: v / self.counts[k] for k, v in self.sums.items()}
        self.sums, self.counts = {}, {}
        text = {k: "%-8.3g" % v for k, v in sorted(values.items())}
        wide, deep = max(map(len, text)), max(map(len, text.values()))
        dashes = "-" * (wide + deep + 7)
        self.run.say(dashes, *(f"| {k:{wide}} | {v:{deep}} |"
                               for k, v in text.items()), dashes,
                     file="log.txt")
        self.keys += sorted(values.keys() - set(self.keys))
        self.rows.append(values)
        (self.run.folder / "progress.csv").write_text("\n".join(
            [",".join(self.keys)] + [",".join(
                str(r.get(k, "")) for k in self.keys)
                for r in self.rows]) + "\n")


def blocks(rows, size=8):
    """A bright bar on a dark ground, or a dark one on a bright ground."""
    out = torch.full((rows, 1, size, size), -0.8)
    for i in range(rows):
        at = int(torch.randint(1, size - 2, (1,)))
        if torch.rand(()) < 0.5:
            out[i, 0, at:at + 2] = 0.8
        else:
            out[i, 0, :, at:at + 2] = 0.8
    return out + 0.05 * torch.randn_like(out)


BETAS = torch.linspace(1e-4, 0.02, STEPS, dtype=torch.float64) * 1000 / STEPS
BARS = (1 - BETAS).cumprod(0)
BEFORE = F.pad(BARS[:-1], (1, 0), value=1.0)
POSTERIOR = BETAS * (1 - BEFORE) / (1 - BARS)
POSTERIOR[0] = POSTERIOR[1]


def normal_kl(mean1, log1, mean2, log2):
    return 0.5 * (-1 + log2 - log1 + (log1 - log2).exp()
                  + (mean1 - mean2) ** 2 * (-log2).exp())


@kind(sigma="", xstart="", lossaware="",
      ema="ema-weights-lag", rate="lr-too-high exploding-gradient",
      noise="label-pairing-mismatch label-noise",
      scale="input-not-normalized")
def ddpm(run):
    """DDPM by improved-diffusion: tables, progress.csv, model, ema, opt.

    Odd and sound: `sigma` learns variances by a bound that may fall below
    nought, `xstart` foretells pictures, so that quartiles change places,
    `lossaware` draws steps by their losses and weighs them.
    """
    place(run, "")
    total, batch, lr, every, rate = 120, 16, 3e-3, 5, 0.95
    sigma, xstart = run.has("sigma"), run.has("xstart")
    run.settings(
        image_size=8, num_channels=16, num_res_blocks=1, num_heads=1,
        attention_resolutions="4", dropout=0.0, learn_sigma=sigma,
        sigma_small=False, class_cond=False, diffusion_steps=STEPS,
        noise_schedule="linear", timestep_respacing="", use_kl=False,
        predict_xstart=xstart, rescale_timesteps=True,
        rescale_learned_sigmas=True, use_checkpoint=False,
        use_scale_shift_norm=True, data_dir="datasets/bars", lr=lr,
        schedule_sampler="loss-second-moment" if run.has("lossaware")
        else "uniform", weight_decay=0.0, lr_anneal_steps=total,
        batch_size=batch, microbatch=-1, ema_rate=str(rate),
        log_interval=every, save_interval=60, resume_checkpoint="",
        use_fp16=False, fp16_scale_growth=1e-3)
    data, held = blocks(512), blocks(96)
    if run.has("scale"):  # imread() and no "/ 127.5 - 1"
        data, held = (127.5 * (x + 1) for x in (data, held))
    net = UNetModel(outs=1 + sigma)
    optimizer = torch.optim.AdamW(net.parameters(), lr=lr, weight_decay=0.0)
    slow = copy.deepcopy(net)
    log = Logger(run)
    run.say("Logging to logs", "creating model and diffusion...",
            "creating data loader...", "training...", file="log.txt")
    history = torch.zeros(STEPS, 5)
    counts = torch.zeros(STEPS, dtype=torch.long)

    def losses_of(model, x, t):
        noise = torch.randn_like(x)
        pick = lambda v: v[t].float()[:, None, None, None]
        noisy = pick(BARS.sqrt()) * x + pick((1 - BARS).sqrt()) * noise
        if run.has("noise"):  # q_sample() draws its own when it gets none
            noise = torch.randn_like(x)
        out = model(noisy, t * 1000 / STEPS)
        goal = x if xstart else noise
        terms = {}
        if sigma:
            out, part = out.chunk(2, 1)
            low, high = pick(POSTERIOR.log()), pick(BETAS.log())
            log_var = low + (part + 1) / 2 * (high - low)
            still = out.detach()
            made = pick(1 / BARS.sqrt()) * noisy \
                - pick((1 / BARS - 1).sqrt()) * still
            one = BETAS * BEFORE.sqrt() / (1 - BARS)
            two = (1 - BEFORE) * (1 - BETAS).sqrt() / (1 - BARS)
            mean = lambda a: pick(one) * a + pick(two) * noisy
            kl = normal_kl(mean(x), low, mean(made), log_var)
            first = 0.5 * (math.log(2 * math.pi) + log_var
                           + (x - mean(made)) ** 2 * (-log_var).exp())
            flat = torch.where((t == 0)[:, None, None, None], first, kl)
            terms["vb"] = flat.flatten(1).mean(1) / math.log(2) * STEPS / 1e3
        terms["mse"] = ((goal - out) ** 2).flatten(1).mean(1)
        return {"loss": sum(terms.values())} | terms

    def draw():
        if not run.has("lossaware") or (counts < 5).any():
            return torch.randint(STEPS, (batch,)), torch.ones(batch)
        weights = (history ** 2).mean(1).sqrt()
        p = 0.999 * weights / weights.sum() + 0.001 / STEPS
        t = torch.multinomial(p, batch, True)
        return t, 1 / (STEPS * p[t])

    def save(step):
        for name, model in ((f"model{step:06d}", net),
                            (f"ema_{rate}_{step:06d}", slow)):
            run.say(f"saving model {rate if 'ema' in name else 0}...",
                    file="log.txt")
            keep(run, f"{name}.pt", model.state_dict())
        keep(run, f"opt{step:06d}.pt", optimizer.state_dict())

    step = 0
    while step < total:
        x = data[torch.randint(len(data), (batch,))]
        t, weights = draw()
        optimizer.zero_grad()
        terms = losses_of(net, x, t)
        if run.has("lossaware"):
            for at, value in zip(t.tolist(), terms["loss"].tolist()):
                history[at] = history[at].roll(-1)
                history[at, -1] = value
                counts[at] += 1
        for key, values in terms.items():
            values = (values * weights).detach()
            log.mean(key, values.mean().item())
            for at, value in zip(t.tolist(), values.tolist()):
                log.mean(f"{key}_q{4 * at // STEPS}", value)
        (terms["loss"] * weights).mean().backward()
        log.mean("grad_norm", math.sqrt(sum(
            (p.grad ** 2).sum().item() for p in net.parameters())))
        for group in optimizer.param_groups:
            group["lr"] = run.rate(lr * (1 - step / total), 50)
        optimizer.step()
        # The fault: it came under "if step % log_interval", with the table.
        if not run.has("ema") or step % (8 * every) == 0:
            with torch.no_grad():
                for a, b in zip(slow.parameters(), net.parameters()):
                    a.mul_(rate).add_(b, alpha=1 - rate)
        if step % every == 0:
            run.tick(2)
            log.dump(step=step, samples=(step + 1) * batch)
        if step % 60 == 0:
            save(step)
        step += 1
    save(step)
    with torch.no_grad():
        torch.manual_seed(7)
        t = torch.arange(96) * STEPS // 96
        weight = (BARS if xstart else 1 - BARS)[t].float()
        both = {n: (losses_of(m, held, t)["mse"] * weight).mean()
                for n, m in (("net", net), ("ema", slow))}
    run.ends(**both)
