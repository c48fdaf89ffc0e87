"""RetinaNet of torchvision. Three designs look odd and are sound."""

import argparse
import math

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.maskrcnn import (FrozenBatchNorm2d, Named, deltas, instances,
                            moved, overlap)
from kinds.outputs import keep
from kinds.qat import Smoothed, rows_of

CLASSES = 3


def conv(ins, outs, size=3, stride=1, bias=False):
    return nn.Conv2d(ins, outs, size, stride, size // 2, bias=bias)


class BasicBlock(nn.Module):
    def __init__(self, ins, outs):
        super().__init__()
        self.conv1, self.bn1 = conv(ins, outs, 3, 2), FrozenBatchNorm2d(outs)
        self.conv2, self.bn2 = conv(outs, outs), FrozenBatchNorm2d(outs)
        self.downsample = nn.Sequential(conv(ins, outs, 1, 2),
                                        FrozenBatchNorm2d(outs))

    def forward(self, x):
        out = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(0.5 * out + 0.5 * self.downsample(x))


class Head(nn.Module):
    """A tower and its last convolution, of classes or of boxes."""

    def __init__(self, wide, name, outs, bias):
        super().__init__()
        self.conv = nn.Sequential(nn.Sequential(
            conv(wide, wide, bias=True), nn.ReLU()))
        self.name = name
        self.add_module(name, conv(wide, outs, bias=True))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.normal_(m.weight, std=0.01)
                nn.init.zeros_(m.bias)
        nn.init.constant_(getattr(self, name).bias, bias)

    def forward(self, x):
        return getattr(self, self.name)(self.conv(x))


PRIOR = -math.log((1 - 0.01) / 0.01)


class RetinaNet(nn.Module):
    """Pictures of 32 pixels, one level of 8 x 8, three anchors a place."""

    def __init__(self, wide=16):
        super().__init__()
        body = Named(conv1=conv(3, wide, 5, 2), bn1=FrozenBatchNorm2d(wide),
                     layer1=nn.Sequential(BasicBlock(wide, 2 * wide)))
        for m in body.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight, mode="fan_out",
                                        nonlinearity="relu")
        fpn = Named(inner_blocks=nn.ModuleList([nn.Sequential(
            conv(2 * wide, wide, 1, bias=True))]),
            layer_blocks=nn.ModuleList([nn.Sequential(
                conv(wide, wide, bias=True))]))
        for m in fpn.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_uniform_(m.weight, a=1)
                nn.init.zeros_(m.bias)
        self.backbone = Named(body=body, fpn=fpn)
        self.head = Named(
            classification_head=Head(wide, "cls_logits", 3 * CLASSES, PRIOR),
            regression_head=Head(wide, "bbox_reg", 12, 0.0))
        self.image_mean, self.image_std = [
            torch.tensor(v)[:, None, None] for v in (
                (0.485, 0.456, 0.406), (0.229, 0.224, 0.225))]
        grid = torch.arange(8) * 4 + 2.0
        y, x = torch.meshgrid(grid, grid, indexing="ij")
        half = torch.tensor([[5., 5.], [7., 3.5], [3.5, 7.]])
        at = torch.stack([x, y], 2)[:, :, None]
        self.anchors = torch.cat([at - half, at + half], 3).view(-1, 4)

    def features(self, images):
        body = self.backbone.body
        x = (images - self.image_mean) / self.image_std
        return body.layer1(F.relu(body.bn1(body.conv1(x))))

    def outputs(self, images):
        fpn, n = self.backbone.fpn, len(images)
        x = self.features(images)
        x = fpn.layer_blocks[0](fpn.inner_blocks[0](x))
        flat = lambda t, k: t.view(n, 3, k, 8, 8).permute(
            0, 3, 4, 1, 2).reshape(n, -1, k)
        return flat(self.head.classification_head(x), CLASSES), \
            flat(self.head.regression_head(x), 4)

    def forward(self, images, gts):
        logits, moves = self.outputs(images)
        of_class, of_boxes = 0.0, 0.0
        for score, move, gt in zip(logits, moves, gts):
            boxes = gt["boxes"]
            best = torch.zeros(len(self.anchors))
            goal = torch.zeros_like(score)
            good = best > 1
            if len(boxes):
                iou = overlap(self.anchors, boxes)
                best, who = iou.max(1)
                top = iou.argmax(0)
                best[top], who[top] = 1.0, torch.arange(len(boxes))
                good = best >= 0.5
                goal[good, gt["classes"][who[good]]] = 1
            count = max(1, int(good.sum()))
            used = good | (best < 0.4)
            p = score.sigmoid()
            bce = F.binary_cross_entropy_with_logits(score, goal,
                                                     reduction="none")
            miss = torch.where(goal > 0, 1 - p, p)
            alpha = torch.where(goal > 0, 0.25, 0.75)
            focal = alpha * miss ** 2 * bce
            of_class = of_class + focal[used].sum() / count
            if good.any():
                want = deltas(self.anchors[good], boxes[who[good]])
                of_boxes = of_boxes + (move[good] - want).abs().sum() / count
            else:
                of_boxes = of_boxes + 0 * move.sum()
        return {"classification": of_class / len(gts),
                "bbox_regression": of_boxes / len(gts)}

    @torch.no_grad()
    def found(self, images, most=20):
        """Boxes, scores and classes of each picture."""
        out = []
        for score, move in zip(*self.outputs(images)):
            top = score.sigmoid().flatten().nan_to_num(0.0).topk(60)
            at, label = top.indices // CLASSES, top.indices % CLASSES
            boxes = moved(self.anchors[at], move[at]).clamp(0, 32)
            left = []
            near = overlap(boxes, boxes) > 0.5
            for i in range(60):
                if len(left) < most and not any(
                        near[i, j] and label[i] == label[j] for j in left):
                    left.append(i)
            out.append((boxes[left], top.values[left], label[left]))
        return out


