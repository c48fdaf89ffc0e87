"""Deep equilibrium models: one layer, solved for what it maps to itself.

All its runs are sound; the kind returns what its last test measured.
"""

import math
import random
import sys
import types

import numpy as np
import torch
from torch import autograd, nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.data import stripes, text
from kinds.events import Events
from kinds.outputs import keep, watch

DIM, HEADS, INNER, LETTERS, LONG, ROWS = 32, 2, 64, 20, 16, 8


def anderson(f, x0, m=5, lam=1e-4, threshold=9, eps=1e-3, stop_mode="rel"):
    """Anderson acceleration as in lib/solvers.py."""
    bsz, wide = len(x0), x0[0].numel()
    xs, fs = torch.zeros(bsz, m, wide), torch.zeros(bsz, m, wide)
    xs[:, 0], fs[:, 0] = x0.flatten(1), f(x0).flatten(1)
    xs[:, 1], fs[:, 1] = fs[:, 0], f(fs[:, 0].view_as(x0)).flatten(1)
    h, y = torch.zeros(bsz, m + 1, m + 1), torch.zeros(bsz, m + 1, 1)
    h[:, 0, 1:] = h[:, 1:, 0] = 1
    y[:, 0] = 1
    trace, lowest, at, best = [], 1e8, 0, x0
    for k in range(2, threshold):
        n = min(k, m)
        g = fs[:, :n] - xs[:, :n]
        h[:, 1:n + 1, 1:n + 1] = g @ g.mT + lam * torch.eye(n)
        alpha = torch.linalg.solve(h[:, :n + 1, :n + 1],
                                   y[:, :n + 1])[:, 1:n + 1, 0]
        xs[:, k % m] = (alpha[:, None] @ fs[:, :n])[:, 0]
        fs[:, k % m] = f(xs[:, k % m].view_as(x0)).flatten(1)
        gap = (fs[:, k % m] - xs[:, k % m]).norm().item()
        if stop_mode == "rel":
            gap /= 1e-5 + fs[:, k % m].norm().item()
        trace.append(gap)
        if gap < lowest:
            lowest, at = gap, k
            best = xs[:, k % m].view_as(x0).clone().detach()
        if gap < eps:
            break
    return {"result": best, "lowest": lowest, "nstep": at, "trace": trace}


class WeightNorm:
    """A weight from its length and direction, made anew at reset()."""

    def __init__(self, module):
        weight = module.weight
        del module._parameters["weight"]
        module.weight_g = nn.Parameter(self.norm(weight).data)
        module.weight_v = nn.Parameter(weight.data)
        self.reset(module)

    def norm(self, p):
        return p.flatten(1).norm(dim=1).view(-1, *[1] * (p.dim() - 1))

    def reset(self, module):
        module.weight = module.weight_v * (
            module.weight_g / self.norm(module.weight_v))


class WeightSharePositionwiseFF(nn.Module):
    def __init__(self, pre_lnorm):
        super().__init__()
        self.ff1_net, self.ff2_net = nn.Linear(DIM, INNER), \
            nn.Linear(INNER, DIM)
        self.pre_lnorm = pre_lnorm

    def forward(self, x):
        x = x.mT
        if self.pre_lnorm:
            x = F.layer_norm(x, (DIM,))
        x = self.ff2_net(F.relu(self.ff1_net(x))) + x
        return (x if self.pre_lnorm else F.layer_norm(x, (DIM,))).mT


