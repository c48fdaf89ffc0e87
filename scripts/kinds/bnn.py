"""Bayesian networks: weights that are drawn, by blitz, torchbnn and pyro.

All its runs are sound; the kind returns what its last test measured.
"""

import math

import torch
from torch import nn
from torch.distributions import constraints
from torch.nn import functional as F

from kinds.base import kind
from kinds.data import batches, stripes, table
from kinds.events import Events
from kinds.outputs import keep, watch

SIDE = 8


class GaussianVariational(nn.Module):
    """blitz: new parameters upon the memory of those of the layer."""

    def __init__(self, mu, rho):
        super().__init__()
        self.mu, self.rho = nn.Parameter(mu), nn.Parameter(rho)
        self.register_buffer("eps_w", torch.zeros(mu.shape))
        self.sigma = self.w = None

    def sample(self):
        self.eps_w = torch.randn_like(self.eps_w)
        self.sigma = torch.log1p(torch.exp(self.rho))
        self.w = self.mu + self.sigma * self.eps_w
        return self.w

    def log_posterior(self):
        return (-math.log(math.sqrt(2 * math.pi)) - torch.log(self.sigma)
                - (self.w - self.mu) ** 2 / (2 * self.sigma ** 2)).mean()


class ScaleMixturePrior(nn.Module):
    def __init__(self, pi, sigma1, sigma2):
        super().__init__()
        self.pi, self.sigmas = pi, (sigma1, sigma2)

    def log_prior(self, w):
        one, two = (torch.exp(torch.distributions.Normal(0, s).log_prob(w))
                    for s in self.sigmas)
        return (self.pi * one + (1 - self.pi) * two).log().mean()


class BayesianModule(nn.Module):
    """The parts of blitz's layers; the costs of a draw are kept."""

    def __init__(self, shape, outs, rho=-6.0, prior=(0.5, 0.5, 0.4)):
        super().__init__()
        self.weight_mu = nn.Parameter(torch.empty(shape).normal_(0, 0.1))
        self.weight_rho = nn.Parameter(torch.empty(shape).normal_(rho, 0.1))
        self.weight_sampler = GaussianVariational(self.weight_mu,
                                                  self.weight_rho)
        self.bias_mu = nn.Parameter(torch.empty(outs).normal_(0, 0.1))
        self.bias_rho = nn.Parameter(torch.empty(outs).normal_(rho, 0.1))
        self.bias_sampler = GaussianVariational(self.bias_mu, self.bias_rho)
        self.weight_prior_dist = ScaleMixturePrior(*prior)
        self.bias_prior_dist = ScaleMixturePrior(*prior)
        self.log_prior = self.log_variational_posterior = 0

    def draw(self):
        w, b = self.weight_sampler.sample(), self.bias_sampler.sample()
        self.log_variational_posterior = self.weight_sampler \
            .log_posterior() + self.bias_sampler.log_posterior()
        self.log_prior = self.weight_prior_dist.log_prior(w) \
            + self.bias_prior_dist.log_prior(b)
        return w, b


class BayesianLinear(BayesianModule):
    def __init__(self, ins, outs, **more):
        super().__init__((outs, ins), outs, **more)

    def forward(self, x):
        return F.linear(x, *self.draw())


class BayesianConv2d(BayesianModule):
    def __init__(self, ins, outs, kernel_size, **more):
        super().__init__((outs, ins, *kernel_size), outs, **more)

    def forward(self, x):
        return F.conv2d(x, *self.draw())


