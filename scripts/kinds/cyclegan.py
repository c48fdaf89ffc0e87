"""CycleGAN of its authors, on unpaired pictures in two ranges of colours.

Some of its designs are odd and sound. The kind returns how well its run ended,
measured on what it did not train on.
"""

import random

import torch
from torch import nn

from kinds.base import kind
from kinds.outputs import keep, place


class ResnetBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        part = lambda: [nn.ReflectionPad2d(1), nn.Conv2d(dim, dim, 3),
                        nn.InstanceNorm2d(dim)]
        self.conv_block = nn.Sequential(*part(), nn.ReLU(True), *part())

    def forward(self, x):
        return x + self.conv_block(x)


class ResnetGenerator(nn.Module):
    """As in the repository, with one down-sampling and one block."""

    def __init__(self, ngf=6):
        super().__init__()
        self.model = nn.Sequential(
            nn.ReflectionPad2d(3), nn.Conv2d(3, ngf, 7),
            nn.InstanceNorm2d(ngf), nn.ReLU(True),
            nn.Conv2d(ngf, 2 * ngf, 3, stride=2, padding=1),
            nn.InstanceNorm2d(2 * ngf), nn.ReLU(True),
            ResnetBlock(2 * ngf),
            nn.ConvTranspose2d(2 * ngf, ngf, 3, stride=2, padding=1,
                               output_padding=1),
            nn.InstanceNorm2d(ngf), nn.ReLU(True),
            nn.ReflectionPad2d(3), nn.Conv2d(ngf, 3, 7), nn.Tanh())

    def forward(self, x):
        return self.model(x)


class NLayerDiscriminator(nn.Module):
    def __init__(self, ndf=8):
        super().__init__()
        self.model = nn.Sequential(
            nn.Conv2d(3, ndf, 4, stride=2, padding=1), nn.LeakyReLU(0.2, True),
            nn.Conv2d(ndf, 2 * ndf, 4, stride=1, padding=1),
            nn.InstanceNorm2d(2 * ndf), nn.LeakyReLU(0.2, True),
            nn.Conv2d(2 * ndf, 1, 4, stride=1, padding=1))

    def forward(self, x):
        return self.model(x)


def init_net(net):
    for module in net.modules():
        if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
            nn.init.normal_(module.weight, 0.0, 0.02)
            nn.init.zeros_(module.bias)
    return net


def scenes(rows, size=12):
    """Bright bars and blocks on a dark ground, of any colour."""
    out = torch.full((rows, 3, size, size), -0.7)
    for i in range(rows):
        for _ in range(2):
            y, x = torch.randint(0, size - 5, (2,)).tolist()
            high, wide = torch.randint(3, 8, (2,)).tolist()
            colour = torch.tensor([0.9, 0.1, -0.6]) + 0.2 * torch.randn(3)
            out[i, :, y:y + high, x:x + wide] = colour[:, None, None]
    return (out + 0.05 * torch.randn_like(out)).clamp(-1, 1)


def other_colours(x):
    """What the domain B shows of a scene: red and blue change places."""
    return x[:, [2, 1, 0]]


class ImagePool:
    def __init__(self, size=50):
        self.size, self.images = size, []

    def query(self, images):
        out = []
        for image in images.detach():
            if len(self.images) < self.size:
                self.images.append(image)
                out.append(image)
            elif random.random() > 0.5:
                at = random.randrange(self.size)
                out.append(self.images[at])
                self.images[at] = image
            else:
                out.append(image)
        return torch.stack(out)


def train_options(run, file, **options):
    lines = [f"{k:>25}: {v!s:<30}" for k, v in sorted(options.items())]
    run.say("----------------- Options ---------------", *lines,
            "----------------- End -------------------", file=file)


@kind(wgangp="", noidt="", zerolast="", ttur="",
      rate="lr-too-high gan-balance-lost saturated-activation",
      stale="optimizer-holds-stale-params frozen-parameters",
      sign="loss-sign-flipped", norm="input-not-normalized")
