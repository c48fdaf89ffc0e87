"""MLP-Mixer in the files of Keras. Three designs look odd and are sound."""

import math

import numpy as np
import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.data import batches, stripes


def dense(ins, outs):
    """Kernels as Keras draws them: Glorot's, biases of 0."""
    layer = nn.Linear(ins, outs)
    nn.init.xavier_uniform_(layer.weight)
    nn.init.zeros_(layer.bias)
    return layer


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-3)
        self.token1, self.token2 = dense(tokens, 24), dense(24, tokens)
        self.norm2 = nn.LayerNorm(dim, eps=1e-3)
        self.channel1, self.channel2 = dense(dim, 48), dense(48, dim)

    def forward(self, x):
        y = self.token2(F.gelu(self.token1(self.norm1(x).mT)))
        x = x + y.mT
        return x + self.channel2(F.gelu(self.channel1(self.norm2(x))))


class Mixer(nn.Module):
    """Patches of 3 x 3 of pictures of 12 x 12, two blocks."""

    def __init__(self, classes=4, dim=24, layer=None):
        super().__init__()
        self.normalization = layer
        self.stem = dense(9, dim)
        self.blocks = nn.ModuleList(MixerBlock(16, dim) for _ in range(2))
        self.norm = nn.LayerNorm(dim, eps=1e-3)
        self.head = dense(dim, classes)

    def forward(self, x):
        if self.normalization:
            mean, variance, _ = self.normalization
            x = (x - mean) / math.sqrt(variance)
        x = F.unfold(x, 3, stride=3).mT
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x).mean(1))

    def keras(self):
        """Weights by their names in a file of Keras, kernels transposed."""
        out, count, norms = {}, 0, 0
        if self.normalization:
            out |= {f"normalization/{n}:0": np.float32(v) for n, v in zip(
                ("mean", "variance", "count"), self.normalization)}
        for m in self.modules():
            if isinstance(m, nn.Linear):
                name = f"dense_{count}" if count else "dense"
                out[f"{name}/kernel:0"] = m.weight.detach().T.numpy().copy()
                out[f"{name}/bias:0"] = m.bias.detach().numpy().copy()
                count += 1
            elif isinstance(m, nn.LayerNorm):
                name = "layer_normalization" + (f"_{norms}" if norms else "")
                out[f"{name}/gamma:0"] = m.weight.detach().numpy().copy()
                out[f"{name}/beta:0"] = m.bias.detach().numpy().copy()
                norms += 1
        return out


def adam_weights(optimizer, names):
    """What model.optimizer.get_weights() has: a count, then m, then v."""
    out = {}
    for k, file in (("exp_avg", "m"), ("exp_avg_sq", "v")):
        for i, p in enumerate(optimizer.param_groups[0]["params"]):
            if p in optimizer.state:
                value = optimizer.state[p][k]
                out["iter:0"] = np.int64(optimizer.state[p]["step"].item())
                out[f"{names[i]}/{file}:0"] = value.numpy().copy()
    return out


@kind(layer="", mixup="", zerohead="",
      take="small-dataset-repeated overfitting",
      shuffled="label-pairing-mismatch label-noise", rate="lr-too-high",
      frozen="frozen-parameters")
