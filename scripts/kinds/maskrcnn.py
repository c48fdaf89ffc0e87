"""Mask R-CNN of detectron2: proposals, boxes and masks of small instances.

Some of its designs are odd and sound. The kind returns how well its run ended,
measured on what it did not train on.
"""

import copy
import random

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, watch


class FrozenBatchNorm2d(nn.Module):
    def __init__(self, count):
        super().__init__()
        self.register_buffer("weight", torch.ones(count))
        self.register_buffer("bias", torch.zeros(count))
        self.register_buffer("running_mean", torch.zeros(count))
        self.register_buffer("running_var", torch.ones(count) - 1e-5)

    def forward(self, x):
        scale = self.weight * (self.running_var + 1e-5).rsqrt()
        shift = self.bias - self.running_mean * scale
        return x * scale[:, None, None] + shift[:, None, None]


class Conv2d(nn.Conv2d):
    """A convolution with its norm inside, as detectron2 has it."""

    def __init__(self, *sizes, norm=False, std=None, **more):
        super().__init__(*sizes, bias=not norm, **more)
        if std is None:
            nn.init.kaiming_normal_(self.weight, mode="fan_out",
                                    nonlinearity="relu")
        else:
            nn.init.normal_(self.weight, std=std)
        if norm:
            self.norm = FrozenBatchNorm2d(sizes[1])
        else:
            nn.init.zeros_(self.bias)

    def forward(self, x):
        x = super().forward(x)
        return self.norm(x) if hasattr(self, "norm") else x


class Bottleneck(nn.Module):
    def __init__(self, inner, outs):
        super().__init__()
        self.shortcut = Conv2d(inner, outs, 1, norm=True, stride=2)
        self.conv1 = Conv2d(inner, inner, 1, norm=True, stride=2)
        self.conv2 = Conv2d(inner, inner, 3, norm=True, padding=1)
        self.conv3 = Conv2d(inner, outs, 1, norm=True)

    def forward(self, x):
        out = F.relu(self.conv2(F.relu(self.conv1(x))))
        return F.relu(self.conv3(out) * 0.5 + self.shortcut(x) * 0.5)


class Named(nn.Module):
    """A module of parts whose names are given."""

    def __init__(self, **parts):
        super().__init__()
        for name, part in parts.items():
            self.add_module(name, part)


def linear(ins, outs, std):
    layer = nn.Linear(ins, outs)
    nn.init.normal_(layer.weight, std=std)
    nn.init.zeros_(layer.bias)
    return layer


def deltas(boxes, goals):
    size, want = boxes[:, 2:] - boxes[:, :2], goals[:, 2:] - goals[:, :2]
    at = (goals[:, :2] + want / 2 - boxes[:, :2] - size / 2) / size
    return torch.cat([at, (want / size).log()], 1)


def moved(boxes, d):
    size = boxes[:, 2:] - boxes[:, :2]
    at = boxes[:, :2] + size / 2 + d[:, :2] * size
    size = size * d[:, 2:].clamp(max=2).exp()
    return torch.cat([at - size / 2, at + size / 2], 1)


def overlap(a, b):
    low = torch.max(a[:, None, :2], b[None, :, :2])
    high = torch.min(a[:, None, 2:], b[None, :, 2:])
    both = (high - low).clamp(min=0).prod(2)
    area = lambda x: (x[:, 2:] - x[:, :2]).clamp(min=0).prod(1)
    return both / (area(a)[:, None] + area(b)[None] - both + 1e-6)


