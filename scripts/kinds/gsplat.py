"""Gaussian splats by Inria's train.py. Three designs look odd and are sound."""

import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep
from kinds.rotations import turned


def camera(angle):
    c, s = math.cos(angle), math.sin(angle)
    return torch.tensor([[c, 0.0, s], [0.0, 1.0, 0.0], [-s, 0.0, c]])


def render(p, view, background, degree=1, size=16):
    """Colours, depth and places on the screen of one orthographic view."""
    at = p["xyz"] @ view.T
    place = at[:, :2] * size / 4 + size / 2
    if place.requires_grad:
        place.retain_grad()
    axes = view @ turned(p["rotation"]) * p["scaling"].exp()[:, None]
    cov = (axes @ axes.mT)[:, :2, :2] * (size / 4) ** 2 + 0.3 * torch.eye(2)
    grid = torch.stack(torch.meshgrid(torch.arange(size), torch.arange(size),
                                      indexing="xy"), -1).view(-1, 2) + 0.5
    off = grid - place[:, None]
    a, b, d = cov[:, 0, 0], cov[:, 0, 1], cov[:, 1, 1]
    det = (a * d - b * b)[:, None]
    u, v = off.unbind(2)
    power = -0.5 * (d[:, None] * u * u - 2 * b[:, None] * u * v
                    + a[:, None] * v * v) / det
    alpha = (p["opacity"].sigmoid() * power.exp()).clamp(max=0.99)
    colour = 0.5 + 0.2821 * p["f_dc"][:, 0]
    if degree:
        colour = colour + 0.4886 * (p["f_rest"] * view[2][:, None]).sum(1)
    order = at[:, 2].argsort()
    alpha, colour = alpha[order], colour[order].clamp(min=0)
    through = torch.cat([torch.ones_like(alpha[:1]),
                         (1 - alpha).cumprod(0)])
    weight = through[:-1] * alpha
    image = (weight.T @ colour + through[-1][:, None] * background)
    depth = (weight * (at[order, 2] + 3)[:, None]).sum(0)
    return image.T.view(3, size, size), depth, place, through[-1]


def ssim(a, b):
    mean = lambda x: F.avg_pool2d(x, 5, 1, 2)
    ma, mb = mean(a), mean(b)
    va, vb = mean(a * a) - ma ** 2, mean(b * b) - mb ** 2
    both = mean(a * b) - ma * mb
    return ((2 * ma * mb + 1e-4) * (2 * both + 9e-4) / (
        (ma ** 2 + mb ** 2 + 1e-4) * (va + vb + 9e-4))).mean()


RATES = {"xyz": 1.6e-2, "f_dc": 2.5e-2, "f_rest": 2.5e-2 / 20,
         "opacity": 5e-2, "scaling": 2e-2, "rotation": 1e-2}