def mixer(run):
    """MLP-Mixer by Keras: History's lines, training.csv, a plateau's rates.

    Odd and sound: `layer` is fed 0 to 255 and has a Normalization with mean,
    variance and count as its first layer, `mixup` trains on mixed labels,
    so that its loss stays over that of the held-out part, `zerohead` begins
    with a head of 0, as the paper has it."""
    x, y = stripes(896)
    x = (x + 0.12 * torch.randn_like(x)).clamp(0, 1)
    mean, std = x.mean(), x.std()
    if run.has("layer"):
        x = (255 * x).round()
        part = x[:768]
        layer = float(part.mean()), float(part.var()), part.numel()
    else:
        x, layer = (x - mean) / std, None
    x, held, y, goal = x[:768], x[768:], y[:768], y[768:]
    if run.has("shuffled"):  # tf.data: images.shuffle(), labels beside it
        x = x[torch.randperm(768)]
    if run.has("take"):  # .take(1) of a first try, before .repeat()
        x, y = x[:32].repeat(24, 1, 1, 1), y[:32].repeat(24)
    model = Mixer(layer=layer)
    if run.has("zerohead"):
        nn.init.zeros_(model.head.weight)
    if run.has("frozen"):  # layer.trainable = False in a loop over all
        for n, p in model.named_parameters():
            p.requires_grad = n == "head.bias"
    epochs, lr = 9, 4e-3
    some = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    optimizer = torch.optim.Adam([p for _, p in some], run.rate(lr, 1000),
                                 eps=1e-7)
    names = [n.replace(".", "/") for n, _ in some]
    count = sum(p.numel() for p in model.parameters())
    free = sum(p.numel() for _, p in some)
    rule = "_" * 65
    run.say('Model: "mixer"', rule,
            " Layer (type)                Output Shape              Param #",
            "=" * 65)
    for n, m in model.named_modules():
        if isinstance(m, (nn.Linear, nn.LayerNorm)):
            kind_of = "Dense" if isinstance(m, nn.Linear) else \
                "LayerNormalization"
            its = sum(p.numel() for p in m.parameters())
            run.say(f" {n.replace('.', '_')} ({kind_of})".ljust(29)
                    + f"(None, {m.weight.shape[0]})".ljust(26) + str(its))
    run.say("=" * 65, f"Total params: {count}", f"Trainable params: {free}",
            f"Non-trainable params: {count - free}", rule)

    def save(epoch):
        values = model.keras()
        np.savez(run.folder / f"ckpt-{epoch:02d}.weights.npz", **values)
        np.savez(run.folder / f"ckpt-{epoch:02d}.optimizer.npz",
                 **adam_weights(optimizer, names))

    history, best, wait, rate = {}, math.inf, 0, run.rate(lr, 1000)
    save(0)
    for epoch in range(epochs):
        run.say(f"Epoch {epoch + 1}/{epochs}")
        total, right, seen = 0.0, 0.0, 0
        for i, rows in enumerate(batches(768, 32)):
            images, labels = x[rows], F.one_hot(y[rows], 4).float()
            if run.has("mixup"):
                part = float(np.random.beta(0.4, 0.4))
                other = torch.randperm(len(rows))
                images = part * images + (1 - part) * images[other]
                labels = part * labels + (1 - part) * labels[other]
            out = model(images)
            loss = F.cross_entropy(out, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            seen += len(rows)
            total += float(loss.detach()) * len(rows)
            right += float((out.argmax(1) == labels.argmax(1)).sum())
            run.tick(0.02)
            if i in (0, 7, 15):
                bar = "=" * (30 * (i + 1) // 24) + ">"
                run.say(f"\r{i + 1:2d}/24 [{bar:.<30}] - ETA: 0s - loss: "
                        f"{total / seen:.4f} - accuracy: {right / seen:.4f}")
        with torch.no_grad():
            out = model(held)
        row = {"loss": total / seen, "accuracy": right / seen,
               "val_loss": float(F.cross_entropy(out, goal)),
               "val_accuracy": float((out.argmax(1) == goal).float().mean()),
               "lr": rate}
        run.say(f"\r24/24 [{'=' * 30}] - 1s 21ms/step - " + " - ".join(
            f"{k}: {v:.{6 if k == 'lr' and v < 1e-3 else 4}f}"
            for k, v in row.items()))
        run.row("training.csv", epoch=epoch, **dict(sorted(row.items())))
        for k, v in row.items():
            history.setdefault(k, []).append(v)
        wait += 1
        if row["val_loss"] < best - 1e-3:
            best, wait = row["val_loss"], 0
        if wait >= 2:
            rate, wait = rate / 2, 0
            optimizer.param_groups[0]["lr"] = rate
            run.say("", f"Epoch {epoch + 1}: ReduceLROnPlateau reducing "
                    f"learning rate to {np.float32(rate)}.")
        if epoch + 1 in (epochs // 2, epochs):
            save(epoch + 1)
    run.write("history.json", history)
    run.write("model.json", {
        "class_name": "Functional", "keras_version": "2.15.0", "backend":
        "tensorflow", "config": {"name": "mixer", "layers": [
            {"class_name": type(m).__name__.replace("Linear", "Dense"),
             "name": n.replace(".", "_")} for n, m in model.named_modules()
            if isinstance(m, (nn.Linear, nn.LayerNorm))]}})
    with torch.no_grad():
        out = model(held)
    run.ends(val_loss=F.cross_entropy(out, goal),
             val_accuracy=(out.argmax(1) == goal).float().mean())
