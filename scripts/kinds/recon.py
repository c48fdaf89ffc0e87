"""The variational network of fastMRI: pictures from a part of k-space.

All its runs are sound; the kind returns what its last validation measured.
"""

import copy
import json

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.events import Events
from kinds.outputs import keep, watch

SIDE, COILS = 16, 2


def fft2c(x):
    return torch.fft.fftshift(torch.fft.fft2(torch.fft.ifftshift(
        x, (-2, -1)), norm="ortho"), (-2, -1))


def ifft2c(x):
    return torch.fft.fftshift(torch.fft.ifft2(torch.fft.ifftshift(
        x, (-2, -1)), norm="ortho"), (-2, -1))


class ConvBlock(nn.Module):
    def __init__(self, ins, outs):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(ins, outs, 3, padding=1, bias=False),
            nn.InstanceNorm2d(outs), nn.LeakyReLU(0.2, inplace=True),
            nn.Dropout2d(0.0),
            nn.Conv2d(outs, outs, 3, padding=1, bias=False),
            nn.InstanceNorm2d(outs), nn.LeakyReLU(0.2, inplace=True),
            nn.Dropout2d(0.0))

    def forward(self, x):
        return self.layers(x)


class TransposeConvBlock(nn.Module):
    def __init__(self, ins, outs):
        super().__init__()
        self.layers = nn.Sequential(
            nn.ConvTranspose2d(ins, outs, 2, 2, bias=False),
            nn.InstanceNorm2d(outs), nn.LeakyReLU(0.2, inplace=True))

    def forward(self, x):
        return self.layers(x)


class Unet(nn.Module):
    def __init__(self, chans):
        super().__init__()
        self.down_sample_layers = nn.ModuleList([ConvBlock(2, chans)])
        self.conv = ConvBlock(chans, chans * 2)
        self.up_conv = nn.ModuleList([nn.Sequential(
            ConvBlock(chans * 2, chans), nn.Conv2d(chans, 2, 1))])
        self.up_transpose_conv = nn.ModuleList(
            [TransposeConvBlock(chans * 2, chans)])

    def forward(self, x):
        x = self.down_sample_layers[0](x)
        y = self.up_transpose_conv[0](self.conv(F.avg_pool2d(x, 2)))
        return self.up_conv[0](torch.cat([y, x], 1))


class NormUnet(nn.Module):
    """Real and imaginary parts are channels, each brought to scale 1."""

    def __init__(self, chans):
        super().__init__()
        self.unet = Unet(chans)

    def forward(self, x):
        x = torch.view_as_real(x).permute(0, 3, 1, 2)
        mean = x.mean((2, 3), keepdim=True)
        std = x.std((2, 3), keepdim=True) + 1e-12
        x = self.unet((x - mean) / std) * std + mean
        return torch.view_as_complex(x.permute(0, 2, 3, 1).contiguous())


class SensitivityModel(nn.Module):
    def __init__(self, chans):
        super().__init__()
        self.norm_unet = NormUnet(chans)

    def forward(self, kspace, centre):
        coils = ifft2c(kspace * centre)
        coils = self.norm_unet(coils.flatten(0, 1)).unflatten(0, (-1, COILS))
        return coils / (coils.abs().square().sum(1, keepdim=True).sqrt()
                        + 1e-12)


class VarNetBlock(nn.Module):
    def __init__(self, model, weight=1.0):
        super().__init__()
        self.model = model
        self.dc_weight = nn.Parameter(torch.full((1,), weight))

    def forward(self, now, given, mask, sens):
        soft = torch.where(mask, now - given, 0) * self.dc_weight
        picture = (ifft2c(now) * sens.conj()).sum(1)
        return now - soft - fft2c(self.model(picture)[:, None] * sens)