class GeneralizedRCNN(nn.Module):
    """Pictures of 32 pixels, one level, one anchor size in three shapes."""

    def __init__(self, classes=3, wide=16):
        super().__init__()
        self.register_buffer("pixel_mean", torch.tensor(
            [103.53, 116.28, 123.675])[:, None, None], persistent=False)
        self.register_buffer("pixel_std", torch.tensor(
            [57.375, 57.12, 58.395])[:, None, None], persistent=False)
        self.classes = classes
        body = Named(stem=Named(conv1=Conv2d(3, wide, 5, norm=True, stride=2,
                                             padding=2)),
                     res2=nn.Sequential(Bottleneck(wide, 2 * wide)))
        self.backbone = Named(fpn_lateral2=Conv2d(2 * wide, wide, 1),
                              fpn_output2=Conv2d(wide, wide, 3, padding=1),
                              bottom_up=body)
        self.proposal_generator = Named(rpn_head=Named(
            conv=Conv2d(wide, wide, 3, padding=1, std=0.01),
            objectness_logits=Conv2d(wide, 3, 1, std=0.01),
            anchor_deltas=Conv2d(wide, 12, 1, std=0.01)))
        self.roi_heads = Named(
            box_head=Named(fc1=nn.Linear(wide * 16, 48),
                           fc2=nn.Linear(48, 48)),
            box_predictor=self.predictor(),
            mask_head=Named(
                mask_fcn1=Conv2d(wide, wide, 3, padding=1),
                deconv=nn.ConvTranspose2d(wide, wide, 2, stride=2),
                predictor=Conv2d(wide, classes, 1, std=0.001)))
        grid = torch.arange(8) * 4 + 2.0
        y, x = torch.meshgrid(grid, grid, indexing="ij")
        half = torch.tensor([[5., 5.], [7., 3.5], [3.5, 7.]])
        at = torch.stack([x, y], 2)[:, :, None]
        self.anchors = torch.cat([at - half, at + half], 3).view(-1, 4)

    def predictor(self):
        return Named(cls_score=linear(48, self.classes + 1, 0.01),
                     bbox_pred=linear(48, 4 * self.classes, 0.001))

    def features(self, images):
        x = (images - self.pixel_mean) / self.pixel_std
        body = self.backbone.bottom_up
        x = F.relu(body.stem.conv1(x))
        return self.backbone.fpn_output2(
            self.backbone.fpn_lateral2(body.res2(x)))

    @staticmethod
    def align(x, boxes, rows, size):
        """Features of each box on a grid of size x size."""
        step = (torch.arange(size) + 0.5) / size
        at = lambda a, b: a[:, None] + (b - a)[:, None] * step
        px, py = (at(boxes[:, i], boxes[:, i + 2]) / 16 - 1 for i in (0, 1))
        grid = torch.stack([px[:, None].expand(-1, size, -1),
                            py[:, :, None].expand(-1, -1, size)], 3)
        return F.grid_sample(x[rows], grid, align_corners=False)

    def forward(self, images, gts):
        """The losses, and what detectron2 counts beside them."""
        x, told, losses = self.features(images), {}, {}
        head = self.proposal_generator.rpn_head
        h = F.relu(head.conv(x))
        score = head.objectness_logits(h).permute(0, 2, 3, 1).flatten(1)
        move = head.anchor_deltas(h).permute(0, 2, 3, 1).reshape(
            len(x), -1, 4)
        rpn_cls, rpn_loc, picks = 0.0, x.sum() * 0, []
        counts = torch.zeros(4)
        for i, gt in enumerate(gts):
            boxes = gt["boxes"]
            match = torch.zeros(len(self.anchors))
            if len(boxes):
                iou = overlap(self.anchors, boxes)
                match, who = iou.max(1)
                best = iou.argmax(0)
                match[best], who[best] = 1.0, torch.arange(len(boxes))
            good, bad = match >= 0.6, match < 0.3
            chosen = torch.cat([good.nonzero()[:, 0][:16], bad.nonzero()[
                torch.randperm(int(bad.sum()))[:32], 0]])
            rpn_cls = rpn_cls + F.binary_cross_entropy_with_logits(
                score[i, chosen], good[chosen].float(), reduction="sum") / 48
            if good.any():
                want = deltas(self.anchors[good], boxes[who[good]])
                rpn_loc = rpn_loc + F.smooth_l1_loss(
                    move[i, good], want, beta=0.1, reduction="sum") / 48
            with torch.no_grad():
                top = score[i].topk(12).indices
                found = moved(self.anchors[top], move[i, top])
                near = boxes.repeat(3, 1)
                near = near + torch.randn(near.shape)
                found = torch.cat([found, boxes, near]).clamp(0, 32)
                found = found[((found[:, 2:] - found[:, :2]) > 1).all(1)]
                label = torch.full((len(found),), self.classes)
                goal = torch.zeros(len(found), dtype=torch.long)
                if len(boxes) and len(found):
                    iou, goal = overlap(found, boxes).max(1)
                    label = torch.where(iou >= 0.5, gt["classes"][goal],
                                        label)
            picks.append((found, torch.full((len(found),), i), label, goal))
            counts += torch.tensor([good.sum(), bad.sum(),
                                    (label < self.classes).sum(),
                                    (label == self.classes).sum()])
        n = len(gts)
        losses["loss_rpn_cls"] = rpn_cls / n
        losses["loss_rpn_loc"] = rpn_loc / n
        found, rows, label, goal = (torch.cat(p) for p in zip(*picks))
        heads = self.roi_heads
        flat = self.align(x, found, rows, 4).flatten(1)
        flat = F.relu(heads.box_head.fc2(F.relu(heads.box_head.fc1(flat))))
        logits = heads.box_predictor.cls_score(flat)
        losses["loss_cls"] = F.cross_entropy(logits, label)
        fore = (label < self.classes).nonzero()[:, 0]
        losses["loss_box_reg"] = losses["loss_mask"] = x.sum() * 0
        right = logits.argmax(1) == label
        told["fast_rcnn/cls_accuracy"] = right.float().mean().item()
        if len(fore):
            boxes = torch.stack([gts[int(rows[f])]["boxes"][goal[f]]
                                 for f in fore])
            masks = torch.stack([gts[int(rows[f])]["masks"][goal[f]]
                                 for f in fore])
            kind_of = label[fore]
            every = torch.arange(len(fore))
            made = heads.box_predictor.bbox_pred(flat[fore]).view(
                len(fore), self.classes, 4)[every, kind_of]
            want = deltas(found[fore], boxes) * torch.tensor([10., 10, 5, 5])
            losses["loss_box_reg"] = F.smooth_l1_loss(
                made, want, reduction="sum") / len(label)
            part = self.align(x, found[fore], rows[fore], 4)
            part = F.relu(heads.mask_head.mask_fcn1(part))
            part = heads.mask_head.predictor(
                F.relu(heads.mask_head.deconv(part)))[every, kind_of]
            cut = self.align(masks[:, None], found[fore], every, 8)[:, 0]
            cut = (cut > 0.5).float()
            losses["loss_mask"] = F.binary_cross_entropy_with_logits(
                part, cut)
            fit = (part > 0) == (cut > 0.5)
            told["fast_rcnn/fg_cls_accuracy"] = \
                right[fore].float().mean().item()
            told["fast_rcnn/false_negative"] = (
                logits[fore].argmax(1) == self.classes).float().mean().item()
            told["mask_rcnn/accuracy"] = fit.float().mean().item()
        told.update(zip(("rpn/num_pos_anchors", "rpn/num_neg_anchors",
                         "roi_head/num_fg_samples",
                         "roi_head/num_bg_samples"), (counts / n).tolist()))
        return losses, told