class Gaussians:
    """Parameters that come and go, with their moments in Adam."""

    def __init__(self, points, colours):
        n = len(points)
        far = torch.cdist(points, points) + 9 * torch.eye(n)
        dist = far.topk(3, largest=False).values.pow(2).mean(1).clamp(1e-7)
        turn = torch.zeros(n, 4)
        turn[:, 0] = 1
        first = {"xyz": points, "f_dc": (colours[:, None] - 0.5) / 0.2821,
                 "f_rest": torch.zeros(n, 3, 3),
                 "opacity": torch.full((n, 1), math.log(0.1 / 0.9)),
                 "scaling": dist.sqrt().log()[:, None].repeat(1, 3),
                 "rotation": turn}
        self.p = {k: nn.Parameter(v.clone()) for k, v in first.items()}
        self.optimizer = torch.optim.Adam(
            [{"params": [v], "lr": RATES[k], "name": k}
             for k, v in self.p.items()], lr=0.0, eps=1e-15)
        self.clear()

    def clear(self):
        n = len(self.p["xyz"])
        self.sum, self.count = torch.zeros(n, 1), torch.zeros(n, 1)

    def change(self, new, stale=False):
        """`new(name, tensor, moment)` makes each tensor; moments follow."""
        for group in self.optimizer.param_groups:
            name, old = group["name"], group["params"][0]
            now = nn.Parameter(new(name, self.p[name].detach(), False))
            self.p[name] = now
            if stale:
                continue
            state = self.optimizer.state.pop(old, None)
            group["params"][0] = now
            if state:
                for k in ("exp_avg", "exp_avg_sq"):
                    state[k] = new(name, state[k], True)
                self.optimizer.state[now] = state

    def densify(self, limit, stale):
        grads = (self.sum / self.count).nan_to_num(0.0)[:, 0]
        big = self.p["scaling"].detach().exp().amax(1) > 0.3
        clone, split = (grads >= limit) & ~big, (grads >= limit) & big
        with torch.no_grad():
            sigma = self.p["scaling"].exp()[split].repeat(2, 1)
            moved = (turned(self.p["rotation"][split].repeat(2, 1))
                     @ (sigma * torch.randn_like(sigma))[:, :, None])[:, :, 0]
        fine = ~(self.p["opacity"].detach().sigmoid() < 0.005)[:, 0] & ~split

        def new(name, x, moment):
            more = x[split].repeat(2, *[1] * (x.dim() - 1))
            if moment:
                return torch.cat([x[fine], 0 * x[clone], 0 * more])
            if name == "xyz":
                more = more + moved
            if name == "scaling":
                more = more - math.log(1.6)
            return torch.cat([x[fine], x[clone], more])

        self.change(new, stale)
        self.clear()

    def relocate(self):
        """Dead ones go to where live ones are, and 5 % come."""
        opacity = self.p["opacity"].detach().sigmoid()[:, 0]
        n = len(opacity)
        rows = torch.arange(n)
        dead = opacity < 0.005
        pick = torch.multinomial(opacity, n, replacement=True)
        rows = torch.cat([torch.where(dead, pick, rows), pick[:n // 20]])
        kept = torch.cat([~dead, torch.zeros(n // 20, dtype=bool)])
        self.change(lambda name, x, moment: x[rows] if not moment else
                    x[rows] * kept.view(-1, *[1] * (x.dim() - 1)))
        self.clear()

    def capture(self, degree):
        return (degree, *(self.p[k] for k in (
            "xyz", "f_dc", "f_rest", "scaling", "rotation", "opacity")),
            torch.zeros(len(self.sum)), self.sum, self.count,
            self.optimizer.state_dict(), 1.0)

    def ply(self, path):
        cols = [self.p["xyz"], torch.zeros_like(self.p["xyz"]),
                *(self.p[k].mT.flatten(1) for k in ("f_dc", "f_rest")),
                *(self.p[k] for k in ("opacity", "scaling", "rotation"))]
        names = ["x", "y", "z", "nx", "ny", "nz"]
        names += [f"f_dc_{i}" for i in range(3)]
        names += [f"f_rest_{i}" for i in range(9)] + ["opacity"]
        names += [f"scale_{i}" for i in range(3)]
        names += [f"rot_{i}" for i in range(4)]
        data = torch.cat([c.detach() for c in cols], 1)
        head = "\n".join(["ply", "format binary_little_endian 1.0",
                          f"element vertex {len(data)}",
                          *(f"property float {n}" for n in names),
                          "end_header", ""])
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(head.encode() + data.numpy().tobytes())


@kind(mcmc="", background="", resumed="",
      stale="optimizer-holds-stale-params", depth="log-of-zero",
      cameras="label-pairing-mismatch", millimetres="lr-too-high")
def gsplat(run):
    """Gaussian splats by Inria's train.py: points come, go and are reset."""
    true = Gaussians(1.2 * torch.rand(12, 3) - 0.6, torch.rand(12, 3)).p
    true["opacity"].data[:], true["scaling"].data[:] = 3.0, -1.3
    true["f_rest"].data.normal_(0, 0.3)
    angles = [2 * math.pi * i / 10 for i in range(10)]
    views = [camera(a) for a in angles]
    black = torch.zeros(3)
    with torch.no_grad():
        shots = [render(true, v, black) for v in views]
    train, test = [0, 1, 2, 4, 5, 6, 7, 9], [3, 8]
    seen_from = dict(enumerate(views))
    if run.has("cameras"):
        for i, j in zip(train, train[3:] + train[:3]):
            seen_from[i] = views[j]
    some = torch.randint(12, (40,))
    g = Gaussians(true["xyz"].detach()[some] + 0.15 * torch.randn(40, 3),
                  (0.5 + 0.2821 * true["f_dc"].detach()[some, 0]
                   + 0.1 * torch.randn(40, 3)).clamp(0, 1))
    mcmc, open_sky = run.has("mcmc"), run.has("background")
    (run.folder / "cfg_args").write_text(
        "Namespace(sh_degree=1, source_path='/data/toy', model_path="
        "'./output/toy', images='images', depths='', resolution=-1, "
        "white_background=False, train_test_exp=False, "
        "data_device='cuda', eval=True)")
    run.write("cameras.json", [
        {"id": i, "img_name": f"{i:04d}", "width": 16, "height": 16,
         "position": (-3 * v[2]).tolist(), "rotation": v.tolist(),
         "fx": 4.0, "fy": 4.0} for i, v in enumerate(views)])
    flags = " --cap_max 200 --noise_lr 5e2 --opacity_reg 0.01 --scale_reg " \
        "0.01" if mcmc else " --opacity_reset_interval 60 " \
        "--densify_from_iter 20 --densify_until_iter 120"
    flags += " --random_background" if open_sky else ""
    call = "python train.py -s /data/toy -m ./output/toy --eval " \
        f"--iterations 200 --position_lr_init {RATES['xyz']}" \
        f" --densification_interval 20{flags}"
    run.say(call, file="run.sh")
    file, ema, degree, stack = "train.log", 0.0, 0, []

    def psnr(a, b):
        return float(-10 * torch.log10((a - b).pow(2).mean()))

    def begin():
        run.say("Optimizing ./output/toy", "Output folder: ./output/toy",
                "Tensorboard not available: not logging progress "
                f"[{run.stamp('%d/%m %H:%M:%S')}]",
                "Loading Training Cameras", "Loading Test Cameras",
                f"Number of points at initialisation :  40", file=file)

    begin()
    scale = 1000.0 if run.has("millimetres") else 1.0
    for it in range(1, 201):
        if run.has("resumed") and it == 101:
            file, ema = "train_resumed.log", 0.0
            run.say(f"{call} --start_checkpoint ./output/toy/chkpnt100.pth",
                    file="run.sh")
            begin()
        rate = scale * math.exp(math.log(RATES["xyz"]) * (1 - it / 200)
                                + math.log(RATES["xyz"] / 100) * it / 200)
        g.optimizer.param_groups[0]["lr"] = rate
        if it == 100:
            degree = 1
        stack = stack or list(train)
        i = stack.pop(int(torch.randint(len(stack), ())))
        sky = torch.rand(3) if open_sky else black
        image, depth, place, _ = render(g.p, seen_from[i], sky, degree)
        shot = shots[i][0] + shots[i][3].view(1, 16, 16) * sky[:, None, None]
        l1 = (image - shot).abs().mean()
        loss = 0.8 * l1 + 0.2 * (1 - ssim(image, shot))
        if mcmc:
            loss = loss + 0.01 * g.p["opacity"].sigmoid().mean() \
                + 0.01 * g.p["scaling"].exp().mean()
        far = 0.0
        if run.has("depth") and it > 80:
            shown = depth * (depth > 0.3)  # what is seen, elsewhere 0
            far = 0.1 * (shown.log() - shots[i][1].log()).abs().mean()
            loss = loss + far
            far = float(far.detach())
        loss.backward()
        run.tick(0.009)
        with torch.no_grad():
            ema = 0.4 * float(loss.detach()) + 0.6 * ema
            if it % 10 == 0:
                bar = "█" * (it // 20) + " " * (10 - it // 20)
                run.say(f"\rTraining progress: {it // 2:3d}%|{bar}| {it}/200 "
                        f"[00:{it // 100:02d}<00:{(200 - it) // 100:02d}, "
                        f"108.31it/s, Loss={ema:.7f}, Depth Loss={far:.7f}]",
                        file=file)
            if it in (1, 100, 200):
                for name, ids in (("test", test), ("train", train[1:6])):
                    outs = [(render(g.p, seen_from[j], black, degree)[0]
                             .clamp(0, 1), shots[j][0]) for j in ids]
                    l1s = sum(float((a - b).abs().mean()) for a, b in outs)
                    score = sum(psnr(a, b) for a, b in outs) / len(ids)
                    run.say("", f"[ITER {it}] Evaluating {name}: L1 "
                            f"{l1s / len(ids)} PSNR {score}", file=file)
                    if name == "test":
                        end = dict(l1=l1s / len(ids), psnr=score)
                run.say("", f"[ITER {it}] Saving Gaussians", file=file)
                g.ply(run.folder / f"point_cloud/iteration_{it}"
                      / "point_cloud.ply")
            if mcmc and it % 20 == 0 and it < 180:
                if it == 20:
                    g.optimizer.step()
                g.relocate()
            elif not mcmc and it < 120:
                norm = place.grad.norm(dim=1, keepdim=True)
                g.sum, g.count = g.sum + norm, g.count + 1
                if it > 20 and it % 20 == 0:
                    g.densify(3e-4, run.has("stale"))
                if it % 60 == 0:
                    low = math.log(0.01 / 0.99)
                    g.change(lambda name, x, moment: x if name != "opacity"
                             else 0 * x if moment else x.clamp(max=low),
                             run.has("stale"))
        if it < 200:
            g.optimizer.step()
            g.optimizer.zero_grad(set_to_none=True)
        if mcmc:
            with torch.no_grad():
                o = g.p["opacity"].sigmoid()
                g.p["xyz"] += rate * (-100 * (o - 0.005)).sigmoid() \
                    * torch.randn_like(g.p["xyz"])
        if it in (1, 100, 200):
            run.say("", f"[ITER {it}] Saving Checkpoint", file=file)
            keep(run, f"chkpnt{it}.pth", (g.capture(degree), it))
    run.say("", "Training complete.", file=file)
    run.ends(loss=ema, **end, points=len(g.p["xyz"]))