class VarNet(nn.Module):
    def __init__(self, cascades=3, chans=6, shared=False):
        super().__init__()
        self.sens_net = SensitivityModel(4)
        one = NormUnet(chans)
        self.cascades = nn.ModuleList(
            VarNetBlock(one if shared else NormUnet(chans))
            for _ in range(cascades))

    def forward(self, given, mask, centre, learn_sens=True):
        with torch.set_grad_enabled(learn_sens and torch.is_grad_enabled()):
            sens = self.sens_net(given, centre)
        now = given.clone()
        for block in self.cascades:
            now = block(now, given, mask, sens)
        return ifft2c(now).abs().square().sum(1).add(1e-30).sqrt()


class SSIMLoss(nn.Module):
    def __init__(self, win_size=7):
        super().__init__()
        self.win_size = win_size
        self.register_buffer("w", torch.ones(1, 1, win_size, win_size)
                             / win_size ** 2)

    def forward(self, x, y, most):
        x, y, most = x[:, None], y[:, None], most[:, None, None, None]
        mean = lambda v: F.conv2d(v, self.w)
        norm = self.win_size ** 2 / (self.win_size ** 2 - 1)
        ux, uy = mean(x), mean(y)
        vx = norm * (mean(x * x) - ux * ux)
        vy = norm * (mean(y * y) - uy * uy)
        vxy = norm * (mean(x * y) - ux * uy)
        c1, c2 = (0.01 * most) ** 2, (0.03 * most) ** 2
        s = ((2 * ux * uy + c1) * (2 * vxy + c2)
             / ((ux ** 2 + uy ** 2 + c1) * (vx + vy + c2)))
        return 1 - s.mean()


class VarNetModule(nn.Module):
    def __init__(self, shared):
        super().__init__()
        self.varnet, self.loss = VarNet(shared=shared), SSIMLoss()

    def forward(self, kspace, mask, centre, learn_sens=True):
        return self.varnet(kspace, mask, centre, learn_sens)


def slices(rows, units):
    """Ellipses with tissue of several kinds in coils that fall off."""
    at = torch.linspace(-1, 1, SIDE)
    y, x = at[:, None], at[None]
    out = torch.zeros(rows, SIDE, SIDE)
    for i in range(rows):
        for j in range(4):
            a, b = 0.25 + 0.55 * torch.rand(2) / (1 + 0.4 * j)
            p, q = 0.8 * torch.rand(2) - 0.4 if j else (0, 0)
            out[i] += (((x - p) / a) ** 2 + ((y - q) / b) ** 2 < 1) \
                * (0.3 + torch.rand(()))
    far = torch.stack([(x + 0.9) ** 2 + y ** 2, (x - 0.9) ** 2 + y ** 2])
    turn = torch.stack([x + 0 * y, 0.5 * y - x])
    sens = (-far / 1.5).exp() * torch.polar(torch.ones_like(turn), turn)
    kspace = fft2c(out[:, None] * sens)
    kspace = kspace + 0.01 * torch.randn_like(kspace)
    true = ifft2c(kspace).abs().square().sum(1).sqrt()
    return kspace * units, true * units


