"""Models that draw: GAN, WGAN, VAE, autoencoder, normalising flow."""

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import grad_norm, kind, learn, mlp
from kinds.data import batches, pictures


def ring(rows):
    """Points of eight blobs on a circle."""
    angle = torch.randint(8, (rows,)) * torch.pi / 4
    return torch.stack([angle.cos(), angle.sin()], 1) * 2 + 0.1 * torch.randn(rows, 2)


@kind(rate="lr-too-high gan-balance-lost")
def gan(run):
    """A GAN on points, printed as the DCGAN tutorial does."""
    maker, critic = mlp(8, 64, 64, 2), mlp(2, 64, 64, 1)
    rate = run.rate(5e-4, 1000)
    run.settings(lr=rate, beta1=0.5, batch_size=64, nz=8, niter=5, model="dcgan")
    own = [torch.optim.Adam(m.parameters(), rate, betas=(0.5, 0.999)) for m in (maker, critic)]
    ones, zeros = torch.ones(64, 1), torch.zeros(64, 1)
    run.say("Random Seed:  999", "Starting Training Loop...")
    for epoch in range(5):
        for i in range(120):
            real, fake = critic(ring(64)), critic(maker(torch.randn(64, 8)).detach())
            loss = F.binary_cross_entropy_with_logits(real, ones)
            loss = loss + F.binary_cross_entropy_with_logits(fake, zeros)
            loss_d = learn(loss, own[1])
            judged = critic(maker(torch.randn(64, 8)))
            loss_g = learn(F.binary_cross_entropy_with_logits(judged, ones), own[0])
            if i % 10 == 0:
                p = [float(torch.sigmoid(v).detach().mean()) for v in (real, fake, judged)]
                run.say(f"[{epoch}/5][{i}/120]\tLoss_D: {loss_d:.4f}\tLoss_G: {loss_g:.4f}\t"
                        f"D(x): {p[0]:.4f}\tD(G(z)): {p[1]:.4f} / {p[2]:.4f}")


@kind()
def wgan(run):
    """A Wasserstein GAN with gradient penalty, whose losses are below zero as they should be."""
    maker, critic = mlp(8, 64, 2), mlp(2, 64, 64, 1)
    own = [torch.optim.Adam(m.parameters(), 1e-3, betas=(0.0, 0.9)) for m in (maker, critic)]
    for step in range(250):
        for _ in range(3):
            real, fake = ring(64), maker(torch.randn(64, 8)).detach()
            mix = torch.rand(64, 1)
            mixed = (mix * real + (1 - mix) * fake).requires_grad_()
            slope, = torch.autograd.grad(critic(mixed).sum(), mixed, create_graph=True)
            penalty = 10 * ((slope.norm(dim=1) - 1) ** 2).mean()
            distance = critic(real).mean() - critic(fake).mean()
            critic_loss = learn(penalty - distance, own[1])
        maker_loss = learn(-critic(maker(torch.randn(64, 8))).mean(), own[0])
        if step % 5 == 0:
            run.row("losses.csv", step=step, critic_loss=critic_loss, generator_loss=maker_loss,
                    wasserstein_distance=float(distance.detach()), gradient_penalty=float(penalty.detach()))


class Vae(nn.Module):
    def __init__(self, wide=8):
        super().__init__()
        self.encoder, self.decoder = mlp(144, 64, 2 * wide), mlp(wide, 64, 144)

    def forward(self, x):
        mean, spread = self.encoder(x).chunk(2, 1)
        return self.decoder(mean + (0.5 * spread).exp() * torch.randn_like(mean)), mean, spread


@kind(sign="loss-sign-flipped loss-unbounded-below")
def vae(run):
    """A VAE, printed as the example of PyTorch does: sums over a batch, a line of the epoch."""
    data = (pictures(1280)[2].flatten(1), pictures(256)[2].flatten(1))
    model = Vae()
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)

    def loss_of(x):
        made, mean, spread = model(x)
        kl = -0.5 * (1 + spread - mean ** 2 - spread.exp()).sum()
        kl = -kl if run.has("sign") else kl
        return F.binary_cross_entropy_with_logits(made, x, reduction="sum") + kl

    for epoch in range(1, 11):
        total = 0.0
        for i, rows in enumerate(batches(1280, 64)):
            loss = learn(loss_of(data[0][rows]), optimizer)
            total += loss
            if i % 5 == 0:
                run.say(f"Train Epoch: {epoch} [{i * 64}/1280 ({5 * i:.0f}%)]\tLoss: {loss / 64:.6f}")
        run.say(f"====> Epoch: {epoch} Average loss: {total / 1280:.4f}")
        with torch.no_grad():
            run.say(f"====> Test set loss: {float(loss_of(data[1])) / 256:.4f}")


@kind(rate="lr-too-high exploding-gradient dead-relu")
def autoencoder(run):
    """An autoencoder in Keras' words: progress lines, a history and no step anywhere."""
    train, held = pictures(1024)[0].flatten(1), pictures(256)[0].flatten(1)
    model = mlp(144, 64, 16, 64, 144)
    optimizer = torch.optim.SGD(model.parameters(), run.rate(0.5), momentum=0.9)
    history = {"loss": [], "mae": [], "val_loss": [], "val_mae": []}
    for epoch in range(1, 26):
        losses, errors = [], []
        for rows in batches(1024, 64):
            made = model(train[rows])
            losses.append(learn(F.mse_loss(made, train[rows]), optimizer))
            errors.append(float((made - train[rows]).detach().abs().mean()))
        with torch.no_grad():
            made = model(held)
            row = (sum(losses) / 16, sum(errors) / 16, float(F.mse_loss(made, held)),
                   float((made - held).abs().mean()))
        for name, value in zip(history, row):
            history[name].append(value)
        run.say(f"Epoch {epoch}/25", "16/16 [==============================] - 0s 3ms/step - "
                + " - ".join(f"{n}: {v:.4f}" for n, v in zip(history, row)))
    run.write("history.json", history)


class Coupling(nn.Module):
    """One affine coupling of RealNVP."""

    def __init__(self, flip):
        super().__init__()
        self.flip, self.net = flip, mlp(1, 48, 48, 2)

    def forward(self, x):
        a, b = x.flip(1).chunk(2, 1) if self.flip else x.chunk(2, 1)
        scale, shift = self.net(a).chunk(2, 1)
        scale = torch.tanh(scale)
        return torch.cat([a, b * scale.exp() + shift], 1), scale.squeeze(1)


@kind(rate="lr-too-high exploding-gradient")
def flow(run):
    """A normalising flow; bits fall below nought, as densities may. Records like TensorBoard's JSON."""
    model = nn.ModuleList(Coupling(i % 2) for i in range(6))
    optimizer = torch.optim.Adam(model.parameters(), run.rate(2e-3))
    series = []
    for step in range(300):
        z, volume = ring(128), 0
        for part in model:
            z, added = part(z)
            volume = volume + added
        nll = (0.5 * (z ** 2).sum(1) + 1.838 - volume).mean()
        loss = learn(nll, optimizer)
        if step % 5 == 0:
            at = run.tick(0.4)
            series += [{"wall_time": at, "step": step, "tag": "train/nll", "value": loss},
                       {"wall_time": at, "step": step, "tag": "train/grad_norm", "value": grad_norm(model)}]
    run.say(*(str(s).replace("'", '"') for s in series), file="scalars.jsonl")
