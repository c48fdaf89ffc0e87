"""Segmentation in the files of MMSegmentation. Three designs look odd and are sound."""

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.blocks import BasicBlock, conv, kaiming
from kinds.outputs import keep


class ConvModule(nn.Module):
    def __init__(self, inner, outer):
        super().__init__()
        self.conv, self.bn = conv(inner, outer), nn.BatchNorm2d(outer)
        self.activate = nn.ReLU(inplace=True)

    def forward(self, x):
        return self.activate(self.bn(self.conv(x)))


class ResNetV1c(nn.Module):
    """Three convolutions in front; what is frozen stays in eval mode."""

    def __init__(self, width=8, frozen_stages=-1, norm_eval=False):
        super().__init__()
        layers = []
        for inner in (3, width, width):
            layers += [conv(inner, width), nn.BatchNorm2d(width),
                       nn.ReLU(inplace=True)]
        self.stem = nn.Sequential(*layers)
        self.layer1 = nn.Sequential(BasicBlock(width, width, 2))
        self.layer2 = nn.Sequential(BasicBlock(width, 2 * width))
        self.layer3 = nn.Sequential(BasicBlock(2 * width, 2 * width))
        self.frozen_stages, self.norm_eval = frozen_stages, norm_eval
        kaiming(self)

    def train(self, mode=True):
        super().train(mode)
        if self.frozen_stages >= 0:
            for part in (self.stem, self.layer1)[:self.frozen_stages + 1]:
                part.eval().requires_grad_(False)
        if self.norm_eval:
            for m in self.modules():
                if isinstance(m, nn.BatchNorm2d):
                    m.eval()
        return self

    def forward(self, x):
        second = self.layer2(self.layer1(self.stem(x)))
        return second, self.layer3(second)


class FCNHead(nn.Module):
    def __init__(self, inner, channels, num_classes, num_convs):
        super().__init__()
        self.conv_seg = nn.Conv2d(channels, num_classes, 1)
        nn.init.normal_(self.conv_seg.weight, std=0.01)
        nn.init.zeros_(self.conv_seg.bias)
        self.dropout = nn.Dropout2d(0.1)
        self.convs = nn.Sequential(*[ConvModule(i, channels) for i in (
            inner, channels)[:num_convs]])

    def forward(self, x):
        return self.conv_seg(self.dropout(self.convs(x)))


class EncoderDecoder(nn.Module):
    def __init__(self, num_classes, **options):
        super().__init__()
        self.backbone = ResNetV1c(**options)
        self.decode_head = FCNHead(16, 16, num_classes, 2)
        self.auxiliary_head = FCNHead(16, 8, num_classes, 1)

    def forward(self, x, size=24):
        aux, deep = self.backbone(x)
        return [F.interpolate(out, size, mode="bilinear") for out in (
            self.decode_head(deep), self.auxiliary_head(aux))]


CONFIG = """crop_size = (24, 24)
data_preprocessor = dict(
    bgr_to_rgb=True,
    mean=[123.675, 116.28, 103.53],
    pad_val=0,
    seg_pad_val=255,
    size=(24, 24),
    std=[58.395, 57.12, 57.375],
    type='SegDataPreProcessor')
dataset_type = 'ShapesDataset'
default_hooks = dict(
    checkpoint=dict(by_epoch=False, interval=100, type='CheckpointHook'),
    logger=dict(interval=10, log_metric_by_epoch=False, type='LoggerHook'),
    param_scheduler=dict(type='ParamSchedulerHook'))
load_from = {load}
log_processor = dict(by_epoch=False)
model = dict(
    auxiliary_head=dict(
        align_corners=False,
        channels=8,
        in_index=2,
        loss_decode=dict(
            loss_weight=0.4, type='CrossEntropyLoss', use_sigmoid=False),
        norm_cfg=dict(requires_grad=True, type='SyncBN'),
        num_classes={classes},
        num_convs=1,
        type='FCNHead'),
    backbone=dict(
        depth=18,
        frozen_stages={frozen},
        norm_eval={norm_eval},
        type='ResNetV1c'),
    decode_head=dict(
        channels=16,
        dropout_ratio=0.1,
        ignore_index=255,
        loss_decode=dict(
            loss_weight=1.0, type='CrossEntropyLoss', use_sigmoid=False),
        num_classes={classes},{sampler}
        type='FCNHead'),
    type='EncoderDecoder')
optim_wrapper = dict(
    clip_grad=None,
    optimizer=dict(lr=0.05, momentum=0.9, type='SGD', weight_decay=0.0005),
    type='OptimWrapper')
param_scheduler = [
    dict(
        begin=0,
        by_epoch=False,
        end=200,
        eta_min=0.0001,
        power=0.9,
        type='PolyLR'),
]
reduce_zero_label = {reduce}
train_cfg = dict(max_iters=200, type='IterBasedTrainLoop', val_interval=50)
train_dataloader = dict(
    batch_size=8,
    sampler=dict(shuffle=True, type='InfiniteSampler'))
work_dir = './work_dirs/fcn_r18'
"""


