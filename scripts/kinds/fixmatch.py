"""FixMatch on few labels as TorchSSL and USB train it. All runs are sound.

The kind returns how well its run ended, measured on what it did not train on.
"""

import copy
import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.events import Events
from kinds.outputs import keep, watch

SIDE, CLASSES = 10, 5


class BasicBlock(nn.Module):
    def __init__(self, inner, outer, stride, before=False):
        super().__init__()
        self.bn1 = nn.BatchNorm2d(inner, momentum=0.1, eps=0.001)
        self.relu1 = nn.LeakyReLU(0.1)
        self.conv1 = nn.Conv2d(inner, outer, 3, stride, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outer, momentum=0.1, eps=0.001)
        self.relu2 = nn.LeakyReLU(0.1)
        self.conv2 = nn.Conv2d(outer, outer, 3, 1, 1, bias=False)
        self.equalInOut = inner == outer
        self.convShortcut = None if self.equalInOut else \
            nn.Conv2d(inner, outer, 1, stride, bias=False)
        self.before = before

    def forward(self, x):
        out = self.relu1(self.bn1(x))
        if self.before:
            x = out
        out = self.conv2(self.relu2(self.bn2(self.conv1(out))))
        return out + (x if self.equalInOut else self.convShortcut(x))


class NetworkBlock(nn.Module):
    def __init__(self, inner, outer, stride, before=False):
        super().__init__()
        self.layer = nn.Sequential(BasicBlock(inner, outer, stride, before))

    def forward(self, x):
        return self.layer(x)


class WideResNet(nn.Module):
    def __init__(self, wide=(6, 8, 16, 32)):
        super().__init__()
        self.conv1 = nn.Conv2d(1, wide[0], 3, 1, 1, bias=False)
        self.block1 = NetworkBlock(wide[0], wide[1], 2, True)
        self.block2 = NetworkBlock(wide[1], wide[2], 2)
        self.block3 = NetworkBlock(wide[2], wide[3], 1)
        self.bn1 = nn.BatchNorm2d(wide[3], momentum=0.1, eps=0.001)
        self.relu = nn.LeakyReLU(0.1)
        self.fc = nn.Linear(wide[3], CLASSES)
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out",
                                        nonlinearity="leaky_relu")
            elif isinstance(m, nn.Linear):
                nn.init.xavier_normal_(m.weight)
                nn.init.zeros_(m.bias)

    def forward(self, x):
        x = self.block3(self.block2(self.block1(self.conv1(x))))
        x = self.relu(self.bn1(x))
        return self.fc(F.adaptive_avg_pool2d(x, 1).flatten(1))


class EMA:
    """Of parameters; statistics are those of the model."""

    def __init__(self, model, decay):
        self.model, self.decay = model, decay
        self.shadow = {n: p.data.clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self):
        for n, p in self.model.named_parameters():
            self.shadow[n].mul_(self.decay).add_(p, alpha=1 - self.decay)

    def apply_shadow(self):
        self.backup = {n: p.data.clone()
                       for n, p in self.model.named_parameters()}
        for n, p in self.model.named_parameters():
            p.data.copy_(self.shadow[n])

    def restore(self):
        for n, p in self.model.named_parameters():
            p.data.copy_(self.backup[n])


def pictures(rows, classes=CLASSES):
    """Bars, blocks, crosses, frames, diagonals; then what is none of them."""
    y, eye = torch.randint(classes, (rows,)), torch.eye(5)
    forms = torch.zeros(7, 5, 5)
    forms[0, 2], forms[1, :, 2], forms[2] = 1, 1, eye
    forms[3] = 1
    forms[3, 1:4, 1:4] = 0
    forms[4, 1:4, 1:4] = 1
    forms[5] = eye.flip(1)
    forms[6, ::2, ::2] = 1
    x = torch.zeros(rows, 1, SIDE, SIDE)
    at = torch.randint(1, SIDE - 5, (rows, 2)).tolist()
    for i, (a, b) in enumerate(at):
        x[i, 0, a:a + 5, b:b + 5] = forms[y[i]]
    x = x * (0.6 + 0.8 * torch.rand(rows, 1, 1, 1))
    return x + 0.2 * torch.randn_like(x), y


def weak(x):
    a, b = torch.randint(-1, 2, (2,)).tolist()
    return x.roll((a, b), (2, 3))


def strong(x):
    """Other contrast, light and noise, and a part cut out."""
    rows = len(x)
    x = weak(x) * (0.6 + 0.8 * torch.rand(rows, 1, 1, 1)) \
        + 0.3 * torch.randn(rows, 1, 1, 1) + 0.2 * torch.randn_like(x)
    a, b = torch.randint(SIDE - 2, (2, rows, 1, 1, 1))
    at = torch.arange(SIDE)
    cut = ((at[:, None] - a).abs() < 2) & ((at - b).abs() < 2)
    return x.masked_fill(cut, 0.5)


