"""DETR by its own main.py: sets of boxes. Three designs look odd."""

import argparse
import functools
import json
from collections import deque

import torch
from scipy.optimize import linear_sum_assignment
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.maskrcnn import FrozenBatchNorm2d
from kinds.outputs import keep

CLASSES, DIM, HEADS, QUERIES, SIDE = 3, 32, 4, 5, 16
MEAN, STD = 0.2, 0.3


class Block(nn.Module):
    def __init__(self, ins, outs, stride=2):
        super().__init__()
        self.conv1 = nn.Conv2d(ins, outs, 3, stride, 1, bias=False)
        self.bn1 = FrozenBatchNorm2d(outs)
        self.conv2 = nn.Conv2d(outs, outs, 3, 1, 1, bias=False)
        self.bn2 = FrozenBatchNorm2d(outs)
        self.downsample = nn.Sequential(
            nn.Conv2d(ins, outs, 1, stride, bias=False),
            FrozenBatchNorm2d(outs))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out",
                                        nonlinearity="relu")

    def forward(self, x):
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(0.7 * out + 0.7 * self.downsample(x))


class Body(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False)
        nn.init.kaiming_normal_(self.conv1.weight, nonlinearity="relu")
        self.bn1 = FrozenBatchNorm2d(16)
        self.layer1 = nn.Sequential(Block(16, 16))
        self.layer2 = nn.Sequential(Block(16, 32))

    def forward(self, x):
        return self.layer2(self.layer1(F.relu(self.bn1(self.conv1(x)))))


class Layer(nn.Module):
    """Of the encoder, or with attention to the picture of the decoder."""

    def __init__(self, decoder):
        super().__init__()
        make = lambda: nn.MultiheadAttention(DIM, HEADS, batch_first=True)
        self.self_attn = make()
        self.multihead_attn = make() if decoder else None
        self.linear1, self.linear2 = nn.Linear(DIM, 64), nn.Linear(64, DIM)
        self.norm1, self.norm2 = nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.norm3 = nn.LayerNorm(DIM) if decoder else None

    def forward(self, x, pos, memory=None, place=None):
        q = x + pos
        x = self.norm1(x + self.self_attn(q, q, x, need_weights=False)[0])
        if memory is not None:
            x = self.norm2(x + self.multihead_attn(
                x + pos, memory + place, memory, need_weights=False)[0])
        y = self.linear2(F.relu(self.linear1(x)))
        return (self.norm3 or self.norm2)(x + y)