def cyclegan(run):
    """CycleGAN of its authors on pictures in two ranges of colours.

    Odd and sound: `wgangp` has losses below nought, `noidt` prints two
    losses that are always 0, `zerolast` begins with generators whose last layer
    is 0, `ttur` has a rate fourfold for the critics and 0.9 as what is real.
    """
    base = "checkpoints/colours_cyclegan"
    place(run, base)
    epochs, lr, half = 10, 2e-3, 6
    identity = 0.0 if run.has("noidt") else 0.5
    faster = 4 if run.has("ttur") else 1
    real_label = 0.9 if run.has("ttur") else 1.0
    mode = "wgangp" if run.has("wgangp") else "lsgan"
    train_options(
        run, f"{base}/train_opt.txt", batch_size=4, beta1=0.5,
        crop_size=12, dataroot="./datasets/colours", direction="AtoB",
        gan_mode=mode, init_gain=0.02, init_type="normal", input_nc=3,
        lambda_A=10.0, lambda_B=10.0, lambda_identity=identity, lr=lr,
        lr_D=faster * lr, lr_policy="linear", model="cycle_gan", n_epochs=half,
        n_epochs_decay=epochs - half, name="colours_cyclegan", ndf=8, ngf=6,
        no_dropout=True, norm="instance", pool_size=50, print_freq=8,
        real_label=real_label,
        save_epoch_freq=5)
    a, b = scenes(40), other_colours(scenes(40))
    held = scenes(24)
    if run.has("norm"):  # transforms.Normalize is not in get_transform()
        a, b, held = (127.5 * (x + 1) for x in (a, b, held))
    nets = {n: init_net(ResnetGenerator() if "G" in n
                        else NLayerDiscriminator())
            for n in ("G_A", "G_B", "D_A", "D_B")}
    if run.has("zerolast"):
        for n in ("G_A", "G_B"):
            nn.init.zeros_(nets[n].model[12].weight)
    of = lambda names: list(dict.fromkeys(
        p for n in names for p in nets[n].parameters()))
    own_of = lambda names, rate: torch.optim.Adam(
        of(names), run.rate(rate), (0.5, 0.999))
    g_own = own_of(("G_A", "G_B"), lr)
    d_own = own_of(("D_A", "D_B"), lr * faster)
    if run.has("stale"):  # setup() loads --pretrained_G_B as a new network
        nets["G_B"] = init_net(ResnetGenerator())
    run.say("dataset [UnalignedDataset] was created",
            "The number of training images = 40",
            *["initialize network with normal"] * 4,
            "model [CycleGANModel] was created",
            "---------- Networks initialized -------------",
            *(f"[Network {n}] Total number of parameters : "
              f"{sum(p.numel() for p in net.parameters()) / 1e6:.3f} M"
              for n, net in nets.items()),
            "-----------------------------------------------")
    head = run.stamp("%a %b %d %H:%M:%S %Y")
    run.say(f"================ Training Loss ({head}) ================",
            file=f"{base}/loss_log.txt")
    pools = {"A": ImagePool(), "B": ImagePool()}

    def gan(score, real):
        if mode == "wgangp":
            return -score.mean() if real else score.mean()
        return ((score - real_label * real) ** 2).mean()

    def d_loss(net, real, fake):
        loss = (gan(net(real), True) + gan(net(fake), False)) * 0.5
        if mode == "wgangp":
            mix = torch.rand(len(real), 1, 1, 1)
            mid = (mix * real + (1 - mix) * fake).requires_grad_()
            slope, = torch.autograd.grad(net(mid).sum(), mid,
                                         create_graph=True)
            size = slope.flatten(1).norm(dim=1)
            loss = loss + 10 * ((size - 1) ** 2).mean()
        return loss

    def save(prefix):
        for n, net in nets.items():
            keep(run, f"{base}/{prefix}_net_{n}.pth", net.state_dict())

    seen = 0
    save("0")
    for epoch in range(1, epochs + 1):
        order, other, done = torch.randperm(40), torch.randperm(40), 0
        for k in range(0, 40, 4):
            real_a, real_b = a[order[k:k + 4]], b[other[k:k + 4]]
            seen, done = seen + 4, done + 4
            fake_b, fake_a = nets["G_A"](real_a), nets["G_B"](real_b)
            rec_a, rec_b = nets["G_B"](fake_b), nets["G_A"](fake_a)
            for p in of(("D_A", "D_B")):
                p.requires_grad_(False)
            parts = {"G_A": gan(nets["D_A"](fake_b), True),
                     "G_B": gan(nets["D_B"](fake_a), True),
                     "cycle_A": 10 * (rec_a - real_a).abs().mean(),
                     "cycle_B": 10 * (rec_b - real_b).abs().mean(),
                     "idt_A": 0, "idt_B": 0}
            if identity:
                same = lambda n, x: (nets[n](x) - x).abs().mean()
                parts["idt_A"] = 10 * identity * same("G_A", real_b)
                parts["idt_B"] = 10 * identity * same("G_B", real_a)
            loss = sum(-v if run.has("sign") and "cycle" in n else v
                       for n, v in parts.items())
            g_own.zero_grad()
            loss.backward()
            g_own.step()
            for p in of(("D_A", "D_B")):
                p.requires_grad_(True)
            d_own.zero_grad()
            for n, real, fake in (("D_A", real_b, fake_b),
                                  ("D_B", real_a, fake_a)):
                parts[n] = d_loss(nets[n], real, pools[n[2]].query(fake))
                parts[n].backward()
            d_own.step()
            run.tick(0.15)
            if seen % 8 == 0:
                line = (f"(epoch: {epoch}, iters: {done}, time: "
                        f"{random.uniform(0.03, 0.04):.3f}, data: "
                        f"{random.uniform(0.001, 0.2):.3f}) ")
                for n in ("D_A", "G_A", "cycle_A", "idt_A",
                          "D_B", "G_B", "cycle_B", "idt_B"):
                    value = float(torch.as_tensor(parts[n]).detach())
                    line += f"{n}: {value:.3f} "
                run.say(line)
                run.say(line, file=f"{base}/loss_log.txt")
        if epoch % 5 == 0:
            run.say("saving the model at the end of epoch "
                    f"{epoch}, iters {seen}")
            save(str(epoch))
            save("latest")
        new = lr * (1 - max(0, epoch + 1 - half) / (epochs - half + 1))
        was = g_own.param_groups[0]["lr"]
        for own in (g_own, d_own):
            own.param_groups[0]["lr"] *= new / was
        run.say(f"learning rate {was:.7f} -> {new:.7f}",
                f"End of epoch {epoch} / {epochs} \t Time Taken: 2 sec")
    with torch.no_grad():
        made = nets["G_A"](held)
        back = nets["G_B"](made)
        given = held / 127.5 - 1 if run.has("norm") else held
        goal = other_colours(given)
        moved = (given - goal).abs() > 0.5
        return {"pair_error": (made - goal).abs().mean().item(),
                "moved_error": (made - goal)[moved].abs().mean().item(),
                "cycle": (back - given).abs().mean().item()}