def instances(rows, empty=0.0):
    """Pictures of 0..255 with red squares, green discs, blue crosses."""
    y, x = torch.meshgrid(torch.arange(32.), torch.arange(32.),
                          indexing="ij")
    images, gts = [], []
    for _ in range(rows):
        image = 110 + 25 * torch.randn(3, 1, 1) + 12 * torch.randn(3, 32, 32)
        boxes, classes, masks = [], [], []
        for _ in range(0 if random.random() < empty
                       else random.randint(1, 2)):
            cx, cy = random.uniform(7, 25), random.uniform(7, 25)
            r, k = random.uniform(4, 6.5), random.randrange(3)
            dx, dy = (x - cx).abs(), (y - cy).abs()
            mask = (torch.max(dx, dy) < r, dx ** 2 + dy ** 2 < r ** 2,
                    (torch.max(dx, dy) < r) & (torch.min(dx, dy) < r / 3))[k]
            colour = torch.tensor([[230., 60, 60], [60, 230, 60],
                                   [60, 60, 230]])[k]
            image = torch.where(mask, colour[:, None, None], image)
            boxes.append([cx - r, cy - r, cx + r, cy + r])
            classes.append(k)
            masks.append(mask.float())
        images.append(image.clamp(0, 255))
        gts.append({"boxes": torch.tensor(boxes).view(-1, 4),
                    "classes": torch.tensor(classes, dtype=torch.long),
                    "masks": torch.stack(masks) if masks
                    else torch.zeros(0, 32, 32)})
    return torch.stack(images), gts


