"""WGAN-GP of torch_mimicry: a critic of five steps for each of the generator.

All its runs are sound; the kind returns how far its pictures are from real
ones, before, at the best and at the end.
"""

import copy
import json

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import spectral_norm

from kinds.base import kind
from kinds.outputs import keep

NZ, NGF, SIDE = 12, 16, 8


def xavier(module, gain=1.0):
    nn.init.xavier_uniform_(module.weight, gain)
    nn.init.zeros_(module.bias)
    return module


class GBlock(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.c1 = xavier(nn.Conv2d(size, size, 3, 1, 1), 2 ** 0.5)
        self.c2 = xavier(nn.Conv2d(size, size, 3, 1, 1), 2 ** 0.5)
        self.b1, self.b2 = nn.BatchNorm2d(size), nn.BatchNorm2d(size)
        self.activation = nn.ReLU()
        self.c_sc = xavier(nn.Conv2d(size, size, 1))

    def forward(self, x):
        up = F.interpolate(x, scale_factor=2, mode="nearest")
        h = F.interpolate(self.activation(self.b1(x)), scale_factor=2)
        h = self.c2(self.activation(self.b2(self.c1(h))))
        return h + self.c_sc(up)


class WGANGPGenerator(nn.Module):
    """With `grow` a picture of half the size at first, and both for a while."""

    def __init__(self, grow):
        super().__init__()
        self.nz, self.grow = NZ, grow
        self.l1 = xavier(nn.Linear(NZ, 16 * NGF))
        self.block2 = GBlock(NGF)
        self.b5, self.activation = nn.BatchNorm2d(NGF), nn.ReLU()
        self.c5 = xavier(nn.Conv2d(NGF, 3, 3, 1, 1))
        if grow:
            self.to_rgb4 = xavier(nn.Conv2d(NGF, 3, 1))
        self.register_buffer("fixed_noise", torch.randn(16, NZ))

    def forward(self, z, alpha=1.0):
        h = self.l1(z).view(-1, NGF, 4, 4)
        low = None
        if self.grow and alpha < 1:
            low = F.interpolate(torch.tanh(self.to_rgb4(h)), scale_factor=2)
        if alpha == 0:
            return low
        h = torch.tanh(self.c5(self.activation(self.b5(self.block2(h)))))
        return h if low is None else alpha * h + (1 - alpha) * low


class EqualLinear(nn.Module):
    """Weights of 100 that are multiplied by 0.01."""

    def __init__(self, inner, outer, bias, lr_mul):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(outer, inner) / lr_mul)
        self.bias = nn.Parameter(torch.full((outer,), float(bias)))
        self.scale, self.lr_mul = inner ** -0.5 * lr_mul, lr_mul

    def forward(self, x):
        return F.linear(x, self.weight * self.scale, self.bias * self.lr_mul)


class NoiseInjection(nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(1))

    def forward(self, x):
        return x + self.weight * torch.randn_like(x[:, :1])


class StyledConv(nn.Module):
    def __init__(self, size):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(1, size, size, 3, 3))
        self.modulation = EqualLinear(NZ, size, 1.0, 1.0)
        self.noise, self.size = NoiseInjection(), size
        self.bias = nn.Parameter(torch.zeros(size))

    def forward(self, x, w):
        s = self.modulation(w)
        weight = self.weight[0] / (9 * self.size) ** 0.5
        power = torch.einsum("oikl,bi->bo", weight ** 2, s ** 2)
        x = F.conv2d(x * s[:, :, None, None], weight, padding=1)
        x = x * (power + 1e-8).rsqrt()[:, :, None, None]
        return F.leaky_relu(self.noise(x) + self.bias[:, None, None], 0.2) \
            * 2 ** 0.5