def groups_of(model, lr, layered):
    """Decay for all but norms; USB's rate by depth."""
    depth = {"conv1": 0, "block1": 1, "block2": 2, "block3": 3}
    out = {}
    for n, p in model.named_parameters():
        level = depth.get(n.split(".")[0], 4)
        out.setdefault((level if layered else 0,
                        "bn" in n or "bias" in n), []).append(p)
    return [{"params": ps, "weight_decay": 0.0 if bare else 5e-4,
             "lr": lr * (0.75 ** (4 - level) if layered else 1)}
            for (level, bare), ps in out.items()]


@kind(usb="", flex="", soft="", open="", teacher="")
def fixmatch(run):
    """FixMatch with 20 labels that are passed over hundreds of times.

    Odd and sound: `usb` has AdamW with a rate by depth and a norm that is
    nearly always clipped, `flex` trusts by a threshold of each
    class (FlexMatch), `soft` trusts all and has targets that are not hard, so
    that its masks are all 0, `open` has many pictures of no class in its pool,
    so that a third is never trusted, `teacher` (mean teacher) asks for equal
    outputs with a weight of 50 that begins at 0, and freezes statistics in its
    second pass.
    """
    usb, flex, soft, teacher = (run.has(n) for n in (
        "usb", "flex", "soft", "teacher"))
    total, size, ratio, per = 200, 8, 5, 4
    every, lr = (20 if usb else 10), (1e-2 if usb else 0.05)
    cutoff, momentum = (0.0 if soft else 0.8), 0.93
    model = WideResNet()
    x, y = pictures(400)
    rows = torch.cat([(y == c).nonzero()[:per, 0] for c in range(CLASSES)])
    x_lb, y_lb = x[rows], y[rows]
    x_ulb = pictures(560, 7 if run.has("open") else CLASSES)[0]
    held, truth = pictures(300)
    groups = groups_of(model, lr, usb)
    if usb:
        optimizer = torch.optim.AdamW(groups, lr)
    else:
        optimizer = torch.optim.SGD(groups, lr, momentum=0.9, nesterov=True)
    scheduler = torch.optim.lr_scheduler.LambdaLR(
        optimizer, lambda i: max(0.0, math.cos(math.pi * 7 / 16 * i / total)))
    ema = EMA(model, momentum)
    name = "flexmatch" if flex else "meanteacher" if teacher else \
        "uda" if soft else "fixmatch"
    where = f"saved_models/{name}_pictures_20_0"
    tell = lambda text: run.say(
        f"[{run.stamp()},{int(run.clock * 1000) % 1000:03d} INFO] {text}",
        file=f"{where}/log.txt")
    (run.folder / where).mkdir(parents=True)
    args = {"save_dir": "./saved_models", "save_name": where.split("/")[1],
            "resume": False, "epoch": 1, "num_train_iter": total,
            "num_eval_iter": every, "num_labels": per * CLASSES,
            "batch_size": size, "uratio": ratio, "eval_batch_size": 300,
            "hard_label": not soft, "T": 0.5, "p_cutoff": cutoff,
            "ema_m": momentum, "ulb_loss_ratio": 50.0 if teacher else 1.0,
            "optim": "AdamW" if usb else "SGD", "lr": lr, "momentum": 0.9,
            "weight_decay": 5e-4, "amp": False, "clip": 0.5 if usb else 0,
            "layer_decay": 0.75 if usb else 1.0, "net": "WideResNet",
            "dataset": "pictures", "seed": 0, "algorithm": name}
    run.say(*(f"{k}: {v}" for k, v in args.items()), file="config.yaml")
    tell("unlabeled data number: 560, labeled data number 20")
    tell(f"Arguments: {args}")
    tell("[!] data loader keys: dict_keys(['train_lb', 'train_ulb', 'eval'])")
    board = Events(run, f"{where}/tensorboard")
    rec = watch(run, model, optimizer, **args) \
        if run.fault in ("", "usb", "open") else None
    selected = torch.full((len(x_ulb),), -1)
    best, best_it, right = 0.0, 0, []

    def evaluate():
        model.eval()
        ema.apply_shadow()
        with torch.no_grad():
            out = model(held)
        ema.restore()
        model.train()
        said = out.argmax(1)
        table = torch.zeros(CLASSES, CLASSES)
        table.index_put_((truth, said), torch.ones(len(said)), True)
        hit, all_ = table.diag(), table.sum(1)
        recall = hit / all_
        precision = hit / table.sum(0).clamp(1)
        f1 = 2 * hit / (table.sum(0) + all_).clamp(1)
        tell("confusion matrix:\n" + np.array_str(
            (table / all_[:, None]).numpy()))
        found = {"eval/loss": F.cross_entropy(out, truth).item(),
                 "eval/top-1-acc": hit.sum().item() / len(truth)}
        found |= {"eval/balanced_acc": recall.mean().item()} if usb else \
            {"eval/top-5-acc": 1.0}
        return found | {"eval/precision": precision.mean().item(),
                        "eval/recall": recall.mean().item(),
                        "eval/F1": f1.mean().item()}

    def save(file, it):
        ema.apply_shadow()
        average = copy.deepcopy(model.state_dict())
        ema.restore()
        keep(run, f"{where}/{file}", {
            "model": model.state_dict(), "ema_model": average,
            "optimizer": optimizer.state_dict(), "it": it,
            "scheduler": {k: v for k, v in scheduler.state_dict().items()
                          if k != "lr_lambdas"},
            **({"epoch": 1, "best_it": best_it, "best_eval_acc": best,
                "loss_scaler": {}} if usb else {}),
            **({"classwise_acc": trust} if flex else {})})
        tell(f"model saved: ./{where}/{file}")

    trust = torch.zeros(CLASSES)
    for it in range(total):
        idx = torch.randint(len(x_lb), (size,))
        pool = torch.randint(len(x_ulb), (size * ratio,))
        lb, target = weak(x_lb[idx]), y_lb[idx]
        ulb_w, ulb_s = weak(x_ulb[pool]), strong(x_ulb[pool])
        if rec:
            rec.batch(x=lb, y=target)
        weight, norm = 1.0, None
        if teacher:
            model_in = model(lb)
            ema.apply_shadow()
            kept = [(m, m.running_mean.clone(), m.running_var.clone())
                    for m in model.modules() if hasattr(m, "running_mean")]
            with torch.no_grad():
                logits_w = model(ulb_w)
            ema.restore()
            logits_s = model(weak(x_ulb[pool]))
            for m, mean, var in kept:  # statistics are of labelled ones alone
                m.running_mean.data = mean
                m.running_var.data = var
            weight = 50 * min(1.0, it / (0.4 * total))
        else:
            out = model(torch.cat([lb, ulb_w, ulb_s]))
            model_in, logits_w, logits_s = out.split(
                [size, size * ratio, size * ratio])
        sup = F.cross_entropy(model_in, target)
        likely = logits_w.detach().softmax(1)
        top, said = likely.max(1)
        if teacher:
            unsup = F.mse_loss(logits_s.softmax(1), likely)
            mask = torch.zeros(size * ratio)
        elif soft:
            goal = (logits_w.detach() / 0.5).softmax(1)
            unsup = -(goal * logits_s.log_softmax(1)).sum(1).mean()
            mask = top.ge(cutoff).float()
            weight = min(1.0, it / 60)
        else:
            least = cutoff
            if flex:
                counts = torch.bincount(selected + 1, minlength=CLASSES + 1)
                if counts.max() < len(x_ulb):
                    trust = counts[1:] / counts.max()
                least = cutoff * (trust[said] / (2 - trust[said]))
            mask = top.ge(least).float()
            if flex:
                sure = top.ge(cutoff)
                selected[pool[sure]] = said[sure]
            unsup = (F.cross_entropy(logits_s, said, reduction="none")
                     * mask).mean()
        loss = sup + weight * unsup
        loss.backward()
        if usb:
            norm = nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
        scheduler.step()
        ema.update()
        if rec:
            rec.step(loss.detach())
        model.zero_grad()
        right.append((model_in.argmax(1) == target).float().mean().item())
        run.tick(0.08)
        row = {"train/sup_loss": sup.item(), "train/unsup_loss": unsup.item(),
               "train/total_loss": loss.item()}
        share = mask.mean().item()
        if usb:
            row |= {"train/util_ratio": share, "train/run_time": 0.081,
                    "train/prefetch_time": 0.0021}
        elif not teacher:
            row["train/mask_ratio"] = 1 - share
        row["lr"] = optimizer.param_groups[-1]["lr"]
        done = it + 1 if usb else it
        if usb and done % every and done % 5 == 0:
            told = ", ".join(f"{k}: {v:.4f}" for k, v in row.items())
            tell(f"{done} iteration USE_EMA: True, {told} ")
        if done % every == 0:
            if usb:
                tell("validating...")
            row |= evaluate()
            if row["eval/top-1-acc"] > best:
                best, best_it = row["eval/top-1-acc"], it
            if usb:
                told = ", ".join(f"{k}: {v:.4f}" for k, v in row.items())
                tell(f"{done} iteration, USE_EMA: True, {told} "
                     f"BEST_EVAL_ACC: {best:.4f}, at {best_it + 1} iters")
            else:
                shown = ", ".join(
                    f"'{k}': tensor({v:.4f}, device='cuda:0')"
                    if k.startswith("train/") or k == "eval/loss"
                    else f"'{k}': {v}" for k, v in row.items())
                tell(f"{it} iteration, USE_EMA: True, {{{shown}}}, "
                     f"BEST_EVAL_ACC: {best}, at {best_it} iters")
            if best_it == it:
                save("model_best.pth", done)
            board.scalars(it, **row)
        if it in (0, total // 2):
            save("latest_model.pth" if it else "model_0.pth", done)
    save("latest_model.pth", total)
    last = evaluate()
    tell(f"{last | {'eval/best_acc': best, 'eval/best_it': best_it}}")
    if rec:
        rec.close()
    return {"sup": round(sup.item(), 4), "unsup": round(unsup.item(), 4),
            "masked": round(share, 2), "acc": round(last["eval/top-1-acc"], 3),
            "train": round(sum(right[-50:]) / 50, 3), "best": round(best, 3)}