class MLP(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.layers = nn.ModuleList(map(nn.Linear, sizes, sizes[1:]))

    def forward(self, x):
        for layer in self.layers[:-1]:
            x = F.relu(layer(x))
        return self.layers[-1](x)


def sine(side):
    """Places of the picture, half for each axis."""
    at = (torch.arange(side) + 1) / side * 6.2832
    dim = 10000 ** (2 * (torch.arange(DIM // 2) // 2) / (DIM // 2))
    wave = at[:, None] / dim
    wave = torch.stack([wave[:, 0::2].sin(), wave[:, 1::2].cos()], 2)
    wave = wave.flatten(1)
    return torch.cat([wave[:, None].expand(-1, side, -1),
                      wave[None].expand(side, -1, -1)], 2).flatten(0, 1)


class DETR(nn.Module):
    def __init__(self, aux=True):
        super().__init__()
        self.transformer = nn.Module()
        for name in ("encoder", "decoder"):
            part = nn.Module()
            part.layers = nn.ModuleList(Layer(name == "decoder")
                                        for _ in range(2))
            setattr(self.transformer, name, part)
        self.transformer.decoder.norm = nn.LayerNorm(DIM)
        for p in self.transformer.parameters():
            if p.dim() > 1:
                nn.init.xavier_uniform_(p)
        self.class_embed = nn.Linear(DIM, CLASSES + 1)
        self.bbox_embed = MLP([DIM, DIM, DIM, 4])
        self.query_embed = nn.Embedding(QUERIES, DIM)
        self.input_proj = nn.Conv2d(32, DIM, 1)
        self.backbone = nn.ModuleList([nn.Module()])
        self.backbone[0].body = Body()
        for name, p in self.backbone.named_parameters():
            if "layer2" not in name:
                p.requires_grad_(False)

    def forward(self, x):
        x = self.input_proj(self.backbone[0].body(x))
        place = sine(x.shape[-1])
        x = x.flatten(2).mT
        for layer in self.transformer.encoder.layers:
            x = layer(x, place)
        query = self.query_embed.weight.expand(len(x), -1, -1)
        out, states = torch.zeros_like(query), []
        for layer in self.transformer.decoder.layers:
            out = layer(out, query, x, place)
            states.append(self.transformer.decoder.norm(out))
        return [(self.class_embed(h), self.bbox_embed(h).sigmoid())
                for h in states]


def corners(box):
    return torch.cat([box[..., :2] - box[..., 2:] / 2,
                      box[..., :2] + box[..., 2:] / 2], -1)


def overlaps(a, b):
    """IoU and generalised IoU of all pairs."""
    a, b = corners(a)[:, None], corners(b)[None]
    area = lambda x: (x[..., 2:] - x[..., :2]).clamp(min=0).prod(-1)
    inner = area(torch.cat([torch.max(a[..., :2], b[..., :2]),
                            torch.min(a[..., 2:], b[..., 2:])], -1))
    outer = area(torch.cat([torch.min(a[..., :2], b[..., :2]),
                            torch.max(a[..., 2:], b[..., 2:])], -1))
    union = area(a) + area(b) - inner
    iou = inner / union
    return iou, iou - (outer - union) / outer


def scenes(rows, empty=0.0, base=0):
    """Squares and bars, each class with colours of its own."""
    x = 0.15 * torch.rand(rows, 3, SIDE, SIDE)
    goals = []
    for i in range(rows):
        boxes, labels = [], []
        count = 0 if torch.rand(()) < empty else int(torch.randint(1, 3, ()))
        for j in range(count):
            w, h = (int(torch.randint(4, 8, ())) for _ in range(2))
            left = int(torch.randint(0, 8 - w + 1, ())) + 8 * j
            top = int(torch.randint(0, SIDE - h + 1, ()))
            label = int(torch.randint(CLASSES, ()))
            x[i, (label + base) % 3, top:top + h, left:left + w] += \
                0.7 + 0.3 * torch.rand(())
            boxes.append([(left + w / 2) / SIDE, (top + h / 2) / SIDE,
                          w / SIDE, h / SIDE])
            labels.append(label)
        goals.append({"boxes": torch.tensor(boxes).view(-1, 4),
                      "labels": torch.tensor(labels, dtype=torch.long)})
    return (x - MEAN) / STD, goals


@torch.no_grad()
def matched(logits, boxes, goals):
    out = []
    for p, b, goal in zip(logits.softmax(-1), boxes, goals):
        if not len(goal["boxes"]):
            out.append((torch.zeros(0, dtype=torch.long),) * 2)
            continue
        cost = 5 * torch.cdist(b, goal["boxes"], p=1) \
            - p[:, goal["labels"]] - 2 * overlaps(b, goal["boxes"])[1]
        out.append(tuple(map(torch.as_tensor, linear_sum_assignment(
            cost.nan_to_num(1e4).numpy()))))
    return out


def losses_of(outs, goals, weight, wrong=None):
    """In the order of the criterion: the last layer comes first."""
    losses = {}
    count = max(1, sum(len(g["labels"]) for g in goals))
    for tail, (logits, boxes) in (("", outs[-1]), ("_0", outs[0])):
        pairs = matched(logits, boxes, goals)
        rows = torch.cat([torch.full_like(s, i)
                          for i, (s, _) in enumerate(pairs)])
        src = torch.cat([s for s, _ in pairs])
        if wrong == "match":  # of the picture before
            pairs = [(s, t.roll(1)) for s, t in pairs]
        labels = torch.cat([g["labels"][t]
                            for g, (_, t) in zip(goals, pairs)])
        true = torch.cat([g["boxes"][t]
                          for g, (_, t) in zip(goals, pairs)])
        classes = torch.full(logits.shape[:2], CLASSES)
        classes[rows, src] = labels
        said = logits.softmax(-1) if wrong == "softmax" else logits
        losses[f"loss_ce{tail}"] = F.cross_entropy(said.mT, classes, weight)
        if not tail:
            right = (logits[rows, src].argmax(-1) == labels).float()
            losses["class_error"] = 100 - 100 * right.mean() \
                if len(labels) else torch.tensor(100.0)
        mine = boxes[rows, src]
        losses[f"loss_bbox{tail}"] = (mine - true).abs().sum() / count
        giou = overlaps(mine, true)[1].diagonal()
        losses[f"loss_giou{tail}"] = (1 - giou).sum() / count
        many = (logits.argmax(-1) != CLASSES).sum(1).float()
        there = torch.tensor([float(len(g["labels"])) for g in goals])
        losses[f"cardinality_error{tail}"] = (many - there).abs().mean()
    return losses


@functools.cache
def pretrained(steps=600):
    """Taught other colours; the luck of the run stays as it is."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(872)
        model, weight = DETR(), torch.tensor([1.0] * CLASSES + [0.1])
        own = torch.optim.AdamW(
            [p for p in model.parameters() if p.requires_grad], 1.5e-3)
        x, goals = scenes(800, 0.1, 1)
        for step in range(steps):
            own.param_groups[0]["lr"] = 1.5e-3 * min(
                1, step / 40, 1.2 - step / steps)
            at = torch.randint(len(x), (16,))
            losses = losses_of(model(x[at]), [goals[i] for i in at], weight)
            loss = sum(losses[f"{k}{t}"] * v for k, v in (
                ("loss_ce", 1), ("loss_bbox", 5), ("loss_giou", 2))
                for t in ("", "_0"))
            own.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            own.step()
        own.zero_grad(set_to_none=True)
    return model.state_dict()


class Meter:
    def __init__(self, size=20, form="{median:.4f} ({mean:.4f})"):
        self.last, self.form = deque(maxlen=size), form
        self.sum = self.count = 0

    def add(self, value):
        self.last.append(value)
        self.sum, self.count = self.sum + value, self.count + 1

    @property
    def mean(self):
        return self.sum / self.count

    def __str__(self):
        now = sorted(self.last)
        return self.form.format(median=now[(len(now) - 1) // 2],
                                mean=self.mean, value=self.last[-1])


@torch.no_grad()
def precision(outs, goals):
    """The twelve numbers of COCO: all boxes are small ones."""
    found, count = [], [0] * CLASSES
    for (logits, boxes), goal in zip(outs, goals):
        scores, labels = logits.softmax(-1)[:, :-1].max(-1)
        iou = overlaps(boxes, goal["boxes"])[0] if len(goal["boxes"]) \
            else torch.zeros(len(boxes), 0)
        found.append((scores.tolist(), labels.tolist(), iou.tolist(),
                      goal["labels"].tolist()))
        for label in found[-1][3]:
            count[label] += 1
    table, recalls = [], {1: [], 10: []}
    for least in [0.5 + 0.05 * i for i in range(10)]:
        aps = []
        for c in range(CLASSES):
            hits, top = [], 0
            for scores, labels, iou, goal in found:
                free = {j for j, g in enumerate(goal) if g == c}
                mine = sorted((i for i, g in enumerate(labels) if g == c),
                              key=lambda i: -scores[i])
                for rank, i in enumerate(mine):
                    best = max(free, key=lambda j: iou[i][j], default=None)
                    hit = best is not None and iou[i][best] >= least
                    if hit:
                        free.discard(best)
                    hits.append((scores[i], hit))
                    top += hit and rank == 0
            hits.sort(key=lambda h: -h[0])
            right, curve = 0, []
            for n, (_, hit) in enumerate(hits, 1):
                right += hit
                curve.append((right / max(count[c], 1), right / n))
            best, at, ap = 0.0, len(curve) - 1, 0.0
            for r in range(100, -1, -1):
                while at >= 0 and curve[at][0] >= r / 100:
                    best, at = max(best, curve[at][1]), at - 1
                ap += best / 101
            aps.append(ap)
            recalls[1].append(top / max(count[c], 1))
            recalls[10].append(right / max(count[c], 1))
        table.append(sum(aps) / CLASSES)
    ap = sum(table) / 10
    one, ten = (sum(r) / len(r) for r in recalls.values())
    return [ap, table[0], table[5], ap, -1.0, -1.0, one, ten, ten, ten,
            -1.0, -1.0]


@kind(fixed="", empty="", scaled="",
      match="label-pairing-mismatch",
      softmax="double-softmax",
      stale="optimizer-holds-stale-params frozen-parameters",
      rate="lr-too-high")
def detr(run):
    """DETR's main.py: matched sets, losses of each decoder layer, log.txt.

    Odd and sound: `fixed` has lr_backbone 0, so that a group of the optimizer
    is empty, `empty` has half of the pictures without a thing, so that
    batches have box losses of 0 and class errors of 100, `scaled` has losses
    ten times as high, which clipping takes back.
    """
    epochs, per, size, lr = 10, 12, 8, 1e-3
    times = 10 if run.has("scaled") else 1
    empty = 0.5 if run.has("empty") else 0.0
    if empty:
        size, per = 4, 40
    args = argparse.Namespace(
        lr=lr, lr_backbone=0.0 if run.has("fixed") else lr / 10,
        batch_size=size, weight_decay=1e-4, epochs=epochs, lr_drop=7,
        clip_max_norm=0.1, frozen_weights=None, backbone="resnet18",
        dilation=False, position_embedding="sine", enc_layers=2, dec_layers=2,
        dim_feedforward=64, hidden_dim=DIM, dropout=0.0, nheads=HEADS,
        num_queries=QUERIES, pre_norm=False, masks=False, aux_loss=True,
        set_cost_class=1, set_cost_bbox=5, set_cost_giou=2,
        bbox_loss_coef=5 * times, giou_loss_coef=2 * times,
        cls_loss_coef=1 * times, eos_coef=0.1, dataset_file="custom",
        output_dir="outputs", device="cpu", seed=42, resume="detr-base.pth",
        start_epoch=0, eval=False, num_workers=2, distributed=False)
    say = lambda text: run.say(text, file="train.log")
    say("Not using distributed mode\ngit:\n  sha: 3af9fa8, status: clean, "
        f"branch: main\n\n{args}")
    model = DETR()
    model.load_state_dict({k: v for k, v in pretrained().items()
                           if "class_embed" not in k}, strict=False)
    if run.has("fixed"):
        model.backbone.requires_grad_(False)
    named = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    params = sum(p.numel() for _, p in named)
    say(f"number of params: {params}")
    optimizer = torch.optim.AdamW(
        [{"params": [p for n, p in named if "backbone" not in n]},
         {"params": [p for n, p in named if "backbone" in n],
          "lr": args.lr_backbone}], lr=run.rate(lr, 50), weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, args.lr_drop)
    if run.has("stale"):  # as many classes as the set has
        model.class_embed = nn.Linear(DIM, CLASSES + 1)
    weight = torch.ones(CLASSES + 1)
    weight[-1] = args.eos_coef
    x, goals = scenes(size * per, empty)
    held, held_goals = scenes(40)
    coef = {"loss_ce": args.cls_loss_coef, "loss_bbox": args.bbox_loss_coef,
            "loss_giou": args.giou_loss_coef}
    coef |= {f"{k}_0": v for k, v in coef.items()}

    wrong = run.fault if run.fault in ("match", "softmax") else None

    def passes(head, rows, x, goals, train, step_time):
        meters = {"lr": Meter(1, "{value:.6f}")} if train else {}
        meters["class_error"] = Meter(1, "{value:.2f}")
        outs, wide = [], len(str(len(rows)))
        shown = lambda: "  ".join(f"{k}: {m}" for k, m in meters.items())
        begun = run.clock
        for i, at in enumerate(rows):
            mine = [goals[j] for j in at]
            out = model(x[at])
            losses = losses_of(out, mine, weight, wrong)
            loss = sum(v * coef[k] for k, v in losses.items() if k in coef)
            if train:
                optimizer.zero_grad()
                loss.backward()
                nn.utils.clip_grad_norm_(model.parameters(), 0.1)
                optimizer.step()
            outs += list(zip(*(t.detach() for t in out[-1])))
            losses = {k: v.item() for k, v in losses.items()}
            row = {"loss": loss.item(), **{k: v * coef[k] for k, v in
                                           losses.items() if k in coef},
                   **{f"{k}_unscaled": v for k, v in losses.items()},
                   "class_error": losses["class_error"]}
            if train:
                row["lr"] = optimizer.param_groups[0]["lr"]
            for k, v in row.items():
                meters.setdefault(k, Meter()).add(v)
            run.tick(step_time)
            if i % 10 == 0 or i + 1 == len(rows):
                eta = int(step_time * (len(rows) - i))
                say(f"{head}  [{i:{wide}d}/{len(rows)}]  eta: 0:00:{eta:02d}"
                    f"  {shown()}  time: {step_time:.4f}  data: 0.0112  "
                    "max mem: 412")
        took = run.clock - begun
        say(f"{head} Total time: 0:00:{int(took):02d} "
            f"({took / len(rows):.4f} s / it)\nAveraged stats: {shown()}")
        return {k: m.mean for k, m in meters.items()}, outs

    say("Start training")
    begun = run.clock
    (run.folder / "outputs").mkdir()
    for epoch in range(epochs):
        model.train()
        rows = torch.randperm(len(x)).split(size)
        train, _ = passes(f"Epoch: [{epoch}]", rows, x, goals, True, 0.31)
        schedule.step()
        names = ["checkpoint.pth"]
        if epoch % 4 == 0:
            names.append(f"checkpoint{epoch:04}.pth")
        for name in names:
            keep(run, f"outputs/{name}", {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict(),
                "lr_scheduler": schedule.state_dict(), "epoch": epoch,
                "args": args})
        model.eval()
        with torch.no_grad():
            test, outs = passes("Test:", torch.arange(40).split(size), held,
                                held_goals, False, 0.12)
        stats = precision(outs, held_goals)
        say("Accumulating evaluation results...\nDONE (t=0.03s).\n"
            "IoU metric: bbox")
        for i, value in enumerate(stats):
            what, short = ("Precision", "(AP)") if i < 6 else ("Recall",
                                                               "(AR)")
            least = "0.50" if i == 1 else "0.75" if i == 2 else "0.50:0.95"
            area = ("all", "all", "all", "small", "medium", "large")[i] \
                if i < 6 else ("all", "all", "all", "small", "medium",
                               "large")[i - 6]
            top = {6: 1, 7: 10}.get(i, 100)
            say(f" {'Average ' + what:<18} {short} @[ IoU={least:<9} | area="
                f"{area:>6s} | maxDets={top:>3d} ] = {value:0.3f}")
        run.say(json.dumps({
            **{f"train_{k}": v for k, v in train.items()},
            **{f"test_{k}": v for k, v in test.items()},
            "test_coco_eval_bbox": stats, "epoch": epoch,
            "n_parameters": params}), file="outputs/log.txt")
    took = int(run.clock - begun)
    say(f"Training time 0:{took // 60:02d}:{took % 60:02d}")
    run.ends(loss=train["loss"], test=test["loss"], ap50=stats[1],
             ap=stats[0], error=test["class_error"])
