"""Poses of three dimensions from two, as VideoPose3D's run.py trains them.

Detections of 27 frames go through strided temporal convolutions with batch
norms, and what comes out is the pose of the frame in the middle, in metres
from the hip, as the camera sees it. The loss is the mean distance of joints
(MPJPE). Names of parameters, options, lines and files are the trainer's; there
are 13 joints and 48 channels where it has 17 and 1024.
"""

import copy
import math

import numpy as np
import torch
from torch import nn

from . import logs, models
from .family import EpochFamily
from .sources import AHEAD, DrawnAhead

FRAMES, ROWS, HELD_OUT, CHANNELS, ARC = 27, 128, 96, 48, (3, 3, 3)
JOINTS = ("Hip", "RHip", "RKnee", "RFoot", "LHip", "LKnee", "LFoot", "Thorax",
          "Head", "LElbow", "LWrist", "RElbow", "RWrist")
LEFT, RIGHT = [4, 5, 6, 9, 10], [1, 2, 3, 11, 12]
SWAPPED = [0, 4, 5, 6, 1, 2, 3, 7, 8, 11, 12, 9, 10]
ACTIONS = ("Walking", "Sitting", "Greeting")
DUMPED = 16             # clips of a batch, which say enough
TEST_FRAMES = 24        # of a video of the last evaluation
# Where the trainer has .1 and .001, as steps are few.
FIRST_MOMENTUM, LAST_MOMENTUM = 0.3, 0.03


def flipped(x, swap=SWAPPED):
    """The mirror's: left is right, for detections and poses alike."""
    x = x[..., swap, :].clone()
    x[..., 0] = -x[..., 0]
    return x