class WeightShareSelfAttention(nn.Module):
    def __init__(self, pre_lnorm):
        super().__init__()
        self.qkv_net = nn.Conv1d(DIM, 3 * DIM, 1, bias=False)
        self.r_net = nn.Conv1d(DIM, DIM, 1, bias=False)
        self.r_w_bias = nn.Parameter(torch.rand(
            HEADS, DIM // HEADS).uniform_(-0.05, 0.05))
        self.r_r_bias = nn.Parameter(torch.rand(
            HEADS, DIM // HEADS).uniform_(-0.05, 0.05))
        self.o_net = nn.Conv1d(DIM, DIM, 1)
        self.pre_lnorm = pre_lnorm

    def forward(self, z, pos, u, mems):
        bsz, _, long = z.shape
        cat = torch.cat([mems, z], -1)
        if self.pre_lnorm:
            cat = F.layer_norm(cat.mT, (DIM,)).mT
        q, k, v = (h.unflatten(1, (HEADS, -1)) for h in
                   (self.qkv_net(cat) + u).chunk(3, 1))
        q, klen = q[..., -long:], k.shape[-1]
        r = self.r_net(pos)[0].unflatten(0, (HEADS, -1))
        ac = torch.einsum("bndi,bndj->bnij", q + self.r_w_bias[..., None], k)
        bd = torch.einsum("bndi,ndj->bnij", q + self.r_r_bias[..., None], r)
        bd = F.pad(bd, (1, 0)).view(bsz, HEADS, klen + 1, long)[:, :, 1:] \
            .reshape(bd.shape)
        hidden = torch.ones(long, klen).triu(1 + klen - long) > 0
        score = (ac + bd) * (DIM // HEADS) ** -0.5
        prob = score.masked_fill(hidden, -math.inf).softmax(-1)
        vec = torch.einsum("bnij,bndj->bndi", prob, v).flatten(1, 2)
        out = self.o_net(vec) + z
        return out if self.pre_lnorm else F.layer_norm(out.mT, (DIM,)).mT


class RelPartialLearnableDecoderLayer(nn.Module):
    def __init__(self, pre_lnorm, wnorm):
        super().__init__()
        self.dec_attn = WeightShareSelfAttention(pre_lnorm)
        self.pos_ff = WeightSharePositionwiseFF(pre_lnorm)
        self.norms = [(WeightNorm(m), m) for m in (
            self.dec_attn.qkv_net, self.dec_attn.r_net, self.dec_attn.o_net,
            self.pos_ff.ff1_net, self.pos_ff.ff2_net)] if wnorm else []

    def reset(self):
        for norm, module in self.norms:
            norm.reset(module)

    def forward(self, z, u, mems, pos):
        return self.pos_ff(self.dec_attn(z, pos, u, mems))


class AdaptiveEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb_layers = nn.ModuleList([nn.Embedding(LETTERS, DIM)])

    def forward(self, ids):
        return self.emb_layers[0](ids) * DIM ** 0.5


class PositionalEmbedding(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("inv_freq", 1 / 10000 ** (
            torch.arange(0, DIM, 2.0) / DIM))

    def forward(self, at):
        wave = torch.outer(self.inv_freq, at)
        return torch.cat([wave.sin(), wave.cos()])[None]


class ProjectedAdaptiveLogSoftmax(nn.Module):
    def __init__(self):
        super().__init__()
        self.out_layers = nn.ModuleList([nn.Linear(DIM, LETTERS)])

    def forward(self, hidden, target):
        return F.cross_entropy(self.out_layers[0](hidden), target,
                               reduction="none")


class DEQTransformerLM(nn.Module):
    def __init__(self, pretrain_steps=0, pre_lnorm=False, wnorm=False,
                 stop_mode="rel", phantom=False):
        super().__init__()
        self.word_emb = AdaptiveEmbedding()
        self.pretrain_steps, self.n_layer = pretrain_steps, 2
        self.inject_conv = nn.Conv1d(DIM, 3 * DIM, 1)
        self.pos_emb = PositionalEmbedding()
        self.func = RelPartialLearnableDecoderLayer(pre_lnorm, wnorm)
        self.hook, self.stop_mode = None, stop_mode
        self.phantom, self.told = phantom, {}
        self.crit = ProjectedAdaptiveLogSoftmax()
        self.crit.out_layers[0].weight = self.word_emb.emb_layers[0].weight

    def forward(self, data, target, mems, train_step=-1, f_thres=9,
                b_thres=9, jac=False):
        self.func.reset()
        u1 = self.inject_conv(self.word_emb(data.T).mT)
        if mems:
            z0, u0 = mems
        else:
            z0, u0 = u1.new_zeros(len(u1), DIM, 0), \
                u1.new_zeros(len(u1), 3 * DIM, 0)
        us = torch.cat([u0, u1], 2)
        pos = self.pos_emb(torch.arange(us.shape[2] - 1, -1, -1.0))
        z, jac_loss = u1.new_zeros(len(u1), DIM, len(data)), torch.zeros(())
        f = lambda z: self.func(z, us, z0, pos)
        self.told = {"mode": "pretrain", "f_nstep": None, "f_lowest": None,
                     "b_nstep": None, "b_lowest": None}
        if 0 <= train_step < self.pretrain_steps:
            for _ in range(self.n_layer):
                z = f(z)
            new = z
        else:
            with torch.no_grad():
                found = anderson(f, z, threshold=f_thres,
                                 stop_mode=self.stop_mode)
            z = new = found["result"]
            self.told |= {"mode": "deq", "f_nstep": found["nstep"],
                          "f_lowest": found["lowest"]}
            if self.training and self.phantom:
                for _ in range(3):  # the gradient of three damped steps
                    new = 0.5 * new + 0.5 * f(new)
            elif self.training:
                z.requires_grad_()
                new = f(z)
                if jac:
                    v = torch.randn_like(z)
                    vj = autograd.grad(new, z, v, retain_graph=True,
                                       create_graph=True)[0]
                    jac_loss = vj.norm() ** 2 / z.numel()

                def backward_hook(grad):
                    self.hook.remove()
                    self.hook = None
                    back = anderson(
                        lambda y: autograd.grad(new, z, y, retain_graph=True)
                        [0] + grad, torch.zeros_like(grad),
                        threshold=b_thres, stop_mode=self.stop_mode)
                    self.told |= {"b_nstep": back["nstep"],
                                  "b_lowest": back["lowest"]}
                    return back["result"]

                self.hook = new.register_hook(backward_hook)
        keep_mems = [torch.cat([z0, new], 2)[..., -LONG:].detach(),
                     us[..., -LONG:].detach()]
        loss = self.crit(new.permute(2, 0, 1).flatten(0, 1),
                         target.flatten())
        return loss.view(len(data), -1), jac_loss, keep_mems


PLACES = {"models.deq_transformer": [
    WeightSharePositionwiseFF, WeightShareSelfAttention,
    RelPartialLearnableDecoderLayer, DEQTransformerLM],
    "lib.optimizations": [WeightNorm],
    "utils.adaptive_embedding": [AdaptiveEmbedding],
    "utils.positional_embedding": [PositionalEmbedding],
    "utils.proj_adaptive_softmax": [ProjectedAdaptiveLogSoftmax]}


def keep_whole(run, name, model):
    """model.pt names classes where DEQ-Sequence has them."""
    before = dict(sys.modules)
    for path, those in PLACES.items():
        for part in (path.split(".")[0], path):
            sys.modules[part] = types.ModuleType(part)
        for one in those:
            one.__module__ = path
            setattr(sys.modules[path], one.__name__, one)
    try:
        keep(run, name, model)
    finally:
        for path in PLACES:
            for part in (path.split(".")[0], path):
                sys.modules.pop(part, None)
                if part in before:
                    sys.modules[part] = before[part]


def weights_init(m):
    if isinstance(m, (nn.Linear, nn.Conv1d, nn.Embedding)):
        with torch.no_grad():  # of a normed weight only what is thrown away
            m.weight.normal_(0, 0.1)
            if getattr(m, "bias", None) is not None:
                m.bias.zero_()


class ResNetLayer(nn.Module):
    def __init__(self, n_channels, n_inner_channels, num_groups=4):
        super().__init__()
        self.conv1 = nn.Conv2d(n_channels, n_inner_channels, 3, padding=1,
                               bias=False)
        self.conv2 = nn.Conv2d(n_inner_channels, n_channels, 3, padding=1,
                               bias=False)
        self.norm1 = nn.GroupNorm(num_groups, n_inner_channels)
        self.norm2 = nn.GroupNorm(num_groups, n_channels)
        self.norm3 = nn.GroupNorm(num_groups, n_channels)
        self.conv1.weight.data.normal_(0, 0.01)
        self.conv2.weight.data.normal_(0, 0.01)

    def forward(self, z, x):
        y = self.norm1(F.relu(self.conv1(z)))
        return self.norm3(F.relu(z + self.norm2(x + self.conv2(y))))


class DEQFixedPoint(nn.Module):
    def __init__(self, f, tol, max_iter):
        super().__init__()
        self.f, self.tol, self.max_iter = f, tol, max_iter

    def forward(self, x):
        solve = lambda g, at: anderson(g, at, eps=self.tol,
                                       threshold=self.max_iter)
        with torch.no_grad():
            found = solve(lambda z: self.f(z, x), torch.zeros_like(x))
            z = found["result"]
        self.forward_res = found["trace"]
        if not torch.is_grad_enabled():
            return z
        z = self.f(z, x)
        z0 = z.clone().detach().requires_grad_()
        f0 = self.f(z0, x)

        def backward_hook(grad):
            back = solve(lambda y: autograd.grad(
                f0, z0, y, retain_graph=True)[0] + grad, grad)
            self.backward_res = back["trace"]
            return back["result"]

        z.register_hook(backward_hook)
        return z


def convolved(run):
    """The tutorial on implicit layers: chapter 4, with one cycle."""
    epochs, size, rows, chan = 11, 32, 256, 8
    model = nn.Sequential(
        nn.Conv2d(1, chan, 3, padding=1), nn.BatchNorm2d(chan),
        DEQFixedPoint(ResNetLayer(chan, 12), 1e-3, 9), nn.BatchNorm2d(chan),
        nn.AvgPool2d(4, 4), nn.Flatten(), nn.Linear(chan * 4, 4))
    x, y = stripes(rows + 128, 8)
    x = (x - 0.5) / 0.25
    total = epochs * rows // size
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    plan = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1.5e-2, total)
    rec = watch(run, model, optimizer, tol=1e-3, max_iter=9)
    run.settings("args.json", epochs=epochs, batch_size=size, max_lr=1.5e-2,
                 solver="anderson", tol=1e-3, max_iter=9, m=5)
    keep(run, "deq_000.pth", model.state_dict())
    layer = model[2]
    for epoch in range(epochs):
        losses, wrong, res, back = [], 0, [], []
        model.train()
        for at in torch.randperm(rows).split(size):
            rec.batch(input=x[at], labels=y[at])
            said = model(x[at])
            loss = F.cross_entropy(said, y[at])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rec.step(loss.detach())
            plan.step()
            run.tick(0.2)
            losses.append(loss.item())
            wrong += (said.argmax(1) != y[at]).sum().item()
            res.append(layer.forward_res)
            back.append(layer.backward_res)
        model.eval()
        with torch.no_grad():
            said = model(x[rows:])
            test = F.cross_entropy(said, y[rows:]).item()
            error = (said.argmax(1) != y[rows:]).float().mean().item()
        run.row("metrics.csv", epoch=epoch, train_loss=np.mean(losses),
                train_err=wrong / rows, test_loss=test, test_err=error,
                forward_iters=np.mean([len(r) + 2 for r in res]),
                forward_res=np.mean([min(r) for r in res]),
                backward_iters=np.mean([len(r) + 2 for r in back]),
                backward_res=np.mean([min(r) for r in back]),
                lr=plan.get_last_lr()[0],
                beta1=optimizer.param_groups[0]["betas"][0])
        run.say(f"{wrong / rows:.4f}, {np.mean(losses):.4f} | {error:.4f}, "
                f"{test:.4f}")
        if epoch + 1 in (epochs // 2, epochs):
            keep(run, f"deq_{epoch + 1:03d}.pth", model.state_dict())
    rec.close()
    return {"err": round(error, 4), "loss": round(test, 4),
            "forward": round(np.mean([min(r) for r in res]), 5)}


@kind(reg="", wnorm="", phantom="", conv="")
def deq(run):
    """A DEQ transformer by train_transformer.py; first unrolled, then solved.

    `jac nan` is the mean of no losses. Odd and sound: `reg` has a Jacobian
    loss in 40 percent of the steps whose weight falls to 0, `wnorm` weights of
    length and direction and an injection that is frozen, `phantom` stops by
    an absolute gap that is never reached, asks for other numbers of steps
    each time and has the gradient of three damped steps, `conv` is the
    tutorial's net whose weights begin at 0.01, logged per epoch alone.
    """
    if run.has("conv"):
        return convolved(run)
    reg, wnorm, phantom = (run.has(v) for v in ("reg", "wnorm", "phantom"))
    total, every, pre, lr = 120, 10, 0 if phantom else 40, 1e-2
    args = dict(
        data="../data/letters", dataset="wt103", n_layer=2, eval_n_layer=2,
        n_head=HEADS, d_head=DIM // HEADS, d_embed=DIM, d_model=DIM,
        d_inner=INNER, dropout=0.0, dropatt=0.0, init="normal",
        init_std=0.1, optim="Adam", lr=lr, scheduler="cosine",
        warmup_step=15, clip=0.25, max_step=total, batch_size=ROWS,
        batch_chunk=2 if phantom else 1, tgt_len=LONG, mem_len=LONG,
        f_solver="anderson", b_solver="None", stop_mode="abs" if phantom
        else "rel", rand_f_thres_delta=3 if phantom else 0, f_thres=9,
        b_thres=9, jac_loss_weight=0.4 if reg else 0.0,
        jac_loss_freq=0.4 if reg else 0.0, jac_decay=20 if reg else 0,
        pre_lnorm=False, wnorm=wnorm, freeze_inject=wnorm, seed=1111,
        log_interval=every, eval_interval=40, pretrain_steps=pre,
        start_train_steps=0, name=run.fault or "plain", tied=True,
        work_dir="LM-TFMdeq-wt103/20251009-085320")
    folder = args["work_dir"]
    log = lambda text: run.say(text, file=f"{folder}/log.txt")
    (run.folder / folder).mkdir(parents=True)
    model = DEQTransformerLM(pre, False, wnorm, args["stop_mode"], phantom)
    model.apply(weights_init)
    if wnorm:
        nn.init.normal_(model.inject_conv.weight, std=DIM ** -0.5)
        nn.init.normal_(model.word_emb.emb_layers[0].weight, std=0.15)
        model.inject_conv.requires_grad_(False)
    optimizer = torch.optim.Adam(model.parameters(), lr)
    plan = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)
    board = Events(run, "log/wt103/deq_F9_B9")
    rec = watch(run, model, optimizer, lr=lr, pretrain_steps=pre,
                freeze=["inject_conv"]) if wnorm else None
    log("=" * 100)
    for k, v in args.items():
        log(f"    - {k} : {v}")
    log("=" * 100)
    log(f"#params = {sum(p.numel() for p in model.parameters())}")
    ids = text(ROWS + 16, 480)
    train, valid, tests = ids[:ROWS].T, ids[ROWS:-8].T, ids[-8:].T

    def pieces(source):
        for i in range(0, len(source) - 1, LONG):
            yield source[i:i + LONG][:len(source) - 1 - i], \
                source[i + 1:i + 1 + LONG]

    @torch.no_grad()
    def evaluate(source, step):
        model.eval()
        mems, loss, count = None, 0.0, 0
        for data, target in pieces(source[:81]):
            out, _, mems = model(data, target, mems, step)
            loss, count = loss + out.sum().item(), count + out.numel()
        model.train()
        return loss / count

    def save(name):
        log(f"Saving weight state dict at {name}.pth")
        keep(run, f"{folder}/{name}.pth", model.state_dict())

    save("init")
    step, epoch, best, since, jacs = 0, 0, None, 0.0, []
    begun = told = run.clock
    weight = args["jac_loss_weight"]
    while step < total:
        epoch += 1
        mems = [None] * args["batch_chunk"]
        for batch, (data, target) in enumerate(pieces(train)):
            model.zero_grad()
            jac = random.random() < args["jac_loss_freq"]
            f_thres = 9 + random.randint(-args["rand_f_thres_delta"], 0)
            if rec:
                rec.batch(input_ids=data.T, labels=target.T)
            parts, now = args["batch_chunk"], 0.0
            for i, (d, t) in enumerate(zip(data.chunk(parts, 1),
                                           target.chunk(parts, 1))):
                loss, jac_loss, mems[i] = model(d, t, mems[i], step, f_thres,
                                                jac=jac)
                loss = loss.mean() / parts
                (loss + jac_loss * weight if jac and step >= pre
                 else loss).backward()
                now += loss.item()
            if jac:
                jacs.append(jac_loss.item())
            since += now
            norm = nn.utils.clip_grad_norm_(model.parameters(),
                                            0.25).item()
            optimizer.step()
            if rec:
                rec.step(torch.tensor(now), grad_norm=norm)
            step += 1
            if step < args["warmup_step"]:
                optimizer.param_groups[0]["lr"] = lr * step / 15
            else:
                optimizer.param_groups[0]["lr"] = lr * 0.5 * (
                    1 + math.cos(math.pi * step / total))
            run.tick(0.05 if step <= pre else 0.17)
            run.record("solver.jsonl", step=step, **model.told,
                       loss=now, grad_norm=norm)
            if step % every == 0:
                loss = since / every
                shown = float(np.mean(jacs)) if jacs else math.nan
                log(f"| epoch {epoch:3d} step {step:>8d} | {batch + 1:>6d} "
                    f"batches | lr {optimizer.param_groups[0]['lr']:.3g} | "
                    f"ms/batch {(run.clock - told) * 1000 / every:5.2f} | "
                    f"jac {shown:5.4f} | loss {loss:5.2f} | ppl "
                    f"{math.exp(loss):9.3f}")
                board.scalars(step, **{"result/train_loss": loss,
                                       "result/train_ppl": math.exp(loss)})
                since, jacs, told = 0.0, [], run.clock
            if step % 40 == 0:
                loss = evaluate(valid, step)
                log("-" * 100)
                log(f"| Eval {step // 40:3d} at step {step:>8d} | time: "
                    f"{run.clock - begun:5.2f}s | valid loss {loss:5.2f} | "
                    f"valid ppl {math.exp(loss):9.3f}")
                log("-" * 100)
                board.scalars(step, **{"result/valid_loss": loss,
                                       "result/valid_ppl": math.exp(loss)})
                if best is None or loss < best:
                    best = loss
                    keep_whole(run, f"{folder}/model.pt", model)
                    save("model_state_dict")
                    keep(run, f"{folder}/optimizer.pt",
                         optimizer.state_dict())
                begun = run.clock
            if step == pre:
                run.say("You are using pre-training, which has completed "
                        ":-)")
                save(f"pretrain_{step}_{args['name']}")
            if reg and step > pre and step % args["jac_decay"] == 0:
                weight = max(0.0, round(weight - 0.1, 2))
                log(f"Jac. regularization weight is {weight} after {step} "
                    "steps")
            if step == total // 2:
                save(f"step_{step}")
            if step == total:
                break
    if rec:
        rec.close()
    log("-" * 100)
    log("End of training")
    test = evaluate(tests, step)
    log("=" * 100)
    log(f"| End of training | test loss {test:5.2f} | test ppl "
        f"{math.exp(test):9.3f}")
    log("=" * 100)
    return {"valid": round(best, 4), "test": round(test, 4),
            "nstep": model.told["f_nstep"],
            "gap": round(model.told["f_lowest"], 4)}