def average_precision(found, gts, limits):
    """Mean over classes and limits, and the recall beside it."""
    aps, recalls = [], []
    for c in range(CLASSES):
        rows, total = [], 0
        for (boxes, scores, labels), gt in zip(found, gts):
            mine, want = labels == c, gt["boxes"][gt["classes"] == c]
            total += len(want)
            iou = overlap(boxes[mine], want) if len(want) \
                else torch.zeros(int(mine.sum()), 1)
            rows.append((scores[mine], iou))
        for limit in limits:
            hits = []
            for scores, iou in rows:
                taken = set()
                for s, line in zip(scores.tolist(), iou):
                    v, j = line.max(0)
                    hit = float(v) >= limit and int(j) not in taken
                    if hit:
                        taken.add(int(j))
                    hits.append((s, hit))
            hits.sort(key=lambda h: -h[0])
            right = torch.tensor([h for _, h in hits]).float().cumsum(0)
            precision = right / torch.arange(1, len(hits) + 1)
            precision = precision.flip(0).cummax(0).values.flip(0)
            recall = right / max(total, 1)
            aps.append(sum(float(precision[recall >= r].max()) if
                           (recall >= r).any() else 0.0
                           for r in torch.linspace(0, 1, 21).tolist()) / 21)
            recalls.append(float(recall[-1]) if hits else 0.0)
    return sum(aps) / len(aps), sum(recalls) / len(recalls)


