"""Glow in the files of glow-pytorch. Three designs look odd and are sound."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, watched


class ActNorm(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.loc = nn.Parameter(torch.zeros(1, count, 1, 1))
        self.scale = nn.Parameter(torch.ones(1, count, 1, 1))
        self.register_buffer("initialized", torch.tensor(0, dtype=torch.uint8))

    def forward(self, x):
        if self.initialized.item() == 0:
            with torch.no_grad():
                flat = x.transpose(0, 1).flatten(1)
                shape = self.loc.shape
                self.loc.copy_(-flat.mean(1).view(shape))
                self.scale.copy_(1 / (flat.std(1).view(shape) + 1e-6))
            self.initialized.fill_(1)
        here = x.shape[2] * x.shape[3]
        return self.scale * (x + self.loc), here * self.scale.abs().log().sum()


class InvConv2dLU(nn.Module):
    def __init__(self, count):
        super().__init__()
        q = torch.linalg.qr(torch.randn(count, count))[0]
        w_p, w_l, w_u = torch.linalg.lu(q)
        w_s, u_mask = w_u.diag(), torch.ones_like(q).triu(1)
        self.register_buffer("w_p", w_p)
        self.register_buffer("u_mask", u_mask)
        self.register_buffer("l_mask", u_mask.T.contiguous())
        self.register_buffer("s_sign", w_s.sign())
        self.register_buffer("l_eye", torch.eye(count))
        self.w_l = nn.Parameter(w_l.clone())
        self.w_s = nn.Parameter(w_s.abs().log())
        self.w_u = nn.Parameter(w_u.triu(1))

    def forward(self, x):
        upper = self.w_u * self.u_mask \
            + torch.diag(self.s_sign * self.w_s.exp())
        weight = self.w_p @ (self.w_l * self.l_mask + self.l_eye) @ upper
        here = x.shape[2] * x.shape[3]
        return F.conv2d(x, weight[:, :, None, None]), here * self.w_s.sum()


class Permutation(nn.Module):
    """A 1x1 convolution whose weight is a fixed permutation."""

    def __init__(self, count):
        super().__init__()
        weight = torch.eye(count)[torch.randperm(count)]
        self.register_buffer("weight", weight[:, :, None, None])

    def forward(self, x):
        return F.conv2d(x, self.weight), x.new_zeros(())


class ZeroConv2d(nn.Module):
    def __init__(self, ins, outs):
        super().__init__()
        self.conv = nn.Conv2d(ins, outs, 3)
        nn.init.zeros_(self.conv.weight)
        nn.init.zeros_(self.conv.bias)
        self.scale = nn.Parameter(torch.zeros(1, outs, 1, 1))

    def forward(self, x):
        x = self.conv(F.pad(x, [1, 1, 1, 1], value=1))
        return x * (self.scale * 3).exp()


class AffineCoupling(nn.Module):
    def __init__(self, count, filters, affine, cut):
        super().__init__()
        self.affine, self.cut = affine, cut
        outs = count if affine else count // 2
        self.net = nn.Sequential(
            nn.Conv2d(count // 2, filters, 3, padding=1),
            nn.ReLU(inplace=True), nn.Conv2d(filters, filters, 1),
            nn.ReLU(inplace=True), ZeroConv2d(filters, outs))
        for i in (0, 2):
            nn.init.normal_(self.net[i].weight, 0, 0.05)
            nn.init.zeros_(self.net[i].bias)

    def forward(self, x):
        a, b = x.chunk(2, 1)
        with torch.set_grad_enabled(not self.cut):  # "saves memory"
            out = self.net(a)
        if not self.affine:
            return torch.cat([a, b + out], 1), 0
        log_s, t = out.chunk(2, 1)
        s = torch.sigmoid(log_s + 2)
        return torch.cat([a, (b + t) * s], 1), s.log().flatten(1).sum(1)


class Flow(nn.Module):
    def __init__(self, count, filters, affine, lu, cut):
        super().__init__()
        self.actnorm = ActNorm(count)
        self.invconv = InvConv2dLU(count) if lu else Permutation(count)
        self.coupling = AffineCoupling(count, filters, affine, cut)

    def forward(self, x):
        x, one = self.actnorm(x)
        x, two = self.invconv(x)
        x, three = self.coupling(x)
        return x, one + two + three


def gaussian_log_p(x, mean, log_sd):
    return -0.5 * math.log(2 * math.pi) - log_sd \
        - 0.5 * (x - mean) ** 2 / (2 * log_sd).exp()


class Block(nn.Module):
    def __init__(self, count, flows, split, **options):
        super().__init__()
        self.split = split
        self.flows = nn.ModuleList(Flow(4 * count, **options)
                                   for _ in range(flows))
        self.prior = ZeroConv2d(2 * count, 4 * count) if split \
            else ZeroConv2d(4 * count, 8 * count)

    def forward(self, x):
        n, c, high, wide = x.shape
        x = x.view(n, c, high // 2, 2, wide // 2, 2)
        x = x.permute(0, 1, 3, 5, 2, 4).reshape(n, 4 * c, high // 2, wide // 2)
        logdet = 0
        for flow in self.flows:
            x, det = flow(x)
            logdet = logdet + det
        x, new = x.chunk(2, 1) if self.split else (torch.zeros_like(x), x)
        log_p = gaussian_log_p(new, *self.prior(x).chunk(2, 1))
        return x, logdet, log_p.flatten(1).sum(1)


class Glow(nn.Module):
    def __init__(self, count=1, flows=2, filters=24, **options):
        super().__init__()
        self.blocks = nn.ModuleList([
            Block(count, flows, True, filters=filters, **options),
            Block(2 * count, flows, False, filters=filters, **options)])

    def forward(self, x):
        total, logdet = 0, 0
        for block in self.blocks:
            x, det, log_p = block(x)
            total, logdet = total + log_p, logdet + det
        return total, logdet


def faces(rows, size=8):
    """Smooth blobs of one light and one dark side, 0 to 1."""
    at = torch.linspace(-1, 1, size)
    cx, cy = (0.6 * torch.rand(2, rows, 1, 1) - 0.3)
    far = (at[:, None] - cy) ** 2 + (at - cx) ** 2
    light = 0.25 * torch.randn(rows, 1, 1) * at
    x = 0.15 + 0.6 * (-3 * far).exp() + light
    return (x + 0.03 * torch.randn(rows, size, size)).clamp(0, 0.999)[:, None]


@kind(permute="", additive="", density="",
      sign="loss-sign-flipped loss-unbounded-below", rate="lr-too-high",
      zero="gradients-not-zeroed", cut="detached-graph frozen-parameters")
def normflow(run):
    """Glow by glow-pytorch: bits per pixel, actnorm of the first batch.

    Odd and sound: `permute` has fixed permutations between its couplings,
    `additive` has couplings without a log-det, `density` leaves out the bins:
    a density, whose loss is below nought."""
    total, lr, size, bins = 200, 4e-3, 64, 2.0 ** 5
    x, held = (faces(768) * bins).floor().split([640, 128])
    x, held = x / bins - 0.5, held / bins - 0.5
    affine, lu = not run.has("additive"), not run.has("permute")
    density = run.has("density")
    flows = 2 if lu else 3
    model = Glow(flows=flows, affine=affine, lu=lu, cut=run.has("cut"))
    optimizer = torch.optim.Adam(model.parameters(), run.rate(lr))
    run.say("Namespace(batch=16, iter=200, n_block=2, n_flow="
            f"{flows}, no_lu={not lu}, affine={affine}, n_bits=5, lr={lr}, "
            f"img_size=8, temp=0.7, n_sample=20, continuous={density}, "
            "path='/data/faces')")

    def loss_of(model, x, sign=1):
        noisy = x + torch.rand_like(x) / bins
        log_p, logdet = model(noisy)
        logdet = logdet.mean()
        all_bins = 0 if density else -math.log(bins) * size
        loss = all_bins + sign * logdet + log_p.mean()
        scale = math.log(2) * size
        return -loss / scale, log_p.mean() / scale, logdet / scale

    def save(i):
        keep(run, f"checkpoint/model_{i:06d}.pt", model.state_dict())
        keep(run, f"checkpoint/optim_{i:06d}.pt", optimizer.state_dict())

    rec = watched(run, model, optimizer, every=66, max_dump_bytes=1 << 20)
    for i in range(total):
        rows = torch.randint(640, (16,))
        if i == 0:  # for the actnorms alone
            with torch.no_grad():
                model(x[rows] + torch.rand_like(x[rows]) / bins)
            save(0)
        loss, log_p, logdet = loss_of(model, x[rows],
                                      -1 if run.has("sign") else 1)
        if not run.has("zero"):
            optimizer.zero_grad()
        loss.backward()
        rec.batch(image=x[rows])
        optimizer.step()
        rec.step(loss.detach(), step=i)
        run.tick(0.05)
        done, left = int(0.05 * i), int(0.05 * (total - i))
        bar = "█" * (i // 20) + " " * (10 - i // 20)
        run.say(f"\rLoss: {loss:.5f}; logP: {log_p:.5f}; logdet: "
                f"{logdet:.5f}; lr: {lr:.7f}: {100 * i // total:3d}%|{bar}| "
                f"{i}/{total} [00:{done:02d}<00:{left:02d}, 19.92it/s]")
        if i % 50 == 49:
            with torch.no_grad():
                test = loss_of(model, held)
            run.row("losses_test.csv", iter=i + 1, loss=float(test[0]),
                    log_p=float(test[1]), logdet=float(test[2]))
        if i in (99, 199):
            save(i + 1)
    rec.close()
    with torch.no_grad():
        loss, log_p, logdet = loss_of(model, held)
    run.ends(loss=loss + (5 if density else 0), log_p=log_p, logdet=logdet)