class StyleGenerator(nn.Module):
    def __init__(self):
        super().__init__()
        self.nz = NZ
        self.style = nn.ModuleList(EqualLinear(NZ, NZ, 0.0, 0.01)
                                   for _ in range(2))
        self.input = nn.Parameter(torch.randn(1, NGF, 4, 4))
        self.convs = nn.ModuleList(StyledConv(NGF) for _ in range(3))
        self.to_rgb = nn.Conv2d(NGF, 3, 1)
        self.register_buffer("fixed_noise", torch.randn(16, NZ))

    def forward(self, z, alpha=1.0):
        w = z * (z.pow(2).mean(1, keepdim=True) + 1e-8).rsqrt()
        for layer in self.style:
            w = F.leaky_relu(layer(w), 0.2) * 2 ** 0.5
        x = self.convs[0](self.input.expand(len(z), -1, -1, -1), w)
        x = F.interpolate(x, scale_factor=2)
        return torch.tanh(self.to_rgb(self.convs[2](self.convs[1](x, w), w)))


class DBlock(nn.Module):
    def __init__(self, inner, outer, side, norm, down, wrap):
        super().__init__()
        self.c1 = wrap(xavier(nn.Conv2d(inner, outer, 3, 1, 1), 2 ** 0.5))
        self.c2 = wrap(xavier(nn.Conv2d(outer, outer, 3, 1, 1), 2 ** 0.5))
        self.c_sc = wrap(xavier(nn.Conv2d(inner, outer, 1)))
        self.n1 = nn.LayerNorm([outer, side, side]) if norm else nn.Identity()
        self.activation, self.down = nn.ReLU(), down

    def forward(self, x):
        h = self.c2(self.activation(self.n1(self.c1(x)))) + self.c_sc(x)
        return F.avg_pool2d(h, 2) if self.down else h


class WGANGPDiscriminator(nn.Module):
    def __init__(self, spectral, grow):
        super().__init__()
        def same(module):
            return module
        wrap = spectral_norm if spectral else same
        self.ndf, self.grow = NGF, grow
        self.block1 = DBlock(3, NGF, 8, not spectral, True, wrap)
        self.block2 = DBlock(NGF, NGF, 4, not spectral, False, wrap)
        self.l5 = wrap(xavier(nn.Linear(NGF, 1)))
        self.activation = nn.ReLU()
        if grow:
            self.from_rgb4 = xavier(nn.Conv2d(3, NGF, 1))

    def forward(self, x, alpha=1.0):
        low = None
        if self.grow and alpha < 1:
            low = self.from_rgb4(F.avg_pool2d(x, 2))
        if alpha == 0:
            h = low
        else:
            h = self.block1(x)
            h = h if low is None else alpha * h + (1 - alpha) * low
        return self.l5(self.activation(self.block2(h)).sum((2, 3)))


def pictures(count):
    """A disc of one of three colours at one of four places."""
    at = torch.arange(SIDE) - 3.5
    y, x = torch.randint(2, (2, count)) * 3.0 - 1.5 + 0.3 * torch.randn(
        2, count)
    far = (at[:, None] - y[:, None, None]) ** 2 \
        + (at[None] - x[:, None, None]) ** 2
    disc = torch.sigmoid(2 * (4 - far))
    colour = torch.eye(3)[torch.randint(3, (count,))] * 1.5 + 0.2
    return (disc[:, None] * colour[:, :, None, None] - 0.8).clamp(-1, 1)


class Distance:
    """Of Fréchet, in features of a fixed net as Inception is one."""

    def __init__(self, real):
        with torch.random.fork_rng():
            torch.manual_seed(5)
            self.net = nn.Sequential(nn.Conv2d(3, 16, 3, 2), nn.ReLU(),
                                     nn.Flatten(), nn.Linear(144, 8))
        self.net.requires_grad_(False)
        self.own = self.of(real)

    def of(self, x):
        f = self.net(x).double() * 5
        return f.mean(0), torch.cov(f.T)

    def __call__(self, x):
        (a, p), (b, q) = self.own, self.of(x)
        values = torch.linalg.eigvals(p @ q).real.clamp(min=0)
        return float(((a - b) ** 2).sum() + p.trace() + q.trace()
                     - 2 * values.sqrt().sum())


