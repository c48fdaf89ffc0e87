"""Depth from one camera without labels, as Monodepth2's trainer.py trains it.

A residual encoder and a decoder say disparities at four scales, another pair
of networks how the camera moved to the frames before and behind; these are
warped onto the middle one by grid_sample, and what differs is the loss: .85
SSIM and .15 L1, the least of both frames and of what is not warped at all
(automasking), and a smoothness of disparities. True depth is for metrics
alone. The encoder has three stages where ResNet-18 has four, so the decoder
has four levels where it has five. Names of parameters, options, scalars,
lines and files are the trainer's.
"""

import copy
import math

import torch
from torch import nn
from torch.nn import functional as F

from . import models
from .family import EpochFamily
from .sources import AHEAD, DrawnAhead

HEIGHT, WIDTH, ROWS, HELD_OUT, KINDS = 32, 32, 4, 8, 4
FOCAL = 0.9             # of the camera, in heights and widths
FRAMES = (0, -1, 1)
SCALES = (0, 1, 2, 3)
ENCODER, DECODER, POSE = (8, 8, 12, 16), (8, 8, 12, 16), 16
SMOOTHNESS, MIN_DEPTH, MAX_DEPTH, POSE_SCALE = 1e-3, 0.1, 100.0, 0.2
METRICS = ("de/abs_rel", "de/sq_rel", "de/rms", "de/log_rms", "da/a1",
           "da/a2", "da/a3")
COLUMNS = tuple(m.split("/")[1] for m in METRICS)


def intrinsics():
    return torch.tensor([[FOCAL * WIDTH, 0.0, (WIDTH - 1) / 2],
                         [0.0, FOCAL * HEIGHT, (HEIGHT - 1) / 2],
                         [0.0, 0.0, 1.0]])


def rays():
    """(3, pixels): where each pixel looks, at a depth of 1."""
    y, x = torch.meshgrid(torch.arange(float(HEIGHT)),
                          torch.arange(float(WIDTH)), indexing="ij")
    pixels = torch.stack((x, y, torch.ones_like(x))).flatten(1)
    return torch.linalg.inv(intrinsics()) @ pixels