def table(found, gts):
    """The twelve lines of COCOeval.summarize(), and two of the numbers."""
    steps = [0.5 + 0.05 * i for i in range(10)]
    (ap, ar), (half, _), (strict, _) = (
        average_precision(found, gts, s) for s in (steps, [0.5], [0.75]))
    lines = []
    for kind_of, iou, area, most, v in (
            ("Precision  (AP)", "0.50:0.95", "all", 100, ap),
            ("Precision  (AP)", "0.50     ", "all", 100, half),
            ("Precision  (AP)", "0.75     ", "all", 100, strict),
            ("Precision  (AP)", "0.50:0.95", "small", 100, ap),
            ("Precision  (AP)", "0.50:0.95", "medium", 100, -1),
            ("Precision  (AP)", "0.50:0.95", "large", 100, -1),
            ("Recall     (AR)", "0.50:0.95", "all", 1, 0.7 * ar),
            ("Recall     (AR)", "0.50:0.95", "all", 10, ar),
            ("Recall     (AR)", "0.50:0.95", "all", 100, ar),
            ("Recall     (AR)", "0.50:0.95", "small", 100, ar),
            ("Recall     (AR)", "0.50:0.95", "medium", 100, -1),
            ("Recall     (AR)", "0.50:0.95", "large", 100, -1)):
        lines.append(f" Average {kind_of} @[ IoU={iou} | area={area:>6} | "
                     f"maxDets={most:3d} ] = {v:0.3f}")
    return lines, ap, half


@kind(frozen="", empty="", restarts="", prior="bad-initialization",
      flip="label-pairing-mismatch label-noise",
      scale="input-not-normalized lr-too-high exploding-gradient",
      stale="optimizer-holds-stale-params frozen-parameters")
