"""The VAE of scvi-tools on counts: ELBO, KL warm-up, a history of CSVs.

Some of its designs are odd and sound. The kind returns how well its run ended,
measured on what it did not train on.
"""

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, watched


class FCLayers(nn.Module):
    def __init__(self, inner, outer, drop=0.0):
        super().__init__()
        self.fc_layers = nn.Sequential()
        self.fc_layers.add_module("Layer 0", nn.Sequential(
            nn.Linear(inner, outer),
            nn.BatchNorm1d(outer, momentum=0.01, eps=0.001),
            nn.ReLU(), *([nn.Dropout(drop)] if drop else [])))

    def forward(self, x, hot=None):
        return self.fc_layers(x if hot is None else torch.cat([x, hot], 1))


class Encoder(nn.Module):
    def __init__(self, inner, outer, hidden):
        super().__init__()
        self.encoder = FCLayers(inner, hidden, 0.1)
        self.mean_encoder = nn.Linear(hidden, outer)
        self.var_encoder = nn.Linear(hidden, outer)

    def forward(self, x):
        q = self.encoder(x)
        var = self.var_encoder(q).exp() + 1e-4
        return torch.distributions.Normal(self.mean_encoder(q), var.sqrt())


class DecoderSCVI(nn.Module):
    """All heads are there, whatever the likelihood uses."""

    def __init__(self, inner, genes, batches, hidden):
        super().__init__()
        self.px_decoder = FCLayers(inner + batches, hidden)
        self.px_scale_decoder = nn.Sequential(nn.Linear(hidden, genes),
                                              nn.Softmax(dim=-1))
        self.px_r_decoder = nn.Linear(hidden, genes)
        self.px_dropout_decoder = nn.Linear(hidden, genes)

    def forward(self, z, library, hot):
        px = self.px_decoder(z, hot)
        return library.exp() * self.px_scale_decoder(px)


def log_nb_positive(x, mu, theta, eps=1e-8):
    log_both = (theta + mu + eps).log()
    return theta * ((theta + eps).log() - log_both) \
        + x * ((mu + eps).log() - log_both) + torch.lgamma(x + theta) \
        - torch.lgamma(theta) - torch.lgamma(x + 1)


class VAE(nn.Module):
    def __init__(self, genes, batches, latent=8, hidden=48, library=None):
        super().__init__()
        self.n_batch, self.library = batches, library
        if library is not None:
            mean, var = library
            self.register_buffer("library_log_means", mean)
            self.register_buffer("library_log_vars", var)
        self.px_r = nn.Parameter(torch.randn(genes))
        self.z_encoder = Encoder(genes, latent, hidden)
        self.l_encoder = Encoder(genes, 1, hidden)
        self.decoder = DecoderSCVI(latent, genes, batches, hidden)

    def forward(self, x, batch, sizes=None, fault=""):
        """Reconstruction loss and local KL of each cell, and z."""
        kl_of, Normal = torch.distributions.kl_divergence, \
            torch.distributions.Normal
        hot = F.one_hot(batch, self.n_batch).float()
        seen = torch.log1p(x)
        qz = self.z_encoder(seen)
        z = qz.sample() if fault == "sample" else qz.rsample()
        library = (x.sum(1, keepdim=True) if sizes is None else
                   sizes[:, None]).log()
        kl = kl_of(qz, Normal(0.0, 1.0)).sum(1)
        if self.library is not None:
            ql = self.l_encoder(seen)
            library = ql.rsample()
            kl_l = kl_of(ql, Normal(self.library_log_means[:, batch].T,
                                    self.library_log_vars[:, batch].T.sqrt()))
            self.kl_l = kl_l.sum(1)
        mu = self.decoder(z, library, hot)
        reconst = -log_nb_positive(x, mu, self.px_r.exp()).sum(-1)
        return reconst, kl, qz.loc


def cells(count, genes, kinds=5, empty=0.0):
    """Counts of cells, their batch and their type."""
    programs = (1.3 * torch.randn(kinds, genes) - 0.5).exp()
    effect = (0.3 * torch.randn(2, genes)).exp()
    label, batch = torch.randint(kinds, (count,)), torch.randint(2, (count,))
    mean = programs[label] * effect[batch]
    if empty:
        mean[:, torch.randperm(genes)[:int(empty * genes)]] = 0
    size = (5.5 + 0.5 * torch.randn(count, 1)).exp()
    rate = size * mean / mean.sum(1, keepdim=True)
    gamma = torch.distributions.Gamma(4.0, 4.0).sample(rate.shape)
    return torch.poisson(rate * gamma), batch, label


def purity(z, label, ref_z, ref_label):
    """Share of held-out cells whose 5 nearest are mostly of their type."""
    near = torch.cdist(z, ref_z).topk(5, largest=False).indices
    return (ref_label[near].mode(1).values == label).float().mean().item()


@kind(longwarm="", zeros="", latentlib="",
      rate="lr-too-high",
      sample="detached-graph representation-collapse",
      pairs="label-pairing-mismatch",
      klsum="regularisation-too-strong representation-collapse "
            "loss-terms-unbalanced")