@kind(freeze="", resume="", empty="",
      rate="lr-too-high exploding-gradient", labels="label-noise",
      scale="input-not-normalized lr-too-high",
      stale="optimizer-holds-stale-params frozen-parameters")
def maskrcnn(run):
    """Mask R-CNN of detectron2: metrics.json, log.txt, model_final.pth.

    Odd and sound: `freeze` has weights of Caffe, whose first layers take 0
    to 255 less the mean and stay as they are, `resume` was killed and went
    on, `empty` has no object in a quarter of its pictures.
    """
    total, base, period = 170, 0.06, 5
    images, gts = instances(200, 0.25 if run.has("empty") else 0.0)
    test, wanted = instances(32)
    if run.has("labels"):  # ids of another list of categories, row by row
        for gt in gts:
            gt["classes"] = torch.randint(3, gt["classes"].shape)
    model = GeneralizedRCNN()
    at = 2 if run.has("freeze") else 0
    if run.has("freeze"):
        with torch.no_grad():
            model.pixel_std.fill_(1.0)
            body = model.backbone.bottom_up
            body.stem.conv1.weight /= 57.5
        body.requires_grad_(False)
    if run.has("scale"):  # a mapper of its own and a Normalize that is lost
        model.pixel_mean.zero_()
        model.pixel_std.fill_(1.0)
    some = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.SGD(some, run.rate(base, 40), momentum=0.9,
                                weight_decay=1e-4)
    if run.has("stale"):  # the heads for the new classes come last
        model.roi_heads = GeneralizedRCNN().roi_heads
    (run.folder / "config.yaml").write_text(
        "DATALOADER:\n  FILTER_EMPTY_ANNOTATIONS: "
        f"{str(not run.has('empty')).lower()}\nINPUT:\n  FORMAT: BGR\n"
        f"MODEL:\n  BACKBONE:\n    FREEZE_AT: {at}\n  MASK_ON: true\n"
        "  META_ARCHITECTURE: GeneralizedRCNN\n"
        "  PIXEL_MEAN:\n  - 103.53\n  - 116.28\n  - 123.675\n  PIXEL_STD:\n"
        + ("  - 1.0\n" * 3 if at else "  - 57.375\n  - 57.12\n  - 58.395\n")
        + f"OUTPUT_DIR: ./output\nSOLVER:\n  BASE_LR: {base}\n"
        "  CLIP_GRADIENTS:\n    CLIP_TYPE: full_model\n"
        "    CLIP_VALUE: 2.0\n    ENABLED: true\n"
        f"  CHECKPOINT_PERIOD: 65\n  IMS_PER_BATCH: 4\n"
        f"  MAX_ITER: {total}\n  MOMENTUM: 0.9\n  STEPS:\n  - 140\n"
        "  WARMUP_ITERS: 20\n  WEIGHT_DECAY: 0.0001\n")
    history, latest = {}, {}
    put = lambda k, v: (history.setdefault(k, []).append(v),
                        latest.__setitem__(k, v))
    middle = lambda k: sorted(history[k][-20:])[len(history[k][-20:]) // 2]

    def log(name, text, level="INFO"):
        run.say(f"[{run.stamp('%m/%d %H:%M:%S')}] {name} {level}: {text}",
                file="log.txt")

    def save(name, i):
        keep(run, name, {
            "model": {n: v for n, v in model.state_dict().items()},
            "optimizer": optimizer.state_dict(),
            "scheduler": {"last_epoch": i, "base_lrs": [base]},
            "iteration": i})
        (run.folder / "last_checkpoint").write_text(name)
        log("fvcore.common.checkpoint",
            f"Saving checkpoint to ./output/{name}")

    def check():
        with torch.no_grad():
            state = torch.get_rng_state()
            torch.manual_seed(3)
            losses, told = model(test, wanted)
            torch.set_rng_state(state)
        return sum(losses.values()).item(), told

    def begin(i):
        log("d2.engine.defaults", "Model:\nGeneralizedRCNN(...)")
        log("d2.engine.train_loop", f"Starting training from iteration {i}")
        return watch(run, model, optimizer, max_iter=total, base_lr=base)

    save("model_init.pth", -1)
    rec, i, kept, again = begin(0), 0, None, False
    orders = torch.stack([torch.randperm(200)[:4] for _ in range(total)])
    while i < total:
        lr = base * min(1.0, 0.001 + i / 20) * (0.1 if i >= 140 else 1)
        for group in optimizer.param_groups:
            group["lr"] = run.rate(lr, 40)
        rows = orders[i]
        batch = [gts[r] for r in rows]
        losses, told = model(images[rows], batch)
        loss = sum(losses.values())
        run.tick(0.21)
        if not loss.isfinite():
            plain = {k: v.item() for k, v in losses.items()}
            log("d2.engine.train_loop", "Exception during training:\n"
                "Traceback (most recent call last):\n  File \"/opt/venv/lib/"
                "detectron2/engine/train_loop.py\", line 149, in train\n"
                "    self.run_step()\nFloatingPointError: Loss became "
                f"infinite or NaN at iteration={i}!\nloss_dict = {plain}",
                "ERROR")
            break
        optimizer.zero_grad()
        loss.backward()
        if not run.has("rate"):
            nn.utils.clip_grad_norm_(some, 2.0)
        optimizer.step()
        rec.batch(input=images[rows])
        rec.step(loss.detach(), step=i)
        for k, v in {"total_loss": loss, **losses}.items():
            put(k, v.item())
        for k, v in {**told, "time": random.uniform(0.2, 0.22),
                     "data_time": random.uniform(0.001, 0.02)}.items():
            put(k, v)
        if i % 26 == 25:
            put("validation_loss", check()[0])
        if i % period == period - 1 or i == total - 1:
            eta = 0.21 * (total - i - 1)
            names = [k for k in history if "loss" in k]
            log("d2.utils.events", f" eta: 0:00:{int(eta):02d}  iter: {i}  "
                + "  ".join(f"{k}: {middle(k):.4g}" for k in names)
                + f"  time: {middle('time'):.4f}  data_time: "
                f"{middle('data_time'):.4f}  lr: {lr:.5g}  max_mem: 0M")
            row = {k: middle(k) for k in latest}
            run.record("metrics.json", **dict(sorted(
                {**row, "iteration": i, "lr": lr, "eta_seconds": eta}
                .items())))
            latest.clear()
        if i % 65 == 64:
            save(f"model_{i:07d}.pth", i)
            if run.has("resume") and kept is None:
                kept = copy.deepcopy((model.state_dict(),
                                      optimizer.state_dict()))
        i += 1
        if kept and not again and i == 85:
            again, i = True, 65
            model.load_state_dict(kept[0])
            optimizer.load_state_dict(kept[1])
            history.clear()
            latest.clear()
            rec.close()
            run.tick(900)
            log("fvcore.common.checkpoint", "[Checkpointer] Loading from "
                "./output/model_0000064.pth ...")
            rec = begin(65)
    else:
        save("model_final.pth", total - 1)
        log("d2.engine.hooks", f"Overall training speed: {total - 2} "
            "iterations in 0:00:27 (0.2104 s / it)")
    rec.close()
    end, told = check()
    return {"validation_loss": end, **{
        k.split("/")[1]: v for k, v in told.items() if "accuracy" in k}}