class Yards(DrawnAhead):
    """A ground, a wall and two boards that stand on the ground, and a camera
    that drives past them to the right.

    All are planes with waves of a few pixels on them. The ground is .9 to 1.2
    below the camera, the wall 5 to 9 away, boards are 1.6 to 4.5 away and as
    large as they are: so how high a pixel is says the depth of the ground, a
    board's foot that of the board. What is far is paler. A yard is one of four
    kinds, each with a hue of its own. Between two frames the camera moves by
    .16 to .34 to the right and by up to .08 ahead or back and turns a little;
    one step is not quite the other. Each number has an error of `ERROR`, drawn
    for each frame.

    domains: of three cameras, whose gain and offset differ by `apart`; block,
    share: one of them after the other; boards: how many there are; still: a
    share of the rows in which the camera does not move; stride: how many of
    its steps lie between two frames.
    """

    ERROR, HAZE = 0.01, 0.12
    HUES = torch.tensor(((0.68, 0.38, 0.24), (0.24, 0.55, 0.35),
                         (0.24, 0.34, 0.68), (0.62, 0.58, 0.22)))

    def __init__(self, seed, rows=ROWS, block=None, share=1.0, domains=False,
                 boards=2, still=0.0, stride=1, apart=0.1):
        self.rng = torch.Generator().manual_seed(seed)
        self.rows, self.block, self.share, self.number = rows, block, share, 0
        self.domains, self.boards, self.still = domains, boards, still
        self.stride, self.apart = stride, apart
        self.ahead, self.rays = {}, rays()

    def normal(self, *shape):
        return torch.randn(shape, generator=self.rng)

    def uniform(self, low, high, *shape):
        return low + (high - low) * torch.rand(shape, generator=self.rng)

    def cameras(self, each):
        rows = AHEAD * each
        camera = torch.randint(3, (rows,), generator=self.rng)
        if self.block:
            here = (self.number + torch.arange(rows) // each) \
                // self.block % 3
            kept = torch.rand(rows, generator=self.rng) < self.share
            camera = torch.where(kept, here, camera)
        self.number += AHEAD
        return camera

    def motion(self, rows):
        """Where the camera is, (frames, rows, 3), and how it is turned."""
        ahead = self.stride * torch.stack((
            self.uniform(0.16, 0.34, rows), torch.zeros(rows),
            self.uniform(-0.08, 0.08, rows)), -1)
        turn = 0.006 * self.normal(rows)
        moves = torch.rand(rows, generator=self.rng) >= self.still
        at, yaw = [], []
        for way in FRAMES:
            off = 1 + 0.1 * self.normal(rows, 1)
            at.append(way * off * ahead * moves[:, None])
            yaw.append(way * turn * moves)
        return torch.stack(at), torch.stack(yaw)

    def waves(self, rows, short, long):
        """Three of a plane: direction and frequency, phase, colour."""
        angle = self.uniform(0, 2 * math.pi, 3, rows, 1, 1)
        size = 2 * math.pi / self.uniform(short, long, 3, rows, 1, 1)
        colour = 0.11 * (0.6 + 0.4 * self.normal(3, rows, 3, 1))
        return (size * angle.cos(), size * angle.sin(),
                self.uniform(0, 2 * math.pi, 3, rows, 1, 1), colour)

    @staticmethod
    def painted(base, waves, u, v):
        along, across, phase, colour = waves
        return base[..., None] + sum(
            colour[k] * (along[k] * u + across[k] * v + phase[k]).sin()
            for k in range(3))

    def draw(self, each):
        rows = AHEAD * each
        kind = torch.randint(KINDS, (rows,), generator=self.rng)
        at, yaw = self.motion(rows)
        hue = self.HUES[kind]
        low = self.uniform(0.9, 1.2, rows, 1)
        wall = self.uniform(5, 9, rows, 1)
        shades = [hue + 0.06 * self.normal(rows, 3) for _ in range(4)]
        on_wall = self.waves(rows, 1.4, 3.5)
        on_ground = self.waves(rows, 0.9, 2.2)
        boards = []
        for n in range(2):
            far = self.uniform(1.6, 4.5, rows, 1)
            wide, high = self.uniform(0.5, 1.2, 2, rows, 1)
            middle = far * self.uniform(-0.45, 0.45, rows, 1)
            boards.append((far, wide / 2, high, middle,
                           self.waves(rows, 0.5, 1.1)))
        batch = {}
        for way, here, angle in zip(FRAMES, at, yaw):
            x, y, z = self.rays
            cos, sin = angle.cos()[:, None], angle.sin()[:, None]
            dx, dy, dz = cos * x + sin * z, y.expand(rows, -1), \
                cos * z - sin * x
            # The wall, then what is in front of it.
            far = (wall - here[:, 2:]) / dz
            depth, where = far * z, wall.expand_as(far)
            u, v = here[:, :1] + far * dx, here[:, 1:2] + far * dy
            image = self.painted(shades[0], on_wall, u[:, None], v[:, None])
            below = torch.where(dy > 1e-3, (low - here[:, 1:2])
                                / dy.clamp_min(1e-3), math.inf)
            u, v = here[:, :1] + below * dx, here[:, 2:] + below * dz
            seen = below < far
            u, v = (torch.where(seen, t, 0.0)[:, None] for t in (u, v))
            image = torch.where(seen[:, None], self.painted(
                shades[1], on_ground, u, v), image)
            depth = torch.where(seen, below * z, depth)
            where = torch.where(seen, v[:, 0], where)
            for n, (away, half, high, middle, on_it) in enumerate(
                    boards[:self.boards]):
                far = (away - here[:, 2:]) / dz
                u, v = here[:, :1] + far * dx, here[:, 1:2] + far * dy
                seen = ((u - middle).abs() < half) & (v > low - high) \
                    & (v < low) & (far * z < depth)
                image = torch.where(seen[:, None], self.painted(
                    shades[2 + n], on_it, u[:, None], v[:, None]), image)
                depth = torch.where(seen, far * z, depth)
                where = torch.where(seen, away, where)
            pale = 1 - (-self.HAZE * where)[:, None].exp()
            image = image + pale * (0.85 - image)
            batch[f"color_{way}_0"] = image.view(rows, 3, HEIGHT, WIDTH)
            if not way:
                true = depth.view(rows, 1, HEIGHT, WIDTH)
        self.true = at, yaw
        if self.domains:
            camera = self.cameras(each)
            each = self.apart * (camera[:, None, None, None] - 1.0)
            batch = {k: (1 + each) * t + each / 2
                     for k, t in batch.items()}
        still = (at[1] == 0).all(1)[:, None, None, None]
        noisy = {}
        for name, image in batch.items():
            image = image + self.ERROR * self.normal(*image.shape)
            noisy[name] = image.clamp(0, 1).contiguous()
        if self.still:  # a parked car sends one picture again and again
            first = noisy["color_0_0"]
            noisy = {k: torch.where(still, first, t)
                     for k, t in noisy.items()}
        noisy["depth_gt"] = true.contiguous()
        if self.domains:
            noisy["domain"] = camera
        return noisy


def means_of_three(size):
    """A matrix that takes them along a line, mirrored at its ends."""
    matrix = torch.zeros(size, size)
    for i in range(size):
        for j in (i - 1, i, i + 1):
            matrix[min(abs(j), 2 * size - 2 - j), i] += 1 / 3
    return matrix


ALONG, ACROSS = means_of_three(WIDTH), means_of_three(HEIGHT).T


def window(x):
    """Means of 3 by 3; products are faster than pooling."""
    return ACROSS @ (x @ ALONG)


def similarity_loss(x, y, of_y=None):
    """SSIM as a loss; of_y are means and variances of y, if known."""
    near, far = 0.01 ** 2, 0.03 ** 2
    mu_x, (mu_y, var_y) = window(x), of_y or moments(y)
    var_x = window(x ** 2) - mu_x ** 2
    common = window(x * y) - mu_x * mu_y
    same = (2 * mu_x * mu_y + near) * (2 * common + far)
    most = (mu_x ** 2 + mu_y ** 2 + near) * (var_x + var_y + far)
    return ((1 - same / most) / 2).clamp(0, 1)


def moments(y):
    mean = window(y)
    return mean, window(y ** 2) - mean ** 2


def rotations(vec):
    """rot_from_axisangle: (rows, 3) to (rows, 3, 3)."""
    angle = torch.linalg.vector_norm(vec, dim=1, keepdim=True)
    x, y, z = (vec / (angle + 1e-7)).unbind(1)
    cos, sin = angle[:, 0].cos(), angle[:, 0].sin()
    rest = 1 - cos
    return torch.stack((
        x * x * rest + cos, x * y * rest - z * sin, z * x * rest + y * sin,
        x * y * rest + z * sin, y * y * rest + cos, y * z * rest - x * sin,
        z * x * rest - y * sin, y * z * rest + x * sin, z * z * rest + cos),
        1).view(-1, 3, 3)


def smooth_loss(disp, image):
    """get_smooth_loss: edges cost less where the picture has some."""
    across = (disp[..., :-1] - disp[..., 1:]).abs()
    down = (disp[..., :-1, :] - disp[..., 1:, :]).abs()
    seen_across = (image[..., :-1] - image[..., 1:]).abs().mean(1, True)
    seen_down = (image[..., :-1, :] - image[..., 1:, :]).abs().mean(1, True)
    return (across * (-seen_across).exp()).mean() \
        + (down * (-seen_down).exp()).mean()


def depth_errors(true, said):
    """compute_depth_losses: over the batch, scaled by its medians."""
    true, said = true.flatten(), said.detach().float().flatten()
    said = (said * true.median() / said.median()).clamp(1e-3, 80)
    off = torch.maximum(true / said, said / true)
    square, logs = (true - said) ** 2, (true.log() - said.log()) ** 2
    return dict(zip(COLUMNS, (
        ((true - said).abs() / true).mean(), (square / true).mean(),
        square.mean().sqrt(), logs.mean().sqrt(),
        *((off < 1.25 ** k).float().mean() for k in (1, 2, 3)))))


class BasicBlock(nn.Module):
    def __init__(self, wide, out, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(wide, out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(out)
        self.relu = nn.ReLU()
        self.conv2 = nn.Conv2d(out, out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(out)
        self.downsample = None
        if stride > 1:
            self.downsample = nn.Sequential(
                nn.Conv2d(wide, out, 1, stride, bias=False),
                nn.BatchNorm2d(out))

    def forward(self, x, name, through):
        y = self.bn1(through(f"{name}.conv1", self.conv1, x))
        y = through(f"{name}.relu", self.relu, y)
        y = self.bn2(through(f"{name}.conv2", self.conv2, y))
        return F.relu(y + (self.downsample(x) if self.downsample else x))


class Resnet(nn.Module):
    """One block a stage, where ResNet-18 has two."""

    def __init__(self, images=1):
        super().__init__()
        wide = ENCODER
        self.conv1 = nn.Conv2d(3 * images, wide[0], 7, 2, 3, bias=False)
        self.bn1 = nn.BatchNorm2d(wide[0])
        self.relu = nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        for k in range(1, 4):
            block = BasicBlock(wide[k - 1], wide[k], 1 if k == 1 else 2)
            setattr(self, f"layer{k}", nn.Sequential(block))
        for part in self.modules():
            if isinstance(part, nn.Conv2d):
                nn.init.kaiming_normal_(part.weight, mode="fan_out",
                                        nonlinearity="relu")


class ResnetEncoder(nn.Module):
    def __init__(self, images=1):
        super().__init__()
        self.encoder = Resnet(images)

    def forward(self, x, name, through):
        own, name = self.encoder, f"{name}.encoder"
        x = through(f"{name}.conv1", own.conv1, (x - 0.45) / 0.225)
        features = [own.relu(own.bn1(x))]
        x = own.maxpool(features[0])
        for k in range(1, 4):
            at = f"{name}.layer{k}"
            x = through(at, lambda x: getattr(own, f"layer{k}")[0](
                x, f"{at}.0", through), x)
            features.append(x)
        return features


class Conv3x3(nn.Module):
    def __init__(self, wide, out):
        super().__init__()
        self.pad = nn.ReflectionPad2d(1)
        self.conv = nn.Conv2d(wide, out, 3)

    def forward(self, x, name, through):
        return through(f"{name}.conv", lambda x: self.conv(self.pad(x)), x)


class ConvBlock(nn.Module):
    def __init__(self, wide, out, activation):
        super().__init__()
        self.conv = Conv3x3(wide, out)
        self.nonlin = nn.ELU() if activation == "elu" \
            else models.ACTIVATIONS[activation]()

    def forward(self, x, name, through):
        x = self.conv(x, f"{name}.conv", through)
        return through(f"{name}.nonlin", self.nonlin, x)


class DepthDecoder(nn.Module):
    """Two blocks a level, from coarse to fine, then what says disparities,
    from fine to coarse: 0 to 7 and 8 to 11."""

    def __init__(self, activation):
        super().__init__()
        parts = []
        for i in (3, 2, 1, 0):
            wide = ENCODER[-1] if i == 3 else DECODER[i + 1]
            skip = ENCODER[i - 1] if i else 0
            parts += [ConvBlock(wide, DECODER[i], activation),
                      ConvBlock(DECODER[i] + skip, DECODER[i], activation)]
        parts += [Conv3x3(DECODER[s], 1) for s in SCALES]
        self.decoder = nn.ModuleList(parts)

    def forward(self, features, name, through, drop):
        def part(k, x):
            return self.decoder[k](x, f"{name}.decoder.{k}", through)
        x, said = drop(features[-1]), {}
        for k, i in enumerate((3, 2, 1, 0)):
            x = [F.interpolate(part(2 * k, x), scale_factor=2)]
            x = part(2 * k + 1, torch.cat(
                x + ([features[i - 1]] if i else []), 1))
            said[i] = part(8 + i, x).float().sigmoid()
        return said


class PoseDecoder(nn.Module):
    """Of two frames that it says, as there, the first one counts. What it says
    is multiplied by .2, not .01, as it has 16 channels where that has 256, and
    its last map begins a tenth as large: else disparities reach their bounds
    before the camera moves."""

    def __init__(self):
        super().__init__()
        self.net = nn.ModuleList([
            nn.Conv2d(ENCODER[-1], POSE, 1), nn.Conv2d(POSE, POSE, 3, 1, 1),
            nn.Conv2d(POSE, POSE, 3, 1, 1), nn.Conv2d(POSE, 12, 1)])
        with torch.no_grad():
            for p in self.net[3].parameters():
                p.mul_(0.1)

    def forward(self, x, name, through):
        for k, part in enumerate(self.net):
            x = through(f"{name}.net.{k}", part, x)
            if k < 3:
                x = x.relu()
        return x.float().mean((2, 3)).view(-1, 2, 6)[:, 0]


class Monodepth(nn.Module):
    """The trainer's four models and what it makes of them."""

    BLOCKS = tuple(f"depth.decoder.{k}" for k in range(8))

    def __init__(self, activation="elu", dropout=0.0, detach_after=(),
                 half_at=None, smoothness=SMOOTHNESS, min_depth=MIN_DEPTH,
                 max_depth=MAX_DEPTH, pose_scale=POSE_SCALE, automask=True,
                 average=False, ssim=True, logs=False):
        """activation: of the decoder. detach_after: the layers behind which
        the graph is cut. half_at: the convolution whose output is in half
        precision. automask, average, ssim: options of the trainer. logs: the
        mean of the logarithms of errors."""
        super().__init__()
        self.encoder, self.depth = ResnetEncoder(), DepthDecoder(activation)
        self.pose_encoder, self.pose = ResnetEncoder(2), PoseDecoder()
        self.dropout, self.half_at = dropout, half_at
        self.detach_after = (detach_after,) if isinstance(detach_after, str) \
            else tuple(detach_after)
        self.smoothness, self.pose_scale = smoothness, pose_scale
        self.min_depth, self.max_depth = min_depth, max_depth
        self.automask, self.average = automask, average
        self.ssim, self.logs = ssim, logs
        self.K, self.rays = intrinsics(), rays()    # in fp32 whatever is done
        self.terms, self.kept = {}, []  # of the last loss, of a validation
        # What training has instead: by what errors of a frame that is not
        # warped are multiplied, the pictures that networks see and that are
        # compared.
        self.identity, self.seen, self.compared = 1.0, None, None

    @staticmethod
    def tap(name, tensor):
        """Replaced by the recorder for the forward passes that it watches."""

    def through(self, name, layer, x, rows=None):
        self.tap(f"{name}.input", x[:rows])
        y = layer(x)
        if name == self.half_at:
            y = y.half()
        self.tap(f"{name}.output", y[:rows])
        y = y.to(x.dtype)
        return y.detach() if name in self.detach_after else y

    def drop(self, x):
        return F.dropout(x, self.dropout, self.training) if self.dropout \
            else x

    def logits(self, batch):
        """Disparities by scale, and how the camera moved from the frame
        before to the middle one and from that on to the next."""
        kind = self.encoder.encoder.conv1.weight.dtype
        frames = {way: batch[f"color_{way}_0"] for way in FRAMES}
        if self.training and self.seen:
            frames = self.seen(frames)
        frames = {way: x.to(kind) for way, x in frames.items()}
        said = self.depth(self.encoder(frames[0], "encoder", self.through),
                          "depth", self.through, self.drop)
        # Both pairs at once; what is tapped is the first one's.
        rows = len(frames[0])
        pairs = torch.cat((torch.cat((frames[-1], frames[0]), 1),
                           torch.cat((frames[0], frames[1]), 1)))

        def through(name, layer, x):
            return self.through(name, layer, x, rows)
        moved = self.pose(self.pose_encoder(pairs, "pose_encoder",
                                            through)[-1], "pose", through)
        return said, self.pose_scale * moved.view(2, rows, 6)

    def distances(self, disp):
        """disp_to_depth."""
        low, high = 1 / self.max_depth, 1 / self.min_depth
        return 1 / (low + (high - low) * disp)

    def projected(self, depth, moved):
        """Where each pixel lies in the frames before and behind, as
        grid_sample wants it: (frames, scales * rows, y, x, 2)."""
        turn, shift = rotations(moved.flatten(0, 1)[:, :3]), \
            moved.flatten(0, 1)[:, 3:, None]
        rows = moved.shape[1]
        turns = torch.cat((turn[:rows].mT, turn[rows:]))
        # To the frame before it goes the other way round.
        shifts = torch.cat((-turns[:rows] @ shift[:rows], shift[rows:]))
        points = depth.flatten(2) * self.rays           # (s * b, 3, pixels)
        points = points.view(-1, rows, *points.shape[1:])
        turns, shifts = (t.view(2, 1, rows, 3, -1) for t in (
            self.K @ turns, self.K @ shifts))
        points = turns @ points + shifts                # (2, s, b, 3, pixels)
        places = points[..., :2, :] / (points[..., 2:, :] + 1e-7)
        size = places.new_tensor([[WIDTH - 1.0], [HEIGHT - 1.0]])
        places = (places / size - 0.5) * 2
        # grid_sample's gradient on a CPU bears no NaN; the loss has it anyway.
        places = places.nan_to_num(0.0, 1e4, -1e4).clamp(-1e4, 1e4)
        return places.transpose(-1, -2).reshape(
            2, -1, HEIGHT, WIDTH, 2)

    def errors(self, said, target, of_target=None):
        """compute_reprojection_loss; (frames, scales, rows, 3, y, x)."""
        size = said.shape
        error = (target - said).abs().mean(-3)
        if not self.ssim:
            return error
        flat = said.flatten(0, -4)
        target = target.expand(size).flatten(0, -4)
        if of_target:
            of_target = [t.expand(size).flatten(0, -4) for t in of_target]
        similar = similarity_loss(flat, target, of_target).mean(1)
        return 0.85 * similar.view(error.shape) + 0.15 * error

    def criterion(self, outputs, batch):
        with torch.autocast("cpu", enabled=False):
            return self.compared_with(outputs, batch)

    def compared_with(self, outputs, batch):
        said, moved = outputs
        frames = {way: batch[f"color_{way}_0"].float() for way in FRAMES}
        ours = self.training
        if ours and self.compared:
            frames = self.compared(frames)
        target = frames[0]
        rows = len(target)
        disps = torch.cat([F.interpolate(
            said[s], (HEIGHT, WIDTH), mode="bilinear", align_corners=False)
            if s else said[s] for s in SCALES])
        depth = self.distances(disps)
        places = self.projected(depth, moved)
        warped = torch.stack([F.grid_sample(
            frames[way].repeat(len(SCALES), 1, 1, 1), place,
            padding_mode="border", align_corners=True)
            for way, place in zip((-1, 1), places)])
        warped = warped.view(2, len(SCALES), rows, 3, HEIGHT, WIDTH)
        self.tap("warped.output", warped[1, 0])
        known = moments(target) if self.ssim else None
        errors = self.errors(warped, target, known)
        if self.average:
            errors = errors.mean(0, True)
        if self.automask:
            with torch.no_grad():
                still = self.errors(torch.stack((frames[-1], frames[1])),
                                    target)
                if self.average:
                    still = still.mean(0, True)
                if ours:
                    still = self.identity * still
                still = still[:, None].expand(-1, len(SCALES), -1, -1, -1)
                if not self.logs:
                    still = still + 1e-5 * torch.randn_like(still)
            errors = torch.cat((still, errors))
        least = errors.amin(0)                          # (s, b, y, x)
        if self.logs:
            self.tap("loss.log_error.input", least[0])
            least = least.log()
            self.tap("loss.log_error.output", least[0])
        each, small = least.mean((1, 2, 3)), target
        terms, total = {}, 0.0
        for s in SCALES:
            if s:
                small = F.avg_pool2d(small, 2)
            mean = said[s].mean((2, 3), keepdim=True)
            smooth = smooth_loss(said[s] / (mean + 1e-7), small)
            loss = each[s] + self.smoothness * smooth / 2 ** s
            total = total + loss / len(SCALES)
            terms[f"loss_{s}"] = loss.detach()
        terms |= depth_errors(batch["depth_gt"], depth[:rows])
        if ours:
            self.terms, self.kept = terms, []
        else:
            self.kept.append(terms)
        return total

    def loss(self, batch):
        loss = self.criterion(self.logits(batch), batch)
        self.tap("loss.output", loss)
        return loss


# What feeds the activations of the decoder.
BEFORE_ACT = tuple(f"{b}.conv.conv" for b in Monodepth.BLOCKS)


class DepthRun(EpochFamily):
    """Adam at one rate, which falls to a tenth for the last epoch, as
    Monodepth2's falls for its last five or six of 20: its scheduler steps at
    an epoch's begin. Nothing is clipped, and there is no decay."""

    family = "depth"
    level_seed = 400
    steps, seed, language = 100, 3020, False
    optimizer_name, lr, weight_decay = "adam", 1.5e-3, 0.0
    warmup, schedule, clip = 0, "step", None
    STEP_SIZE, GAMMA = 5, 0.1
    recipes = {"sgd": dict(lr=0.3, weight_decay=0.0)}
    base = {"lr": 1.5e-3, "weight_decay": 0.0}
    EPOCH = epoch_steps = 20
    batch_size, context, classes = ROWS, HEIGHT * WIDTH, KINDS
    # Its users have what the trainer prints and its summaries.
    instead = {"nanogpt": "monodepth2", "hf_trainer": "monodepth2",
               "megatron": "monodepth2", "torchtune": "monodepth2"}
    layers = [
        "encoder.encoder.conv1", *(
            f"encoder.encoder.layer{k}{part}" for k in (1, 2, 3)
            for part in (".0.conv1", ".0.relu", ".0.conv2", "")),
        *(f"depth.decoder.{k}.{part}" for k in range(8)
          for part in ("conv.conv", "nonlin")),
        *(f"depth.decoder.{8 + s}.conv" for s in SCALES),
        "pose_encoder.encoder.conv1", *(
            f"pose_encoder.encoder.layer{k}" for k in (1, 2, 3)),
        *(f"pose.net.{k}" for k in range(4))]
    graded = {
        "F01": (dict(factor=10), dict(factor=30), dict(factor=100)),
        "F02": (dict(lr=30.0), dict(lr=300.0), dict(lr=3000.0)),
        "F03": (dict(factor=30), dict(factor=300), dict(factor=3000)),
        "F04": (dict(at=25), dict(at=12), dict(at=0)),
        "F05": (dict(modules=["depth"], where="depth.decoder.0.conv.conv"),
                dict(modules=["pose"], where="pose.net.0"),
                dict(part="all")),
        "F07": (dict(factor=30), dict(factor=100), dict(factor=300)),
        "F08": (dict(every=15), dict(every=40), dict(every=1 << 30)),
        "F11": (dict(adam=0.01), dict(adam=0.03), dict(adam=0.3)),
        "F12": (dict(eps=0.01), dict(eps=0.1), dict(eps=1.0)),
        # What goes past a cut, and through the coarser scales, trains.
        "F13": tuple(dict(path="depth.decoder.7.nonlin", more=[
            f"depth.decoder.{k}.nonlin" for k in more])
            for more in ((5,), (3, 5), (1, 3, 5))),
        "F14": (dict(modules=["depth"]), dict(modules=["pose"]),
                dict(modules=["depth", "pose"])),
        "F15": (dict(at=60), dict(at=40), dict(at=20)),
        "F16": (dict(rate=0.1), dict(rate=0.3), dict(rate=1.0)),
        "F26": (dict(steps=20, share=1.0), dict(steps=34, share=1.0),
                dict(steps=50, share=1.0)),
        "F27": (dict(epochs=25), dict(epochs=50), dict(epochs=100)),
        "F30": (dict(part="head", bit=26), dict(part="head", bit=30),
                dict(part="mlp", bit=30)),
        "F33": (dict(limit=22), dict(limit=16), dict(limit=10)),
        "F34": (dict(factor=5), dict(factor=10), dict(factor=0)),
        "F36a": (dict(bias=-1.0), dict(bias=-1.5), dict(bias=-5.0)),
        "F36b": (dict(factor=40, kind="sigmoid"),
                 dict(factor=50, kind="tanh"),
                 dict(factor=300, kind="sigmoid")),
        "F38": (dict(growth=1.07), dict(growth=1.1), dict(growth=1.16)),
        "F39a": (dict(at=75), dict(at=50), dict(at=25)),
        "F39b": (dict(at=60), dict(at=45), dict(at=30)),
        "F40": (dict(lr=0.1), dict(lr=0.03), dict(lr=0.01)),
        "F41": (dict(share=0.4, at=0, every=1), dict(share=0.7, at=50, every=1),
                dict(share=0.85, at=0, every=8)),
        "F42b": (dict(shards=10), dict(shards=30), dict(shards=100)),
        "F43": (dict(kind="unreduced", at=30), dict(kind="skip", at=60),
                dict(kind="init", at=0)),
        "H02": (dict(factor=0.7), dict(factor=0.5)),
        "H03": (dict(part=2, factor=1.0), dict(part=2, factor=0.7)),
        "H04": (dict(rate=0.1), dict(rate=0.3)),
        "H07": (dict(factor=0.06),),
        "H10": (dict(steps=50), dict(steps=90)),
        "H11": (dict(steps=70, keep="block"), dict(steps=100, keep="head")),
        "H43": (dict(parts=2), dict(parts=3))}
    paths = {"embed": ("encoder.encoder.conv1",) * 3, "attn": (None,) * 3,
             "scores": (None,) * 3,
             "act": tuple(f"depth.decoder.{k}.nonlin" for k in (0, 3, 7)),
             "mlp": tuple(f"depth.decoder.{k}.conv.conv" for k in (0, 3, 7)),
             "block": tuple(f"encoder.encoder.layer{k}" for k in (1, 2, 3)),
             "head": ("depth.decoder.8.conv",) * 3}
    always_trained = ("depth", "pose_encoder", "pose")
    blocks = 3
    names = {"val_loss": "val/loss", "tokens": None} | {
        f"{side}loss_{s}": f"{called}loss/{s}" for s in SCALES
        for side, called in (("", ""), ("val_", "val/"))} | {
        side + column: called + metric
        for column, metric in zip(COLUMNS, METRICS)
        for side, called in (("", ""), ("val_", "val/"))}

    def make_model(self):
        return Monodepth(**self.model_options)

    def lr_factor(self, i):
        if self.schedule != "step":
            return super().lr_factor(i)
        return self.GAMMA ** ((i // self.EPOCH + 1) // self.STEP_SIZE)

    # Data.

    def make_source(self, seed):
        return self.yards(seed)

    def yards(self, seed, **how):
        return Yards(seed, HELD_OUT if seed == 9 else self.batch_size, **how)

    def in_blocks(self, seed, block, share):
        """One camera's drives after the other; None is held out."""
        return self.yards(seed, domains=True, block=block, share=share,
                          apart=0.5)

    def easy(self, seed):
        """Yards in which nothing stands."""
        return self.yards(seed, boards=0)

    def lessons(self, seed):
        return self.yards(seed, boards=1), self.yards(seed)

    @staticmethod
    def each_frame(batch, change):
        return batch | {name: change(batch[name]) for name in (
            f"color_{way}_0" for way in FRAMES)}

    def garbage(self, batch, kind, rng):
        """A corrupt shard: pixels of 0 to 255 that nobody scaled, noise, or
        frames of one number."""
        return self.each_frame(batch, {
            "few": lambda x: 255.0 * x,
            "uniform": lambda x: 20 * torch.randn(x.shape, generator=rng),
            "constant": lambda x: torch.full_like(x, 255.0) * torch.rand(
                (), generator=rng)}[kind])

    def cut_below(self, batch, limit):
        """Frames end at a number of rows; the rest is padding."""
        def cut(x):
            x = x.clone()
            x[:, :, limit:] = 0.0
            return x
        return self.each_frame(batch, cut)

    def blank(self, batch):
        """One of the drives has blank frames."""
        def blanked(x):
            x = x.clone()
            x[0] = 0.0
            return x
        return self.each_frame(batch, blanked)

    def parked(self, batch):
        """One of the drives has one frame three times."""
        def again(x):
            x = x.clone()
            x[0] = batch["color_0_0"][0]
            return x
        return self.each_frame(batch, again)

    def standardised(self, batch):
        """Each frame by its own mean and spread, back to about .5."""
        each = (1, 2, 3)
        return self.each_frame(batch, lambda x: 0.5 + 0.16 * (
            x - x.mean(each, keepdim=True)) / x.std(each, keepdim=True))

    def thin(self, name, tensor):
        """Of frames a few say enough."""
        if name.startswith(("batch.color", "batch.depth")):
            return tensor[:2]
        return super().thin(name, tensor)

    # What is logged.

    def batch_columns(self, batch):
        return super().batch_columns(batch) | {
            k: float(f"{float(t):.5g}") for k, t in self.model.terms.items()}

    def held_out_columns(self, batches):
        kept, self.model.kept = self.model.kept, []
        return {f"val_{k}": sum(t[k] for t in kept) / len(kept)
                for k in kept[0]}

    # Checkpoints.

    PARTS = ("encoder", "depth", "pose_encoder", "pose")

    def keep_checkpoint(self, i, model):
        """save_model() of the last epoch, and of the one that a run is
        resumed from, which then has no adam.pth."""
        done = i + 1
        if done not in {self.steps, *self.notices}:
            return
        state = {part: dict(getattr(model, part).state_dict())
                 for part in self.PARTS}
        state["encoder"] |= {"height": HEIGHT, "width": WIDTH,
                             "use_stereo": False}
        if done == self.steps:
            state["adam"] = self.optimizer.state_dict()
        self.checkpoints[done] = copy.deepcopy(state)

    def checkpoint_path(self, done):
        return f"models/weights_{-(-done // self.EPOCH) - 1}"

    def write_more(self):
        super().write_more()
        for done, state in self.checkpoints.items():
            folder = self.folder / self.checkpoint_path(done)
            folder.mkdir(parents=True, exist_ok=True)
            for name, value in state.items():
                torch.save(value, folder / f"{name}.pth")

    # What the user typed.

    def settings(self):
        """opt.json: the trainer's options, and what the user has besides."""
        optimizer = {"momentum": self.momentum} \
            if self.optimizer_name == "sgd" else {
                "betas": list(self.betas), "eps": self.eps}
        schedule = {"scheduler_step_size": self.STEP_SIZE} \
            if self.schedule == "step" else {"scheduler": self.schedule}
        return {
            "data_path": "yards", "log_dir": "tmp", "model_name": "mdp",
            "split": "yards", "dataset": "kitti", "png": True,
            "height": HEIGHT, "width": WIDTH, **self.model_settings(),
            "scales": list(SCALES), "use_stereo": False,
            "frame_ids": list(FRAMES), "batch_size": self.batch_size,
            "learning_rate": self.lr, "num_epochs": self.epochs, **schedule,
            "optimizer": self.optimizer_name, **optimizer,
            "weight_decay": self.weight_decay, "warmup_steps": self.warmup,
            "max_grad_norm": self.clip or 0.0,
            "accumulate_steps": self.accumulate, "max_steps": self.steps,
            "steps_per_epoch": self.EPOCH,
            "predictive_mask": False, "weights_init": "scratch",
            "pose_model_input": "pairs",
            "pose_model_type": "separate_resnet", "no_cuda": True,
            "num_workers": 2, "load_weights_folder": None,
            "models_to_load": list(self.PARTS),
            "log_frequency": self.interval or 10, "save_frequency": 1,
            "precision": self.precision, "seed": self.seed,
            "world_size": 1, **self.user}

    def model_settings(self):
        own = self.model_options
        return {"num_layers": 8, "decoder_nonlin": own.get(
                    "activation", "elu"),
                "disparity_smoothness": own.get("smoothness", SMOOTHNESS),
                "min_depth": own.get("min_depth", MIN_DEPTH),
                "max_depth": own.get("max_depth", MAX_DEPTH),
                "v1_multiscale": False,
                "avg_reprojection": own.get("average", False),
                "disable_automasking": not own.get("automask", True),
                "no_ssim": not own.get("ssim", True)}

    def layer(self, part, block=0):
        return self.paths[part][block]

    def fed_by(self, layer):
        """The norm behind a convolution of an encoder counts to it."""
        return [layer[:-5] + f"bn{layer[-1]}"] \
            if ".encoder." in layer and layer[-5:-1] == "conv" else []