class BayesianCNN(nn.Module):
    """The LeNet of blitz's example, for smaller pictures."""

    def __init__(self):
        super().__init__()
        self.conv1 = BayesianConv2d(1, 6, (3, 3))
        self.conv2 = BayesianConv2d(6, 12, (3, 3))
        self.fc1 = BayesianLinear(12 * 4, 32)
        self.fc2 = BayesianLinear(32, 4)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))

    def nn_kl_divergence(self):
        return sum(m.log_variational_posterior - m.log_prior
                   for m in self.modules() if isinstance(m, BayesianModule))

    def sample_elbo(self, inputs, labels, criterion, sample_nbr,
                    complexity_cost_weight):
        loss = 0
        for _ in range(sample_nbr):
            loss = loss + criterion(self(inputs), labels) \
                + self.nn_kl_divergence() * complexity_cost_weight
        return loss / sample_nbr


def waves(rows):
    x, y = stripes(rows, SIDE)
    return (x - 0.5) / 0.25, y


def accuracy(probs, y):
    return (probs.argmax(1) == y).float().mean().item()


def blitz(run):
    """bayesian_LeNet_mnist.py: accuracies alone, each 25 iterations."""
    epochs, size, rows = 11, 32, 448
    (x, y), (test, held) = waves(rows), waves(256)
    model = BayesianCNN()
    optimizer = torch.optim.Adam(model.parameters(), lr=6e-3)
    rec = watch(run, model, optimizer, sample_nbr=3,
                complexity_cost_weight=1 / 50000)
    step, file = 0, "classifier_{}.pth"
    keep(run, file.format("init"), model.state_dict())
    for epoch in range(epochs):
        for at in batches(rows, size):
            optimizer.zero_grad()
            rec.batch(input=x[at], labels=y[at])
            loss = model.sample_elbo(x[at], y[at], F.cross_entropy, 3,
                                     1 / 50000)
            loss.backward()
            optimizer.step()
            rec.step(loss.detach())
            run.tick(0.09)
            step += 1
            run.record("elbo.jsonl", iteration=step, elbo=loss.item())
            if step % 25 == 0:
                with torch.no_grad():
                    right = 100 * accuracy(model(test), held)
                run.say(f"Iteration: {step} | Accuracy of the network on the "
                        f"256 test images: {right} %")
        if epoch in (epochs // 2, epochs - 1):
            keep(run, file.format(f"{epoch + 1:02d}"), model.state_dict())
    rec.close()
    with torch.no_grad():
        probs = sum(model(test).softmax(1) for _ in range(8))
    return {"acc": round(accuracy(probs, held), 4),
            "loss": round(loss.item(), 4)}


class GaussianLinear(nn.Module):
    """Weight Uncertainty in Neural Networks, with log sums."""

    def __init__(self, ins, outs):
        super().__init__()
        self.weight_mu = nn.Parameter(torch.empty(outs, ins)
                                      .uniform_(-0.2, 0.2))
        self.weight_rho = nn.Parameter(torch.empty(outs, ins)
                                       .uniform_(-5, -4))
        self.bias_mu = nn.Parameter(torch.empty(outs).uniform_(-0.2, 0.2))
        self.bias_rho = nn.Parameter(torch.empty(outs).uniform_(-5, -4))
        self.log_prior = self.log_variational_posterior = 0

    def forward(self, x):
        self.log_prior = self.log_variational_posterior = 0
        drawn = []
        for mu, rho in ((self.weight_mu, self.weight_rho),
                        (self.bias_mu, self.bias_rho)):
            sigma = torch.log1p(rho.exp())
            w = mu + sigma * torch.randn_like(mu)
            one, two = (torch.distributions.Normal(0, s).log_prob(w)
                        for s in (1.0, math.exp(-6)))
            self.log_prior = self.log_prior + torch.logaddexp(
                one + math.log(0.5), two + math.log(0.5)).sum()
            self.log_variational_posterior = self.log_variational_posterior \
                + torch.distributions.Normal(mu, sigma).log_prob(w).sum()
            drawn.append(w)
        return F.linear(x, *drawn)


class BayesianNetwork(nn.Module):
    def __init__(self):
        super().__init__()
        self.l1 = GaussianLinear(SIDE * SIDE, 32)
        self.l2, self.l3 = GaussianLinear(32, 32), \
            GaussianLinear(32, 4)

    def forward(self, x):
        x = F.relu(self.l2(F.relu(self.l1(x.flatten(1)))))
        return self.l3(x).log_softmax(1)

    def total(self, key):
        return sum(getattr(m, key) for m in (self.l1, self.l2, self.l3))


def weighed(run):
    """pi_i = 2^(M-i)/(2^M-1): the first batch of an epoch has the prior."""
    epochs, size, rows, draws = 12, 48, 480, 2
    (x, y), (test, held) = waves(rows), waves(256)
    count = rows // size
    model = BayesianNetwork()
    optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
    board, step = Events(run, "runs/bbb"), 0
    keep(run, "checkpoints/bbb_000.pt", {
        "model": model.state_dict(), "optimizer": optimizer.state_dict()})
    for epoch in range(epochs):
        for i, at in enumerate(batches(rows, size)):
            part = 2 ** (count - i - 1) / (2 ** count - 1)
            model.zero_grad()
            prior = post = nll = 0
            for _ in range(draws):
                said = model(x[at])
                nll = nll + F.nll_loss(said, y[at], reduction="sum") / draws
                prior = prior + model.total("log_prior") / draws
                post = post + model.total("log_variational_posterior") / draws
            loss = part * (post - prior) + nll
            loss.backward()
            optimizer.step()
            run.tick(0.06)
            board.scalars(step, **{
                "logs/loss": loss.item(), "logs/complexity_cost":
                (post - prior).item(), "logs/log_prior": prior.item(),
                "logs/log_variational_posterior": post.item(),
                "logs/negative_log_likelihood": nll.item()})
            run.record("metrics.jsonl", step=step, epoch=epoch,
                       loss=loss.item(), kl_weight=part,
                       log_prior=prior.item(), log_posterior=post.item(),
                       nll=nll.item())
            step += 1
        with torch.no_grad():
            probs = sum(model(test).exp() for _ in range(5))
        right = int((probs.argmax(1) == held).sum())
        run.say(f"Epoch {epoch:2d} | loss {loss.item():.2f} | Ensemble "
                f"Accuracy: {right}/256")
        if epoch + 1 in (epochs // 2, epochs):
            keep(run, f"checkpoints/bbb_{epoch + 1:03d}.pt", {
                "model": model.state_dict(),
                "optimizer": optimizer.state_dict()})
    return {"acc": right / 256, "nll": round(nll.item(), 3)}


class BayesLinear(nn.Module):
    """torchbnn's, with the logarithm of sigma."""

    def __init__(self, prior_mu, prior_sigma, ins, outs):
        super().__init__()
        self.prior = prior_mu, math.log(prior_sigma)
        bound = 1 / math.sqrt(ins)
        self.weight_mu = nn.Parameter(torch.empty(outs, ins)
                                      .uniform_(-bound, bound))
        self.weight_log_sigma = nn.Parameter(torch.full(
            (outs, ins), math.log(prior_sigma)))
        self.register_buffer("weight_eps", None)
        self.bias_mu = nn.Parameter(torch.empty(outs).uniform_(-bound,
                                                               bound))
        self.bias_log_sigma = nn.Parameter(torch.full(
            (outs,), math.log(prior_sigma)))
        self.register_buffer("bias_eps", None)

    def forward(self, x):
        return F.linear(x, *(
            mu + sigma.exp() * torch.randn_like(sigma) for mu, sigma in (
                (self.weight_mu, self.weight_log_sigma),
                (self.bias_mu, self.bias_log_sigma))))

    def kl(self):
        mu0, log0 = self.prior
        return sum((log0 - s + ((2 * s).exp() + (mu - mu0) ** 2)
                    / (2 * math.exp(2 * log0)) - 0.5).sum()
                   for mu, s in ((self.weight_mu, self.weight_log_sigma),
                                 (self.bias_mu, self.bias_log_sigma)))


def annealed(run):
    """KL from 0, a last layer that is none, dropout on at validation."""
    epochs, size, rows, passes = 12, 32, 384, 6
    (x, y), (test, held) = waves(rows), waves(256)
    model = nn.Sequential(
        nn.Flatten(), BayesLinear(0, 0.1, SIDE * SIDE, 48), nn.ReLU(),
        nn.Dropout(0.2), BayesLinear(0, 0.1, 48, 32), nn.ReLU(),
        nn.Linear(32, 4))
    sigmas = [p for n, p in model.named_parameters() if "log_sigma" in n]
    means = [p for n, p in model.named_parameters() if "log_sigma" not in n]
    optimizer = torch.optim.AdamW([
        {"params": means, "lr": 4e-3},
        {"params": sigmas, "lr": 1e-2, "weight_decay": 0.0}])
    bayes = [m for m in model if isinstance(m, BayesLinear)]
    rec = watch(run, model, optimizer, kl_anneal=0.2)
    steps, step = epochs * rows // size, 0
    run.settings("hparams.json", epochs=epochs, batch_size=size, lr=4e-3,
                 lr_sigma=1e-2, kl_max=0.2, kl_start=0.1, kl_end=0.7,
                 mc_samples=passes)
    for epoch in range(epochs):
        for at in batches(rows, size):
            beta = 0.2 * min(1.0, max(0.0, step / steps - 0.1) / 0.6)
            rec.batch(input=x[at], labels=y[at])
            said = model(x[at])
            nll, kl = F.cross_entropy(said, y[at]), sum(m.kl()
                                                        for m in bayes)
            loss = nll + beta * kl / rows
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rec.step(loss.detach())
            run.tick(0.05)
            run.row(step=step, epoch=epoch, loss=loss.item(),
                    nll=nll.item(), kl=kl.item(), beta=beta, acc=accuracy(
                        said.detach(), y[at]), val_nll="", val_acc="",
                    val_entropy="", val_std="")
            if step in (0, steps // 2, steps - 1):
                keep(run, f"ckpt/step_{step}.pt", {
                    "state_dict": model.state_dict(), "step": step,
                    "optimizer": optimizer.state_dict()})
            step += 1
        with torch.no_grad():  # train() stays: dropout is part of it
            probs = torch.stack([model(test).softmax(1)
                                 for _ in range(passes)])
        mean = probs.mean(0)
        right = accuracy(mean, held)
        run.row(step=step - 1, epoch=epoch, val_nll=F.nll_loss(
            mean.log(), held).item(), val_acc=right, val_entropy=-(
                mean * mean.log()).sum(1).mean().item(),
            val_std=probs.std(0).mean().item())
    rec.close()
    return {"acc": round(right, 4), "loss": round(loss.item(), 3),
            "kl": round(kl.item(), 1)}


class ClippedAdam:
    """pyro's: each element of a gradient is clipped, the rate decays."""

    def __init__(self, lr, betas, clip_norm, lrd):
        self.args = dict(lr=lr, betas=betas, eps=1e-8, weight_decay=0,
                         clip_norm=clip_norm, lrd=lrd)
        self.state = {}

    @torch.no_grad()
    def __call__(self, params):
        one, two = self.args["betas"]
        for name, p in params.items():
            now = self.state.setdefault(name, {
                "step": 0, "exp_avg": torch.zeros_like(p),
                "exp_avg_sq": torch.zeros_like(p), "lr": self.args["lr"]})
            g = p.grad.clamp(-self.args["clip_norm"], self.args["clip_norm"])
            now["step"] += 1
            now["lr"] *= self.args["lrd"]
            now["exp_avg"].mul_(one).add_(g, alpha=1 - one)
            now["exp_avg_sq"].mul_(two).addcmul_(g, g, value=1 - two)
            size = now["lr"] * math.sqrt(1 - two ** now["step"]) \
                / (1 - one ** now["step"])
            p.addcdiv_(now["exp_avg"], now["exp_avg_sq"].sqrt() + 1e-8,
                       value=-size)
            p.grad = None

    def get_state(self):
        return {name: {"state": {0: {k: v for k, v in s.items()
                                     if k != "lr"}},
                       "param_groups": [{**self.args, "lr": s["lr"],
                                         "params": [0]}]}
                for name, s in self.state.items()}


def pyro(run):
    """SVI with AutoDiagonalNormal; the loss is a sum over the data."""
    steps, rows, size, hidden = 180, 2000, 100, 24
    x, y = table(rows + 500, 6)
    y = (y - y.mean()) / y.std()
    shapes = {"fc1.weight": (hidden, 6), "fc1.bias": (hidden,),
              "fc2.weight": (1, hidden), "fc2.bias": (1,)}
    count = sum(math.prod(s) for s in shapes.values()) + 1
    normal = torch.distributions.Normal
    store = {"AutoDiagonalNormal.loc": (0.3 * torch.randn(count)),
             "AutoDiagonalNormal.scale": torch.full((count,), -3.0)}
    for p in store.values():
        p.requires_grad_()
    adam = ClippedAdam(2.5e-2, (0.95, 0.999), 10.0, 0.1 ** (1 / steps))
    run.settings("config.json", num_steps=steps, subsample_size=size,
                 num_data=rows, lr=2.5e-2, betas=[0.95, 0.999],
                 clip_norm=10.0, lrd=0.1 ** (1 / steps), init_scale=0.05,
                 num_particles=2, guide="AutoDiagonalNormal")

    def network(z, x):
        parts = dict(zip(shapes, (p.view(s) for p, s in zip(
            z[:-1].split([math.prod(s) for s in shapes.values()]),
            shapes.values()))))
        x = torch.tanh(F.linear(x, parts["fc1.weight"], parts["fc1.bias"]))
        return F.linear(x, parts["fc2.weight"], parts["fc2.bias"])[:, 0]

    def guide():
        return normal(store["AutoDiagonalNormal.loc"],
                      store["AutoDiagonalNormal.scale"].exp())

    def save(step):
        for name, value in (
                ("params", {"params": {k: v.detach().clone().requires_grad_()
                                       for k, v in store.items()},
                            "constraints": {
                                "AutoDiagonalNormal.loc": constraints.real,
                                "AutoDiagonalNormal.scale":
                                constraints.positive}}),
                ("optim", adam.get_state())):
            keep(run, f"svi_{name}_{step:04d}.pt", value)

    for step in range(steps + 1):
        if step in (0, steps // 2, steps):
            save(step)
        if step == steps:
            break
        at = torch.randperm(rows)[:size]
        loss = 0
        for _ in range(2):
            q = guide()
            z = q.rsample()
            sigma = z[-1].exp()  # a site that is positive
            log = normal(network(z, x[at]), sigma).log_prob(y[at]).sum() \
                * rows / size
            prior = normal(0.0, 1.0).log_prob(z[:-1]).sum() \
                + normal(-1.0, 1.0).log_prob(z[-1])
            loss = loss + (q.log_prob(z).sum() - prior - log) / 2
        loss.backward()
        norms = {k: p.grad.norm().item() for k, p in store.items()}
        adam(store)
        run.tick(0.02)
        run.row("svi.csv", step=step, loss=loss.item(),
                loss_per_datum=loss.item() / rows,
                grad_loc=norms["AutoDiagonalNormal.loc"],
                grad_scale=norms["AutoDiagonalNormal.scale"],
                lr=adam.state["AutoDiagonalNormal.loc"]["lr"])
        if step % 20 == 0:
            run.say(f"[iteration {step + 1:04d}] loss: "
                    f"{loss.item() / rows:.4f}")
    with torch.no_grad():
        said = torch.stack([network(guide().sample(), x[rows:])
                            for _ in range(20)])
    rmse = (said.mean(0) - y[rows:]).square().mean().sqrt().item()
    run.say(f"rmse {rmse:.4f}")
    return {"rmse": round(rmse, 4), "loss": round(loss.item(), 1)}


def cycles(run):
    """Cyclical SG-MCMC: rates return to the top, noise in the second half."""
    per, rounds, size, rows = 48, 4, 32, 384
    (x, y), (test, held) = waves(rows), waves(256)
    model = nn.Sequential(
        nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Conv2d(8, 12, 3), nn.ReLU(),
        nn.MaxPool2d(2), nn.Flatten(), nn.Linear(48, 32), nn.ReLU(),
        nn.Linear(32, 4))
    heat, top, decay = 1e-5, 0.12, 5e-4
    moments = [torch.zeros_like(p) for p in model.parameters()]
    run.settings("args.json", epochs=per * rounds * size // rows, M=rounds,
                 alpha=0.9, temperature=heat, lr_0=top, batch_size=size)
    many, drawn, step = [], 0, 0
    for epoch in range(per * rounds * size // rows):
        total = right = 0
        for at in batches(rows, size):
            place = step % per / per
            rate = 0.5 * top * (math.cos(math.pi * place) + 1)
            said = model(x[at])
            loss = F.cross_entropy(said, y[at])
            model.zero_grad()
            loss.backward()
            with torch.no_grad():
                for p, m in zip(model.parameters(), moments):
                    m.mul_(0.9).add_(p.grad + decay * p, alpha=-rate)
                    if place > 0.75:
                        m.add_(torch.randn_like(m), alpha=math.sqrt(
                            2 * 0.1 * rate * heat / rows))
                    p.add_(m)
            total += loss.item() * len(at)
            right += int((said.argmax(1) == y[at]).sum())
            step += 1
            run.tick(0.05)
        model.eval()
        with torch.no_grad():
            probs = model(test).softmax(1)
        model.train()
        row = dict(epoch=epoch, cycle=(step - 1) // per, lr=rate,
                   train_loss=total / rows, train_acc=right / rows,
                   test_loss=F.nll_loss(probs.log(), held).item(),
                   test_acc=accuracy(probs, held), ensemble_acc="")
        if place > 0.75:
            many.append(probs)
            keep(run, f"csgmcmc/cifar_csghmc_{drawn}.pt", model.state_dict())
            drawn += 1
            row["ensemble_acc"] = accuracy(sum(many), held)
        run.row("log.csv", **row)
        run.say(f"Epoch: {epoch} LR: {rate:.5f} Loss: {total / rows:.3f} | "
                f"Acc: {100 * right / rows:.3f}% ({right}/{rows}) | Test Acc:"
                f" {100 * row['test_acc']:.3f}%")
    return {"acc": round(row["test_acc"], 4),
            "ensemble": round(row["ensemble_acc"], 4)}


@kind(weights="", anneal="", pyro="", cycles="")
def bnn(run):
    """Networks whose weights are drawn; blitz's example is the plain run.

    There the parameters of a layer have no gradients: their memory is moved by
    those of its sampler, rho stays near -6. Odd and sound: `weights` has the
    complexity in the first batches of an epoch alone, so that the loss falls
    from thousands to tens within each, `anneal` a KL weight that leaves 0, so
    that the loss stays while the fit gets better, a last layer that is not
    drawn and dropout at validation, `pyro` sums over the data, a rate for each
    parameter and a store of unconstrained values, `cycles` rates that come
    back to the top, so that the loss rises three times, and files of samples.
    """
    if run.has("weights"):
        return weighed(run)
    if run.has("anneal"):
        return annealed(run)
    if run.has("pyro"):
        return pyro(run)
    if run.has("cycles"):
        return cycles(run)
    return blitz(run)