def scvi(run):
    """The negative binomial VAE of scvi-tools on cells of five types.

    Odd and sound: `longwarm` has a KL weight that begins at 0 and comes to
    0.05 only, so that the KL grows to thirteen times its first value and stays
    thrice that of the plain run, `zeros` keeps genes that no cell has,
    `latentlib` learns library sizes by l_encoder.
    In all, heads of other likelihoods are there without a gradient.
    """
    genes, count, size, epochs = 120, 1280, 128, 16
    empty = 0.5 if run.has("zeros") else 0.0
    x, batch, label = cells(count, genes, empty=empty)
    train = torch.arange(count) < int(0.9 * count)
    train, held = train.nonzero()[:, 0], (~train).nonzero()[:, 0]
    prior = None
    if run.has("latentlib"):
        logs = x.sum(1).clamp(min=1).log()
        prior = tuple(torch.stack([f(logs[batch == b]) for b in (0, 1)])[None]
                      for f in (torch.mean, torch.var))
    model = VAE(genes, 2, library=prior)
    lr, warmup = 4e-3, 320 if run.has("longwarm") else 8
    plan = dict(lr=lr, weight_decay=1e-6, eps=0.01, optimizer="Adam",
                n_epochs_kl_warmup=warmup, n_steps_kl_warmup=None,
                max_kl_weight=1.0, min_kl_weight=0.0,
                reduce_lr_on_plateau=False)
    made = dict(n_hidden=48, n_latent=8, n_layers=1, dropout_rate=0.1,
                dispersion="gene", gene_likelihood="nb",
                latent_distribution="normal",
                use_observed_lib_size=not run.has("latentlib"))
    run.settings("params.json", model="SCVI", max_epochs=epochs,
                 batch_size=size, train_size=0.9, plan_kwargs=plan, **made)
    optimizer = torch.optim.Adam(model.parameters(), run.rate(lr, 40), eps=0.01,
                                 weight_decay=1e-6)
    rec = watched(run, model, optimizer, every=25, max_dump_bytes=2 << 20,
                  config={"max_epochs": epochs, "lr": lr})
    history, names = {}, np.array([f"gene_{i}" for i in range(genes)])

    def save(folder):
        keep(run, f"{folder}/model.pt", {
            "model_state_dict": model.state_dict(), "var_names": names,
            "attr_dict": {
                "registry_": {"scvi_version": "1.1.2", "model_name": "SCVI",
                              "setup_args": {"layer": "counts",
                                             "batch_key": "batch"}},
                "init_params_": {"kwargs": {}, "non_kwargs": made},
                "is_trained_": folder == "scvi_model",
                "train_indices_": train.numpy(), "test_indices_": np.array([]),
                "validation_indices_": held.numpy(),
                "history_": {k: list(v) for k, v in history.items()}}})

    def note(epoch, **values):
        for key, value in values.items():
            history.setdefault(key, []).append(value)
            run.row(f"history/{key}.csv", **{"epoch": epoch, key: value})

    def mean_of(parts, mode):
        reconst, kl = (torch.cat(p).mean().item() for p in zip(*parts))
        return {f"elbo_{mode}": reconst + kl,
                f"reconstruction_loss_{mode}": reconst,
                f"kl_local_{mode}": kl, f"kl_global_{mode}": 0.0}

    run.say("GPU available: False, used: False",
            "TPU available: False, using: 0 TPU cores")
    save("scvi_log/checkpoints/epoch=0-step=0")
    step = 0
    for epoch in range(epochs):
        kl_weight = min(1.0, epoch / warmup)
        parts, losses = [], []
        for at in train[torch.randperm(len(train))].split(size):
            sizes = x[at].sum(1)
            if run.has("pairs"):  # size factors of the unshuffled table
                sizes = x[train[:len(at)]].sum(1)
            rec.batch(input=x[at], batch=batch[at])
            reconst, kl, _ = model(x[at], batch[at], sizes, run.fault)
            weight = kl_weight * (genes if run.has("klsum") else 1)
            loss = reconst + weight * kl
            if prior is not None:
                loss = loss + model.kl_l
            loss = loss.mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rec.step(loss)
            losses.append(loss.item())
            shown = kl if prior is None else kl + model.kl_l
            parts.append((reconst.detach(), shown.detach()))
            step += 1
        took = run.tick(0.9) and 0.9
        told = mean_of(parts, "train")
        model.eval()
        with torch.no_grad():
            sizes = x[train[:len(held)]].sum(1) if run.has("pairs") \
                else None
            reconst, kl, z = model(x[held], batch[held], sizes)
            if prior is not None:
                kl = kl + model.kl_l
        model.train()
        note(epoch, kl_weight=kl_weight, train_loss_step=losses[-1],
             validation_loss=(reconst + kl_weight * kl).mean().item(),
             **mean_of([(reconst, kl)], "validation"),
             train_loss_epoch=float(np.mean(losses)), **told)
        run.say(f"Epoch {epoch + 1}/{epochs}: {100 * epoch // epochs:3d}%|"
                f"{'█' * (epoch * 10 // epochs):10}| {epoch + 1}/{epochs} "
                f"[00:{int(took * (epoch + 1)):02d}<00:"
                f"{int(took * (epochs - epoch)):02d}, {1 / took:.2f}it/s, "
                f"v_num=1, train_loss_step={losses[-1]:.3g}, "
                f"train_loss_epoch={np.mean(losses):.3g}]")
        if epoch == epochs // 2:
            save(f"scvi_log/checkpoints/epoch={epoch}-step={step}-elbo_"
                 f"validation={history['elbo_validation'][-1]:.4f}")
    run.say(f"`Trainer.fit` stopped: `max_epochs={epochs}` reached.")
    save("scvi_model")
    rec.close()
    model.eval()
    with torch.no_grad():
        seen = model(x[train], batch[train])[2]
    return {"reconst": round(reconst.mean().item(), 2),
            "kl": round(kl.mean().item(), 2),
            "purity": round(purity(z, label[held], seen, label[train]), 3)}