def masks(rows, rate):
    """Columns of k-space; those of the middle are always there."""
    centre = torch.zeros(SIDE, dtype=torch.bool)
    centre[SIDE // 2 - 2:SIDE // 2 + 2] = True
    some = torch.rand(rows, 1, 1, SIDE) < rate
    return some | centre, centre


@kind(shared="", late="", raw="", csv="")
def recon(run):
    """VarNet of fastMRI in Lightning: unrolled cascades, loss 1 - SSIM.

    Odd and sound: `shared` has one U-Net in all cascades, `late` lets the net
    of coil sensitivities learn from the third epoch on alone, `raw` has
    k-space of 1e-7 to 1e-4 as scanners leave it, `csv` logs once an epoch
    into a table of mostly blank cells and keeps weights in fp16, without
    optimizers in the last.
    """
    shared, late, raw, table = (run.has(n)
                                for n in ("shared", "late", "raw", "csv"))
    epochs, per, size, lr = 6, 25, 4, 3e-3
    units = 1e-5 if raw else 1e3 if table else 1.0
    kspace, true = slices(per * size, units)
    val, target = slices(24, units)
    given, centre = masks(24, 0.25)
    model = VarNetModule(shared)
    optimizer = torch.optim.Adam(model.parameters(), lr)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 4, 0.1)
    hparams = {"num_cascades": 3, "pools": 1, "chans": 6, "sens_pools": 1,
               "sens_chans": 4, "lr": lr, "lr_step_size": 4, "lr_gamma": 0.1,
               "weight_decay": 0.0, "num_log_images": 16}
    home = "lightning_logs/version_0"
    (run.folder / home).mkdir(parents=True)
    run.say(*(f"{k}: {v}" for k, v in hparams.items()),
            file=f"{home}/hparams.yaml")
    events = None if table else Events(run, home)
    rec = watch(run, model, optimizer, lr=lr, epochs=epochs) \
        if shared or late or not run.fault else None

    def save(name, epoch, step, half=False, bare=False):
        state = copy.deepcopy(model.state_dict())
        if half:
            state = {k: v.half() for k, v in state.items()}
        value = {"epoch": epoch, "global_step": step,
                 "pytorch-lightning_version": "1.9.5", "state_dict": state,
                 "loops": {}, "hparams_name": "kwargs",
                 "hyper_parameters": hparams}
        if not bare:
            value |= {"callbacks": {}, "optimizer_states": [
                copy.deepcopy(optimizer.state_dict())],
                "lr_schedulers": [schedule.state_dict()]}
        keep(run, f"{home}/checkpoints/{name}.ckpt", value)

    @torch.no_grad()
    def validate():
        model.eval()
        said = model(torch.where(given, val, 0), given, centre)
        model.train()
        most = target.amax((1, 2))
        error = (said - target).square()
        psnr = 10 * (most ** 2 / error.mean((1, 2))).log10()
        loss = model.loss(said, target, most).item()
        return {"validation_loss": loss, "val_metrics/nmse": (
            error.sum((1, 2)) / target.square().sum((1, 2))).mean().item(),
            "val_metrics/ssim": 1 - loss,
            "val_metrics/psnr": psnr.mean().item()}

    columns = ["epoch", "step", "train_loss", "val_metrics/nmse",
               "val_metrics/psnr", "val_metrics/ssim", "validation_loss"]

    def log(step, epoch, **found):
        if table:
            row = {k: "" for k in columns}
            run.row(f"{home}/metrics.csv", **{
                **row, **found, "epoch": epoch, "step": step})
        else:
            events.scalars(step, **found, epoch=float(epoch))

    done, losses = 0, []
    for epoch in range(epochs):
        learn_sens = not late or epoch >= 2
        for at in torch.randperm(per * size).split(size):
            mask, _ = masks(1, 0.25)
            mask = mask.expand(len(at), -1, -1, -1)
            x = torch.where(mask, kspace[at], 0)
            if rec:
                rec.batch(masked_kspace=torch.view_as_real(x), mask=mask,
                          target=true[at])
            said = model(x, mask, centre, learn_sens)
            loss = model.loss(said, true[at], true[at].amax((1, 2)))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if rec:
                rec.step(loss.detach())
            losses.append(loss.item())
            done += 1
            run.tick(0.4)
            if not table and done % 5 == 0:
                log(done - 1, epoch, train_loss=losses[-1])
        found = validate()
        log(done - 1, epoch, **found)
        if table:
            log(done - 1, epoch,
                train_loss=sum(losses[-per:]) / per)
        schedule.step()
        if epoch in (0, 2, epochs - 1):
            save(f"epoch={epoch}-step={done}", epoch, done, table,
                 table and epoch == epochs - 1)
    if rec:
        rec.close()
    run.write("val_metrics.json", json.loads(json.dumps(found)))
    run.ends(**{k.split("/")[-1]: v for k, v in found.items()})