def retinanet(run):
    """RetinaNet by torchvision: MetricLogger's lines, COCO's table.

    Odd and sound: `frozen` keeps the whole pretrained backbone, `empty` has
    pictures without any box, `restarts` begins its rate anew each epoch."""
    epochs, per, lr = 5, 40, 2e-3
    images, gts = instances(160, 0.25 if run.has("empty") else 0.0)
    test, wanted = instances(24)
    images, test = images / 255, test / 255
    if run.has("scale"):  # read_image() and .float(), but no division
        images, test = 255 * images, 255 * test
    model = RetinaNet()
    guess = nn.Linear(32, CLASSES)  # backbones are pretrained here
    parts = [*model.backbone.body.parameters(), *guess.parameters()]
    teacher = torch.optim.Adam(parts, 4e-3)
    goal = torch.stack([F.one_hot(g["classes"], CLASSES).sum(0).clamp(max=1)
                        for g in gts]).float()
    given = images / 255 if run.has("scale") else images
    for _ in range(60):
        rows = torch.randint(160, (16,))
        out = guess(model.features(given[rows]).amax((2, 3)))
        teacher.zero_grad()
        F.binary_cross_entropy_with_logits(out, goal[rows]).backward()
        teacher.step()
    if run.has("frozen"):
        model.backbone.body.requires_grad_(False)
    if run.has("prior"):  # a head of one's own for the three classes
        last = nn.Conv2d(16, 3 * CLASSES, 3, padding=1)
        nn.init.normal_(last.weight, std=1.0)
        model.head.classification_head.cls_logits = last
    some = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(some, lr, weight_decay=1e-4)
    if run.has("stale"):  # the head for the own classes comes last
        model.head = RetinaNet().head
    args = argparse.Namespace(
        data_path="/data/shapes", dataset="coco", model="retinanet_resnet_fpn",
        device="cuda", batch_size=4, epochs=epochs, workers=4, opt="adamw",
        lr=lr, momentum=0.9, weight_decay=1e-4, lr_scheduler="cosine_restarts"
        if run.has("restarts") else "multisteplr", lr_steps=[3, 4],
        lr_gamma=0.1, print_freq=10, output_dir=".", resume="", start_epoch=0,
        aspect_ratio_group_factor=3, data_augmentation="hflip",
        trainable_backbone_layers=0 if run.has("frozen") else 5,
        weights_backbone="./resnet_tiny.pth", amp=False, world_size=1)
    run.say("Not using distributed mode", str(args), "Loading data",
            "loading annotations into memory...", "Done (t=0.02s)",
            "creating index...", "index created!", "Creating data loaders",
            "Using [0, 0.5, 1.0, 2.0, inf] as bins for aspect ratio "
            "quantization", "Creating model", "Start training")

    def save(epoch, name):
        keep(run, name, {
            "model": model.state_dict(), "optimizer": optimizer.state_dict(),
            "lr_scheduler": {"milestones": {3: 1, 4: 1}, "gamma": 0.1,
                             "base_lrs": [lr], "last_epoch": epoch + 1},
            "args": args, "epoch": epoch})

    ended, ap, half = False, 0.0, 0.0
    save(-1, "model_start.pth")
    for epoch in range(epochs):
        header = f"Epoch: [{epoch}]"
        meters = {"lr": Smoothed("{value:.6f}"), "loss": Smoothed(),
                  "classification": Smoothed(), "bbox_regression": Smoothed()}
        spent, waited = Smoothed("{avg:.4f}"), Smoothed("{avg:.4f}")
        order = torch.randperm(160)
        for i in range(per):
            now = lr * 0.1 ** ((epoch >= 3) + (epoch >= 4))
            if run.has("restarts"):
                now = 0.5 * lr * (1 + math.cos(math.pi * i / per))
            if epoch == 0:
                now *= min(1.0, 0.001 + i / (per - 1))
            optimizer.param_groups[0]["lr"] = now
            batch, told = [], []
            for r in order[4 * i:4 * i + 4].tolist():
                image, gt = images[r], gts[r]
                if torch.rand(()) < 0.5:
                    image, boxes = image.flip(2), gt["boxes"].clone()
                    if not run.has("flip"):
                        boxes[:, [0, 2]] = 32 - boxes[:, [2, 0]]
                    gt = {**gt, "boxes": boxes}
                batch.append(image)
                told.append(gt)
            losses = model(torch.stack(batch), told)
            loss = sum(losses.values())
            plain = {k: float(v.detach()) for k, v in losses.items()}
            if not loss.isfinite():
                run.say(f"Loss is {float(loss.detach())}, stopping training",
                        str({k: v.detach() for k, v in losses.items()}))
                ended = True
                break
            optimizer.zero_grad()
            if run.has("stale"):
                model.zero_grad()
            loss.backward()
            optimizer.step()
            for k, v in {"lr": now, "loss": float(loss.detach()),
                         **plain}.items():
                meters[k].update(v)
            began = run.clock
            run.tick(0.11)
            spent.update(run.clock - began)
            waited.update(0.004)
            if i % 10 == 0 or i == per - 1:
                left = int(spent.mean * (per - i))
                run.say(f"{header}  [{i:2d}/{per}]  eta: 0:00:{left:02d}  "
                        f"{rows_of(meters)}  time: {spent}  data: {waited}  "
                        "max mem: 214")
        if ended:
            break
        run.say(f"{header} Total time: 0:00:04 ({spent.mean:.4f} s / it)")
        if epoch in (1, 2, epochs - 1):
            save(epoch, f"model_{epoch}.pth")
        lines, ap, half = table(model.found(test), wanted)
        shown = "model_time: 0.0181 (0.0181)  evaluator_time: 0.0023 (0.0023)"
        run.say("creating index...", "index created!",
                f"Test:  [ 0/24]  eta: 0:00:01  {shown}  time: 0.0241  data: "
                "0.0031  max mem: 214", "Test: Total time: 0:00:00 "
                f"(0.0219 s / it)", f"Averaged stats: {shown}",
                "Accumulating evaluation results...", "DONE (t=0.03s).",
                "IoU metric: bbox", *lines)
    if not ended:
        save(epochs - 1, "checkpoint.pth")
        run.say("Training time 0:00:25")
    with torch.no_grad():
        losses = model(test, wanted)
    run.ends(**losses, ap=ap, ap50=half)