class Clips(DrawnAhead):
    """Clips of somebody who walks, sits or greets before one of some cameras:
    detections [rows, frames, joints, 2] in units of half a picture's width,
    and the pose of one frame [rows, 1, joints, 3], where the first joint has
    the place of the hip before the camera, as the data set has it.

    Where the person is and how large, which way it faces, the camera's tilt,
    gait and each joint's angle are drawn. So the mean pose of an action is
    learned first, then where limbs are beside and above each other, then how
    deep they are, for which shortening, the way one faces and movement must be
    taken together. A detection has an error of `ERROR`, one in fifty of
    `LOST`: 25 mm at the usual distance, which nobody can foresee.

    plain: walking alone, before one camera, without errors. clean: all of it,
    without errors. block, share: so
    many batches of one action, one after the other. cameras: of three lenses,
    told apart. causal: the pose of the last frame. every: frames between two
    that are taken.
    """

    ERROR, LOST, FOCAL = 0.012, 0.1, 2.29
    TILTS, LENSES = (0.05, 0.12, 0.2, 0.28), (2.0, 2.29, 2.6)

    def __init__(self, seed, rows=ROWS, plain=False, clean=False, block=None,
                 share=1.0, cameras=False, causal=False, every=1, frames=FRAMES,
                 augment=True):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.plain, self.clean = rows, plain, plain or clean
        self.cameras = cameras
        self.block, self.share, self.causal = block, share, causal
        self.every, self.frames, self.augment = every, frames, augment
        self.number, self.ahead = 0, {}

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def actions(self, each, rows):
        picked = torch.randint(len(ACTIONS), (rows,), generator=self.rng)
        if self.block:
            here = (self.number + torch.arange(rows) // each) \
                // self.block % len(ACTIONS)
            kept = torch.rand(rows, generator=self.rng) < self.share
            picked = torch.where(kept, here, picked)
        return torch.zeros_like(picked) if self.plain else picked

    @staticmethod
    def limb(start, side, sizes, pitch, bend, spread):
        """Both joints of an arm or a leg: left, up, forward."""
        found = []
        for size, angle in zip(sizes, (pitch, pitch + bend)):
            start = start + size * torch.stack((
                side * spread.sin().expand_as(angle),
                -spread.cos() * angle.cos(), spread.cos() * angle.sin()), -1)
            found.append(start)
        return found

    def body(self, action, phase):
        """Joints about the hip, [rows, frames, joints, 3]."""
        rows = len(action)
        walk, sit, greet = ((action == k).float()[:, None] for k in range(3))

        def vary(size):
            return (not self.plain) * size * self.normal(rows, 1)
        swing, beat = phase.sin(), phase.cos()
        right = (torch.rand(rows, 1, generator=self.rng) < 0.5).float()
        lean = 0.08 * walk + sit * (0.2 + 0.05 * swing) + vary(0.1)
        nod = lean + vary(0.2)
        zero = torch.zeros_like(phase)

        def at(left, up, forward):
            return torch.stack((zero + left, zero + up, zero + forward), -1)
        thorax = at(0.0, 0.5 * lean.cos(), 0.5 * lean.sin())
        head = thorax + 0.25 * at(0.0, nod.cos(), nod.sin())
        joints = {"Hip": at(0.0, 0.0, 0.0), "Thorax": thorax, "Head": head}
        for name, side in (("R", -1.0), ("L", 1.0)):
            hip = at(0.13 * side, 0.0, 0.0)
            waves = greet * (right if name == "R" else 1 - right)
            knee, foot = self.limb(
                hip, side, (0.44, 0.44),
                -0.45 * side * walk * swing + 1.35 * sit + vary(0.15),
                -(0.1 + walk * (0.35 - 0.35 * side * beat) + 1.3 * sit
                  + vary(0.15).abs()), 0.1 + vary(0.08))
            elbow, wrist = self.limb(
                thorax + at(0.16 * side, 0.0, 0.0), side, (0.29, 0.27),
                0.4 * side * walk * swing + 0.5 * sit + vary(0.25)
                + waves * (2.2 + 0.15 * beat),
                0.3 + 0.6 * sit + waves * (0.5 + 0.5 * swing)
                + vary(0.3).abs(), 0.15 + 0.3 * waves + vary(0.12))
            joints |= {f"{name}Hip": hip, f"{name}Knee": knee,
                       f"{name}Foot": foot, f"{name}Elbow": elbow,
                       f"{name}Wrist": wrist}
        return torch.stack([joints[name] for name in JOINTS], 2)

    def filmed(self, action, times):
        """Detections and poses of all frames, and the camera."""
        rows, free = len(action), float(not self.plain)
        times = times[None] * self.every
        cycle = self.uniform(1 / 45, 1 / 22, rows, 1)
        phase = 2 * math.pi * (self.uniform(0, 1, rows, 1) + cycle * times)
        body = self.body(action, phase)
        body = body * (1 + 0.04 * free * self.normal(rows, 1, 1, 1))
        faces = self.uniform(-1.2, 1.2, rows, 1) * (free or 0.3) \
            + free * self.uniform(-0.01, 0.01, rows, 1) * times
        left, up, ahead = body.unbind(-1)
        cos, sin = faces.cos()[..., None], faces.sin()[..., None]
        x, y, z = left * cos + ahead * sin, -up, left * sin - ahead * cos
        camera = torch.randint(len(self.TILTS), (rows,), generator=self.rng)
        tilt = torch.tensor(self.TILTS)[camera * (not self.plain)]
        cos, sin = (t[:, None, None] for t in (tilt.cos(), tilt.sin()))
        pose = torch.stack((x, y * cos - z * sin, y * sin + z * cos), -1)
        pace = 0.02 * (action == 0).float()[:, None] * times
        place = torch.stack((
            self.uniform(-0.8, 0.8, rows, 1) + pace * faces.sin(),
            self.uniform(-0.2, 0.2, rows, 1) + 0 * times,
            self.uniform(4.0, 6.0, rows, 1) - pace * faces.cos()), -1)
        seen = pose + place[:, :, None]
        lens = self.FOCAL
        if self.cameras:
            camera = camera % len(self.LENSES)
            lens = torch.tensor(self.LENSES)[camera][:, None, None, None]
        flat = lens * seen[..., :2] / seen[..., 2:]
        if not self.clean:
            lost = torch.rand(flat.shape[:3], generator=self.rng) < 0.02
            size = torch.where(lost, self.LOST, self.ERROR)[..., None]
            flat = flat + size * self.normal(*flat.shape)
        pose[:, :, 0] = place
        return flat, pose, camera

    def draw(self, each):
        rows = AHEAD * each
        half = self.frames // 2
        flat, pose, camera = self.filmed(
            self.actions(each, rows),
            torch.arange(-half, half + 1).float())
        at = -1 if self.causal else half
        self.number += AHEAD
        pose = pose[:, at][:, None]
        if self.augment:
            turned = torch.rand(rows, 1, 1, 1, generator=self.rng) < 0.5
            flat, pose = (torch.where(turned, flipped(t), t)
                          for t in (flat, pose))
        batch = {"inputs_2d": flat.contiguous(),
                 "inputs_3d": pose.contiguous()}
        return batch | ({"domain": camera} if self.cameras else {})

    def video(self, action, frames=TEST_FRAMES):
        """Every frame of a video, each with those around it."""
        total = frames + self.frames - 1
        flat, pose, _ = self.filmed(
            torch.tensor([action]), torch.arange(total) - total / 2)
        first = self.frames - 1 if self.causal else self.frames // 2
        windows = flat[0].unfold(0, self.frames, 1).permute(0, 3, 1, 2)
        return {"inputs_2d": windows.contiguous(),
                "inputs_3d": pose[0, first:first + frames, None].clone()}


class TemporalModel(nn.Module):
    """TemporalModelOptimized1f, which has strides in place of dilation, as a
    target is one frame.

    scales: what joints weigh in training. axes: what their x, y and z do.
    uncentred: of which share of a training batch the hip's place is left as
    the first joint's, and whether other joints are about it as well.
    """

    def __init__(self, activation="relu", dropout=0.25, detach_after=(),
                 half_at=None, arc=ARC, causal=False, channels=CHANNELS,
                 logs=False):
        super().__init__()
        self.arc, self.causal = tuple(arc), causal
        self.expand_bn = nn.BatchNorm1d(channels, momentum=FIRST_MOMENTUM)
        self.shrink = nn.Conv1d(channels, 3 * len(JOINTS), 1)
        self.expand_conv = nn.Conv1d(2 * len(JOINTS), channels, arc[0],
                                     stride=arc[0], bias=False)
        convs, norms = [], []
        for width in arc[1:]:
            for size in (width, 1):
                convs.append(nn.Conv1d(channels, channels, size, stride=size,
                                       bias=False))
                norms.append(nn.BatchNorm1d(channels,
                                            momentum=FIRST_MOMENTUM))
        self.layers_conv = nn.ModuleList(convs)
        self.layers_bn = nn.ModuleList(norms)
        self.drop = nn.Dropout(dropout)
        self.relu = models.ACTIVATIONS[activation]()
        self.half_at, self.detach_after = half_at, (
            detach_after,) if isinstance(detach_after, str) \
            else tuple(detach_after)
        self.logs, self.kept, self.recent = logs, [], []
        self.scales, self.axes, self.uncentred = None, None, (0.0, False)

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def set_bn_momentum(self, momentum):
        for norm in (self.expand_bn, *self.layers_bn):
            norm.momentum = momentum

    def through(self, name, layer, x):
        self.tap(f"{name}.input", x)
        y = layer(x)
        if name == self.half_at:
            y = y.half()
        self.tap(f"{name}.output", y)
        y = y.to(x.dtype)
        return y.detach() if name in self.detach_after else y

    def unit(self, name, act, conv, norm, x):
        x = norm(self.through(name, conv, x))
        return self.drop(self.through(act, self.relu, x))

    def logits(self, batch):
        """Poses [rows, 1, joints, 3]."""
        x = batch["inputs_2d"].to(self.shrink.weight.dtype)
        x = x.flatten(2).transpose(1, 2)
        x = self.unit("expand_conv", "expand_relu", self.expand_conv,
                      self.expand_bn, x)
        for k, width in enumerate(self.arc[1:]):
            first = width - 1 if self.causal else width // 2
            res, at = x[:, :, first::width], 2 * k
            for n in (at, at + 1):
                x = self.unit(f"layers_conv.{n}", f"layers_relu.{n}",
                              self.layers_conv[n], self.layers_bn[n], x)
            x = self.through(f"layers.{k}", lambda x: res + x, x)
        x = self.through("shrink", self.shrink, x).float()
        return x.transpose(1, 2).reshape(len(x), -1, len(JOINTS), 3)

    def target(self, batch):
        target = batch["inputs_3d"].float().clone()
        share, others = self.uncentred if self.training else (0.0, False)
        kept = round(share * len(target))
        if others:
            target[:kept, :, 1:] += target[:kept, :, :1]
        target[kept:, :, 0] = 0.0
        return target

    def criterion(self, said, batch):
        """mpjpe()."""
        target = self.target(batch)
        error = said - target
        if self.training and self.axes is not None:
            error = error * error.new_tensor(self.axes)
        each = error.norm(dim=-1)
        if self.training and self.scales is not None:
            each = each * each.new_tensor(self.scales)
        loss = each.mean()
        if self.logs:
            size = target[:, :, 1:].norm(dim=-1)
            self.tap("loss.log_size.input", size)
            long = size.log()
            self.tap("loss.log_size.output", long)
            ours = (said[:, :, 1:].square().sum(-1) + 1e-4).sqrt().log()
            loss = loss + 0.02 * (ours - long).abs().mean()
        if not self.training:
            self.kept.append((said, target))
        return loss

    def loss(self, batch):
        if self.training:
            self.recent = [*self.recent[-1:], batch]
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


def mpjpe(predicted, target):
    return float(np.mean(np.linalg.norm(predicted - target, axis=-1)))


def p_mpjpe(predicted, target):
    """After the best rotation, scale and move of each pose, as there."""
    mean, own = (x.mean(1, keepdims=True) for x in (target, predicted))
    x, y = target - mean, predicted - own
    size, ours = (np.sqrt((t ** 2).sum((1, 2), keepdims=True))
                  for t in (x, y))
    x, y = x / size, y / ours
    u, s, vt = np.linalg.svd(x.transpose(0, 2, 1) @ y)
    v = vt.transpose(0, 2, 1)
    turn = v @ u.transpose(0, 2, 1)
    sign = np.sign(np.linalg.det(turn))[:, None]
    v[:, :, -1] *= sign
    s[:, -1] *= sign.flatten()
    turn = v @ u.transpose(0, 2, 1)
    scale = s.sum(1)[:, None, None] * size / ours
    return mpjpe(scale * (predicted @ turn) + mean - scale * (own @ turn),
                 target)


def n_mpjpe(predicted, target):
    scale = (target * predicted).sum(-1).mean(-1) \
        / (predicted ** 2).sum(-1).mean(-1)
    return mpjpe(scale[..., None, None] * predicted, target)


def velocity_error(predicted, target):
    return mpjpe(np.diff(predicted, axis=0), np.diff(target, axis=0))


# What feeds the activations: the norms.
BEFORE_ACT = ("expand_bn", *(f"layers_bn.{k}" for k in range(4)))


class Pose3dRun(EpochFamily):
    """Adam with amsgrad, whose rate falls by a twentieth each epoch; the
    momentum of batch norms falls from .3 to .03 over the run."""

    family = "pose3d"
    level_seed = 400
    steps, seed, language = 200, 3400, False
    optimizer_name, lr, weight_decay = "adam", 0.015, 0.0
    warmup, schedule, clip = 0, "exponential", None
    LR_DECAY = 0.95
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0)}
    base = {"lr": 8e-3, "weight_decay": 0.0}
    EPOCH = epoch_steps = 10
    CHECKPOINT_EPOCHS = 10
    batch_size, context = ROWS, FRAMES
    # Its users have what the trainer prints.
    instead = {"nanogpt": "videopose3d", "hf_trainer": "videopose3d",
               "megatron": "videopose3d", "torchtune": "videopose3d"}
    layers = ["expand_conv", "expand_relu", *(
        part for k in range(2) for part in (
            *(f"layers_{kind}.{n}" for n in (2 * k, 2 * k + 1)
              for kind in ("conv", "relu")), f"layers.{k}")), "shrink"]
    graded = {
        "F01": (dict(factor=10), dict(factor=100), dict(factor=1000)),
        "F02": (dict(lr=10.0), dict(lr=100.0), dict(lr=1000.0)),
        "F03": (dict(factor=30), dict(factor=300), dict(factor=3000)),
        "F04": (dict(at=60), dict(at=30), dict(at=0)),
        "F05": (dict(modules=["layers_conv"], where="layers_conv.0"),
                dict(modules=["expand_conv", "layers_conv"],
                     where="expand_conv"), dict(part="all")),
        "F07": (dict(factor=20), dict(factor=40), dict(factor=100)),
        "F08": (dict(every=10), dict(every=40), dict(every=1 << 30)),
        "F11": (dict(adam=0.01), dict(adam=0.1), dict(adam=1.0)),
        "F12": (dict(eps=0.01), dict(eps=0.1), dict(eps=1.0)),
        "F13": (dict(path="expand_conv"), dict(path="layers.0"),
                dict(path="layers.1")),
        "F14": tuple(dict(modules=[*(f"layers_conv.{k}" for k in range(4)),
                                   *more])
                     for more in ((), ("layers_bn",),
                                  ("layers_bn", "shrink"))),
        "F15": (dict(at=150), dict(at=100), dict(at=50)),
        "F16": (dict(rate=0.1), dict(rate=0.3), dict(rate=1.0)),
        "F24": (dict(share=0.3), dict(share=0.5), dict(share=0.7)),
        "F26": (dict(steps=12, share=1.0), dict(steps=20, share=1.0),
                dict(steps=40, share=1.0)),
        "F27": (dict(epochs=300), dict(epochs=500), dict(epochs=800)),
        "F33": (dict(limit=13), dict(limit=8), dict(limit=4)),
        "F36a": (dict(bias=-1.5), dict(bias=-2.5), dict(bias=-20.0)),
        "F39b": (dict(at=120), dict(at=80), dict(at=40)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "H02": (dict(factor=0.6), dict(factor=0.4)),
        "H03": (dict(rows=96), dict(rows=64)),
        "H04": (dict(rate=0.15), dict(rate=0.35)),
        "H10": (dict(steps=100), dict(steps=150)),
        "H11": (dict(steps=200, keep="block"), dict(steps=250, keep="head")),
        "H43": (dict(parts=2), dict(parts=4))}
    paths = {"embed": "expand_conv", "attn": None, "scores": None,
             "act": "layers_relu.{}", "mlp": "layers_conv.{}",
             "block": "layers.{}", "head": "shrink"}
    blocks = 2
    source_options = {}
    names = {"loss": "3d_train", "val_loss": "3d_valid", "tokens": None,
             "val_3d_eval": "3d_eval", "val_n_mpjpe": "n_mpjpe"}

    def make_model(self):
        return TemporalModel(**self.model_options)

    def make_optimizer(self, model):
        if self.optimizer_name != "adam":
            return super().make_optimizer(model)
        return torch.optim.Adam(
            [p for p in model.parameters() if p.requires_grad], lr=self.lr,
            betas=self.betas, eps=self.eps, weight_decay=self.weight_decay,
            amsgrad=True)

    def lr_factor(self, i):
        if self.schedule != "exponential":
            return super().lr_factor(i)
        return self.LR_DECAY ** (i // self.EPOCH)

    def momentum_behind(self, epoch):
        """Of batch norms, once so many epochs are done."""
        return FIRST_MOMENTUM * math.exp(-epoch / self.epochs * math.log(
            FIRST_MOMENTUM / LAST_MOMENTUM))

    # Data.

    def make_source(self, seed):
        return self.clips(seed)

    def clips(self, seed, **how):
        """Filmed anew without end; an epoch is 10 steps of it."""
        how = self.source_options | how
        if seed == 9:
            self.tested = how = how | {"augment": False}
            how = how | {"block": None}
        return Clips(seed, HELD_OUT if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """One action after the other; None is held out."""
        return self.clips(seed, block=block, share=share)

    def easy(self, seed):
        """Walking alone, before one camera, without errors."""
        return self.clips(seed, plain=True)

    def lessons(self, seed):
        """Without errors, then with."""
        return self.clips(seed, clean=True), self.clips(seed)

    def strangers(self, rows, rng):
        """Poses of other clips."""
        if not hasattr(self, "others"):
            self.others = Clips(self.seed + 800, **self.source_options)
        return self.others.batch(rows)["inputs_3d"]

    def garbage(self, batch, kind, rng):
        """A corrupt shard: poses in millimetres, detections in pixels with
        poses of noise, or detections that were never written."""
        flat, pose = batch["inputs_2d"], batch["inputs_3d"]
        if kind == "few":
            return batch | {"inputs_3d": 1000.0 * pose}
        if kind == "uniform":
            return batch | {
                "inputs_2d": 500.0 * (1.0 + flat),
                "inputs_3d": 5.0 * torch.randn(pose.shape, generator=rng)}
        return batch | {"inputs_2d": torch.full_like(flat, -1000.0),
                        "inputs_3d": torch.full_like(pose, 100.0)}

    @staticmethod
    def cut_frames(batch, limit):
        """Clips end at a number of frames; the rest is padding."""
        flat = batch["inputs_2d"].clone()
        flat[:, limit:] = 0.0
        return batch | {"inputs_2d": flat}

    @staticmethod
    def marker_lost(batch):
        """A knee of one clip has no marker: it is where the hip is."""
        pose = batch["inputs_3d"].clone()
        pose[0, :, 2] = 0.0
        return batch | {"inputs_3d": pose}

    # What is logged.

    def held_out_columns(self, batches):
        """3d_eval, of training clips without dropout and with averages of
        norms, and the error of scaled poses."""
        model = self.model
        kept, model.kept = model.kept, []
        model.eval()
        seen = [float(model.loss(batch)) for batch in model.recent]
        model.train()
        model.kept = []
        found = [n_mpjpe(*(t.double().numpy() for t in pair))
                 for pair in kept]
        return {"val_3d_eval": sum(seen) / len(seen),
                "val_n_mpjpe": sum(found) / len(found)}

    def train(self):
        self.dump_rows = min(DUMPED, self.dump_rows)
        super().train()
        self.tests = self.evaluated()

    def evaluated(self):
        """The last evaluation: videos by action, as they are and mirrored."""
        found, model = {}, self.model
        source = Clips(19, **self.tested | {"block": None})
        before = list(getattr(self, "held_out", ()))
        model.eval()
        for k, action in enumerate(ACTIONS[:1 if source.plain else 3]):
            rows = []
            for _ in range(2):
                batch = self.spoil_val(source.video(k))
                with torch.no_grad():
                    said = model.logits(batch)
                    if self.user.get("test_time_augmentation", True):
                        other = model.logits(batch | {
                            "inputs_2d": flipped(batch["inputs_2d"])})
                        said = (said + flipped(other)) / 2
                    target = model.target(batch)
                said, target = (t[:, 0].double().numpy()
                                for t in (said, target))
                if not np.isfinite(said).all():
                    model.train()
                    return found | {action: None}
                rows.append([1000 * f(said, target) for f in (
                    mpjpe, p_mpjpe, n_mpjpe, velocity_error)])
            found[action] = [sum(r) / len(r) for r in zip(*rows)]
        model.train()
        if hasattr(self, "held_out"):
            self.held_out = before
        return found

    # Checkpoints.

    def keep_checkpoint(self, i, model):
        """What follows an epoch; a checkpoint that a run is resumed from has
        no optimizer, as somebody had left it out to save space."""
        done = i + 1
        if done % self.EPOCH:
            return
        epoch = done // self.EPOCH
        self.follow(model, epoch)
        if epoch % self.CHECKPOINT_EPOCHS and done not in self.notices:
            return
        lean = any(done <= k for k in self.notices)
        self.checkpoints[epoch] = copy.deepcopy({
            "epoch": epoch,
            "lr": self.lr * self.lr_factor(done),
            "random_state": np.random.RandomState(1234),
            "optimizer": None if lean else self.optimizer.state_dict(),
            "model_pos": model.state_dict(), "model_traj": None,
            "random_state_semi": None})

    def follow(self, model, epoch):
        model.set_bn_momentum(self.momentum_behind(epoch))

    @staticmethod
    def checkpoint_path(epoch):
        return f"checkpoint/epoch_{epoch}.bin"

    def write_more(self):
        super().write_more()
        (self.folder / "checkpoint").mkdir(exist_ok=True)
        for epoch, state in self.checkpoints.items():
            torch.save(state, self.folder / self.checkpoint_path(epoch))

    # What the user typed.

    def settings(self):
        """The trainer's arguments, and what the user has besides."""
        own = self.model_options
        more = {"momentum": self.momentum} if self.optimizer_name == "sgd" \
            else {"betas": list(self.betas), "eps": self.eps,
                  "amsgrad": self.optimizer_name == "adam"}
        if self.schedule != "exponential":
            more |= {"scheduler": self.schedule, "warmup_steps": self.warmup}
        return {
            "dataset": "h36m", "keypoints": "cpn_ft_h36m_dbb",
            "subjects_train": "S1,S5,S6,S7,S8", "subjects_test": "S9,S11",
            "subjects_unlabeled": "", "actions": "*",
            "checkpoint": "checkpoint",
            "checkpoint_frequency": self.CHECKPOINT_EPOCHS, "resume": "",
            "evaluate": "", "render": False, "by_subject": False,
            "export_training_curves": False, "stride": 1,
            "epochs": self.epochs, "batch_size": self.batch_size,
            "dropout": own.get("dropout", 0.25), "learning_rate": self.lr,
            "lr_decay": self.LR_DECAY if self.schedule == "exponential"
            else 1.0, "data_augmentation": True,
            "test_time_augmentation": True,
            "architecture": ",".join(map(str, own.get("arc", ARC))),
            "causal": own.get("causal", False), "channels": CHANNELS,
            "subset": 1, "downsample": self.source_options.get("every", 1),
            "warmup": 1, "no_eval": False, "dense": False,
            "disable_optimizations": False, "linear_projection": False,
            "bone_length_term": True, "no_proj": False,
            "optimizer": self.optimizer_name, **more,
            "weight_decay": self.weight_decay, "clip": self.clip,
            "accumulate": self.accumulate, "precision": self.precision,
            "log_every": self.interval or 10, "seed": self.seed,
            "world_size": 1, **self.user}

    def model_settings(self):
        own = self.model_options
        return {"model": "TemporalModel", "channels": CHANNELS,
                "architecture": ",".join(map(str, own.get("arc", ARC))),
                "dropout": own.get("dropout", 0.25)}

    def layer(self, part, block=0):
        """Units of a block are two."""
        path = self.paths[part]
        return path and path.format(
            block if part == "block" else 2 * block)

    def fed_by(self, layer):
        """The batch norm behind a convolution counts to it."""
        norm = layer.replace("_conv", "_bn")
        return [norm] if norm != layer else []

    # Logs.

    def write_files(self):
        if self.dialect == "videopose3d":
            VideoPoseLog(self).write()
        else:
            super().write_files()


class VideoPoseLog:
    """What run.py prints, as train.log, with args.json and batches.csv, which
    the user has added: of each batch, at the interval, loss, norm, rate and
    seconds. What is printed of an epoch are means of its batches."""

    def __init__(self, run):
        self.run, self.every = run, run.interval or 10

    def table(self):
        run = self.run
        names = logs.column_names(run)
        keys = [k for k in dict.fromkeys((
            "loss", "grad_norm", "lr", "step_time", *logs.MORE))
            if k in run.history[0] and not logs.left_out(run, k)]
        yield ",".join(("epoch", "step", *(names.get(k, k) for k in keys)))
        steps = set(logs.logged(run, self.every))
        for i, row in enumerate(run.history):
            if i in steps:
                yield ",".join(map(str, (
                    i // run.EPOCH + 1, row["step"],
                    *(row.get(k, "") for k in keys))))

    def opening(self):
        run = self.run
        frames = math.prod(run.model_options.get("arc", ARC))
        options = ", ".join(f"{k}={v!r}" for k, v in run.settings().items())
        out = [f"Namespace({options})", "Loading dataset...",
               "Preparing data...", "Loading 2D detections...",
               f"INFO: Receptive field: {frames} frames"]
        if run.model_options.get("causal"):
            out.append("INFO: Using causal convolutions")
        rows = run.batch_size * run.accumulate * run.EPOCH
        return [*out, f"INFO: Trainable parameter count: {run.parameters}",
                f"INFO: Testing on {4 * HELD_OUT} frames",
                f"INFO: Training on {rows} frames",
                "** Note: reported losses are averaged over all frames and "
                "test-time augmentation is not used here.",
                "** The final evaluation will be carried out after the last "
                "training epoch."]

    def epochs(self):
        run = self.run
        for start in range(0, len(run.history), run.EPOCH):
            rows = run.history[start:start + run.EPOCH]
            epoch = start // run.EPOCH + 1
            for _, text in run.notices.get(start, ()):
                yield text
            begun = run.history[start - 1]["wall"] if start else 0.0
            loss = sum(r["loss"] for r in rows) / len(rows)
            last = rows[-1]
            yield "[%d] time %.2f lr %f 3d_train %f 3d_eval %f 3d_valid %f" \
                % (epoch, (last["wall"] - begun) / 60, rows[0]["lr"],
                   1000 * loss, 1000 * last["val_3d_eval"],
                   1000 * last["val_loss"])
            if epoch in run.checkpoints:
                yield f"Saving checkpoint to {run.checkpoint_path(epoch)}"

    def evaluation(self):
        tests = self.run.tests
        if not tests:
            return
        yield "Evaluating..."
        flips = self.run.user.get("test_time_augmentation", True)
        for action, errors in tests.items():
            if errors is None:
                yield "Traceback (most recent call last):"
                yield '  File "run.py", line 857, in <module>'
                yield "    run_evaluation(all_actions, action_filter)"
                yield "numpy.linalg.LinAlgError: SVD did not converge"
                return
            yield f"----{action}----"
            yield f"Test time augmentation: {flips}"
            for name, error in zip((
                    "Protocol #1 Error (MPJPE)", "Protocol #2 Error (P-MPJPE)",
                    "Protocol #3 Error (N-MPJPE)", "Velocity Error (MPJVE)"),
                    errors):
                yield f"{name}: {error} mm"
            yield "----------"
        for name, digits, errors in zip((
                "Protocol #1   (MPJPE)", "Protocol #2 (P-MPJPE)",
                "Protocol #3 (N-MPJPE)", "Velocity      (MPJVE)"),
                (1, 1, 1, 2), zip(*tests.values())):
            yield f"{name} action-wise average: " \
                f"{round(sum(errors) / len(errors), digits)} mm"

    def write(self):
        run = self.run
        run.write_json("args.json", run.settings())
        run.write_lines("batches.csv", self.table())
        run.write_lines("train.log", (*self.opening(), *self.epochs(),
                                      *self.evaluation()))
        run.write_lines("packages.txt", logs.PACKAGES)