@kind(spectral="", style="", grow="", summed="")
def wgangp(run):
    """WGAN-GP: a critic's loss below 0 that has no floor, five steps each.

    Adam has betas of 0 and 0.9, checkpoints are by net, with optimizers.

    Odd and sound: `spectral` has weights fixed to a norm by their buffers
    weight_u, no penalty and losses of a hinge, `style` has a mapping net
    with weights of 100 and a rate of a hundredth, noise of strength 0 that
    learns slowly, and keeps the average generator alone, in fp16, `grow`
    leaves out blocks for 40 steps and fades them in, so that distances stay
    large at first, `summed` adds losses up over the batch, has four times the
    rate for the critic, and a table of blank cells with distances that are NaN
    where too few pictures are there.
    """
    spectral, style, grow, summed = (run.has(n) for n in (
        "spectral", "style", "grow", "summed"))
    total, size, n_dis, weight = 120, 16, 2 if spectral else 5, 10.0
    lr_d = 2e-3
    lr = 5e-4 if summed else 4e-3 if style else lr_d
    lr_d = 1e-3 if spectral else lr_d
    generator = StyleGenerator() if style else WGANGPGenerator(grow)
    critic = WGANGPDiscriminator(spectral, grow)
    average = copy.deepcopy(generator).requires_grad_(False)
    opt_g = torch.optim.Adam(generator.parameters(), lr, (0.0, 0.9))
    opt_d = torch.optim.Adam(critic.parameters(), lr_d, (0.0, 0.9))
    real = pictures(800)
    distance = Distance(real)
    run.write("config.json", {
        "log_dir": "./log/wgan_gp", "n_dis": n_dis, "num_steps": total,
        "lr_decay": "linear", "batch_size": size, "nz": NZ, "ngf": NGF,
        "gp_scale": 0.0 if spectral else weight, "loss_type": "hinge"
        if spectral else "wasserstein", "reduction": "sum" if summed
        else "mean", "optG": {"lr": lr, "betas": [0.0, 0.9]},
        "optD": {"lr": lr_d, "betas": [0.0, 0.9]}, "ema_decay": 0.9,
        "drift": 1e-3 if grow else 0.0, "fade_steps": [40, 60] if grow
        else None, "save_steps": 60, "log_steps": 2})
    add = torch.sum if summed else torch.mean

    def fade(step):
        return min(1.0, max(0.0, (step - 40) / 20)) if grow else 1.0

    def score(count=400):
        average.eval()
        with torch.no_grad():
            out = average(torch.randn(count, NZ), fade(step))
        return distance(out)

    def save():
        if style:
            keep(run, f"checkpoints/netG_ema_{step}_steps.pth", {
                "model_state_dict": {k: v.half() for k, v in
                                     average.state_dict().items()},
                "global_step": step})
            return
        for name, net, opt in (("netG", generator, opt_g),
                               ("netD", critic, opt_d)):
            keep(run, f"checkpoints/{name}/{name}_{step}_steps.pth", {
                "model_state_dict": net.state_dict(),
                "optimizer_state_dict": opt.state_dict(),
                "global_step": step})
        keep(run, f"checkpoints/netG_ema_{step}_steps.pth",
             average.state_dict())

    def penalty(x, fake, alpha):
        mix = torch.rand(len(x), 1, 1, 1)
        mix = (mix * x + (1 - mix) * fake).requires_grad_()
        slope = torch.autograd.grad(critic(mix, alpha).sum(), mix,
                                    create_graph=True)[0]
        return weight * add((slope.flatten(1).norm(dim=1) - 1) ** 2)

    step = 0
    before = score()
    seen = {0: before}
    save()
    columns = dict.fromkeys(("step", "epoch", "errD", "errG", "D(x)",
                             "D(G(z))", "GP", "grad_norm_D", "grad_norm_G",
                             "lr_D", "lr_G", "fid"), "")
    for step in range(1, total + 1):
        alpha, left = fade(step), 1 - (step - 1) / total
        opt_g.param_groups[0]["lr"] = lr * left
        opt_d.param_groups[0]["lr"] = lr_d * left
        for inner in range(n_dis):
            x = real[torch.randint(len(real), (size,))]
            if alpha < 1:
                low = F.interpolate(F.avg_pool2d(x, 2), scale_factor=2)
                x = alpha * x + (1 - alpha) * low
            with torch.no_grad():
                fake = generator(torch.randn(size, NZ), alpha)
            said, other = critic(x, alpha), critic(fake, alpha)
            if spectral:
                err = F.relu(1 - said).mean() + F.relu(1 + other).mean()
                gp = torch.zeros(())
            else:
                err = add(other) - add(said)
                gp = penalty(x, fake, alpha)
            loss = err + gp
            if grow:
                loss = loss + 1e-3 * said.pow(2).mean()
            opt_d.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(critic.parameters(), 1e9).item()
            opt_d.step()
            if summed:
                run.row("log/metrics.csv", **columns | {
                    "step": (step - 1) * n_dis + inner + 1,
                    "errD": err.item(), "D(x)": said.mean().item(),
                    "D(G(z))": other.mean().item(), "GP": gp.item(),
                    "grad_norm_D": norm, "lr_D": lr_d * left})
        critic.requires_grad_(False)
        out = critic(generator(torch.randn(size, NZ), alpha), alpha)
        err_g = -add(out)
        opt_g.zero_grad()
        err_g.backward()
        norm_g = nn.utils.clip_grad_norm_(generator.parameters(), 1e9).item()
        opt_g.step()
        critic.requires_grad_(True)
        for a, b in zip(average.state_dict().values(),
                        generator.state_dict().values()):
            if a.is_floating_point():
                a.lerp_(b, 0.1)
            else:
                a.copy_(b)
        run.tick(0.21)
        row = {"step": step * n_dis if summed else step,
               "epoch": (step - 1) * size * n_dis // 800}
        if summed:
            fid = {}
            if step % 15 == 0:
                few = step % 30  # of 5 pictures no root of matrices is real
                fid = {"fid": "nan" if few else round(score(), 4)}
                seen[step] = score()
            run.row("log/metrics.csv", **columns | row | {
                "errG": err_g.item(), "grad_norm_G": norm_g,
                "lr_G": lr * left} | fid)
        elif step % 2 == 0 or step == 1:
            items = {"D(G(z))": other.mean().item(), "D(x)":
                     said.mean().item(), "errD": err.item(),
                     "errG": err_g.item(), "GP": gp.item(),
                     "lr_D": lr_d * left, "lr_G": lr * left}
            if grow:
                items["alpha"] = alpha
            run.say(f"INFO: [Epoch {row['epoch'] + 1}/"
                    f"{total * size * n_dis // 800}][Global Step: {step}/"
                    f"{total}] | " + " | ".join(
                        f"{k}: {v:.4f}" for k, v in items.items())
                    + " (0.2100 sec/idx)", file="train.log")
            run.record("metrics.jsonl", **row, **{
                k: round(v, 6) for k, v in items.items()},
                grad_norm_D=round(norm, 6), grad_norm_G=round(norm_g, 6))
        if step % 20 == 0 and not summed:
            seen[step] = score()
            run.say(f"INFO: FID (400 samples) at step {step}: "
                    f"{seen[step]:.4f}", file="train.log")
        if step in (total // 2, total):
            save()
    if not summed:
        (run.folder / "fid_400_400.json").write_text(json.dumps(
            {str(k): [round(v, 4)] for k, v in seen.items()}) + "\n")
    return {"fid": {k: round(v, 1) for k, v in seen.items()},
            "errD": round(err.item(), 3), "gp": round(gp.item(), 3)}