def scenes(rows):
    """Pictures of regions in colours of their class; 255 at an edge."""
    at = torch.stack(torch.meshgrid(torch.arange(12), torch.arange(12),
                                    indexing="ij"), -1).view(-1, 2).float()
    near = torch.cdist(at, 12 * torch.rand(rows, 5, 2)).argmin(2)
    said = torch.randint(5, (rows, 5)).gather(1, near).view(rows, 12, 12)
    x = torch.randn(5, 3)[said].permute(0, 3, 1, 2)
    x = F.interpolate(x, 24) + 0.7 * torch.randn(rows, 3, 24, 24)
    said = said.repeat_interleave(2, 1).repeat_interleave(2, 2)
    said[:, 0] = 255
    return (x - x.mean()) / x.std(), said


@kind(frozen="", ohem="", reduced="", ignored="loss-mask-all-ignored",
      flip="label-pairing-mismatch label-noise",
      poly="lr-zero-from-scheduler", softmax="double-softmax")
def mmseg(run):
    """Segmentation by MMSegmentation: mmengine's lines, scalars.json."""
    x, y = scenes(384)
    names = ["ground", "grass", "water", "road", "roof"]
    if run.has("reduced"):  # the ground is no class, most pixels are 255
        y, names = torch.where(y == 0, 255, y - (y < 255).long()), names[1:]
    frozen = run.has("frozen")
    model = EncoderDecoder(len(names), frozen_stages=1 if frozen else -1,
                           norm_eval=frozen)
    if frozen:
        taught = EncoderDecoder(len(names))
        teacher = torch.optim.SGD(taught.parameters(), 0.05, momentum=0.9)
        for _ in range(120):
            rows = torch.randint(320, (8,))
            teacher.zero_grad()
            F.cross_entropy(taught(x[rows])[0], y[rows],
                            ignore_index=255).backward()
            teacher.step()
        model.backbone.load_state_dict(taught.backbone.state_dict())
    model.train()
    optimizer = torch.optim.SGD(
        [p for p in model.parameters() if p.requires_grad], 0.05,
        momentum=0.9, weight_decay=5e-4)
    last = 40 if run.has("poly") else 200
    when = run.stamp("%Y%m%d_%H%M%S")
    log, data = f"{when}/{when}.log", f"{when}/vis_data"
    (run.folder / data).mkdir(parents=True)
    weights = "pretrained/resnet18_v1c-b5776b93.pth"
    config = CONFIG.format(
        classes=len(names), frozen=1 if frozen else -1, norm_eval=frozen,
        load="None", reduce=run.has("reduced"), sampler="" if
        not run.has("ohem") else "\n        sampler=dict(min_kept=200, "
        "thresh=0.7, type='OHEMPixelSampler'),")
    for file in ("fcn_r18.py", f"{data}/config.py"):
        (run.folder / file).write_text(config)

    def info(*lines):
        run.say(f"{run.stamp('%Y/%m/%d %H:%M:%S')} - mmengine - INFO - "
                + "\n".join(lines), file=log)

    def scalars(**row):
        for file in ("scalars.json", f"{when}.json"):
            run.record(f"{data}/{file}", **row)

    def ce(out, goal):
        if run.has("softmax"):
            out = out.softmax(1)
        each = F.cross_entropy(out, goal, ignore_index=255, reduction="none")
        if run.has("ohem") and out.requires_grad:
            with torch.no_grad():
                p = out.softmax(1).gather(1, goal.clamp(max=len(names) - 1)[
                    :, None])[:, 0]
                p[goal == 255] = 2
                edge = max(float(p.flatten().sort().values[200]), 0.7)
            return (each * (p < edge)).mean()
        return each.sum() / (goal != 255).sum().clamp(min=1)

    def right(out, goal):
        valid = goal != 255
        return 100 * float((out.argmax(1)[valid] == goal[valid])
                           .float().mean()) if valid.any() else 0.0

    info("Config:", config)
    if frozen:
        info(f"Loads checkpoint by local backend from path: {weights}")
    info("Checkpoints will be saved to work_dirs/fcn_r18.")
    window = []
    for i in range(200):
        done = min(i, last) / last
        rate = (0.05 - 1e-4) * (1 - done) ** 0.9 + 1e-4 \
            if not run.has("poly") else 0.05 * (1 - done) ** 0.9
        optimizer.param_groups[0]["lr"] = rate
        rows = torch.randint(320, (8,))
        inputs, goal = x[rows], y[rows]
        for axis in (2, 3):
            turn = (torch.rand(8) < 0.5)[:, None, None]
            inputs = torch.where(turn[..., None], inputs.flip(axis), inputs)
            if not run.has("flip"):
                goal = torch.where(turn, goal.flip(axis - 1), goal)
        if run.has("ignored"):  # maps of 0 and 255, as they were painted
            goal = torch.where(goal > 0, 255, goal)
        out, aux = model(inputs)
        parts = ce(out, goal), 0.4 * ce(aux, goal)
        loss = sum(parts)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        window = (window + [[float(p.detach()) for p in (loss, *parts)]])[-10:]
        run.tick(0.031)
        if i % 10 == 9:
            total, decode, second = (sum(c) / len(c) for c in zip(*window))
            row = {"loss": total, "decode.loss_ce": decode,
                   "decode.acc_seg": right(out, goal),
                   "aux.loss_ce": second, "aux.acc_seg": right(aux, goal)}
            left = int((199 - i) * 0.031)
            info(f"Iter(train) [{i + 1:3d}/200]  base_lr: {rate:.4e} "
                 f"lr: {rate:.4e}  eta: 0:00:{left:02d}  time: 0.0308  "
                 "data_time: 0.0021  "
                 + "  ".join(f"{k}: {v:.4f}" for k, v in row.items()))
            scalars(base_lr=rate, lr=rate, data_time=0.0021, **row,
                    time=0.0308, iter=i + 1, step=i + 1)
        if i in (0, 99, 199):
            keep(run, f"iter_{i + 1}.pth", {
                "meta": {"epoch": 0, "iter": i + 1, "cfg": config,
                         "seed": 0, "experiment_name": f"fcn_r18_{when}",
                         "time": run.stamp("%Y%m%d_%H%M%S"),
                         "mmengine_version": "0.10.4",
                         "dataset_meta": {"classes": names}},
                "state_dict": model.state_dict(),
                "message_hub": {"log_scalars": {}, "runtime_info": {
                    "iter": i, "max_iters": 200}, "resumed_keys": {}},
                "optimizer": optimizer.state_dict(),
                "param_schedulers": [{"last_step": i + 1, "end": 200,
                                      "eta_min": 1e-4, "power": 0.9}]})
            (run.folder / "last_checkpoint").write_text(
                f"work_dirs/fcn_r18/iter_{i + 1}.pth")
        if i % 50 == 49:
            model.eval()
            with torch.no_grad():
                said = model(x[320:])[0].argmax(1)
            model.train()
            valid, goal = y[320:] != 255, y[320:]
            table, ious, accs = [], [], []
            for c, name in enumerate(names):
                both = float(((said == c) & (goal == c) & valid).sum())
                there = float(((goal == c) & valid).sum())
                found = float(((said == c) & valid).sum())
                ious.append(100 * both / max(there + found - both, 1))
                accs.append(100 * both / max(there, 1))
                table.append(f"| {name:^6} | {ious[-1]:5.2f} | "
                             f"{accs[-1]:5.2f} |")
            rule = "+--------+-------+-------+"
            info("per class results:")
            info("", rule, "| Class  |  IoU  |  Acc  |", rule, *table, rule)
            row = {"aAcc": round(100 * float((said == goal)[valid].float()
                                             .mean()), 2),
                   "mIoU": round(sum(ious) / len(ious), 2),
                   "mAcc": round(sum(accs) / len(accs), 2)}
            info("Iter(val) [64/64]    "
                 + "  ".join(f"{k}: {v:.4f}" for k, v in row.items())
                 + "  data_time: 0.0014  time: 0.0082")
            scalars(**row, data_time=0.0014, time=0.0082, step=i + 1)
    run.ends(loss=total, **row)
