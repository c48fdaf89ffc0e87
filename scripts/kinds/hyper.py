"""A net that makes a net, which then adapts itself to each task.

As MAML++ trains it: second-order gradients, a rate for each layer and step.
All its runs are sound; the kind returns errors on new tasks before and after
adaptation.
"""

import json

import torch
from torch import nn
from torch.nn import functional as F

from kinds.base import kind
from kinds.outputs import keep, place, watch

SIZES, CODE, SHOTS = (1, 20, 20, 1), 6, 10


class Target:
    """Functions of weights that somebody else made, a set for each task."""

    shapes = {f"layer_dict.linear{i}.{part}": shape
              for i, (a, b) in enumerate(zip(SIZES, SIZES[1:]))
              for part, shape in (("weights", (b, a)), ("bias", (b,)))}

    @staticmethod
    def run(x, weights):
        for i in range(len(SIZES) - 1):
            w, b = (weights[f"layer_dict.linear{i}.{part}"]
                    for part in ("weights", "bias"))
            x = x @ w.mT + b[:, None]
            if i < len(SIZES) - 2:
                x = x.tanh()
        return x


class HyperNetwork(nn.Module):
    """Codes of layers become weights; a context of the task may be added."""

    def __init__(self, context=0):
        super().__init__()
        self.layer_codes = nn.Parameter(
            torch.randn(len(Target.shapes), CODE) * 0.5)
        self.context = context
        self.trunk = nn.Sequential(nn.Linear(CODE + context, 32), nn.Tanh())
        self.heads = nn.ModuleDict()
        for name, shape in Target.shapes.items():
            size = torch.Size(shape).numel()
            head = nn.Linear(32, size)
            fan = shape[-1] if len(shape) > 1 else 1e4
            # by hyperfan-in: the bias holds what the net begins as
            nn.init.normal_(head.weight, std=0.1 * (32 * fan) ** -0.5)
            nn.init.normal_(head.bias, std=fan ** -0.5)
            self.heads[name.replace(".", "-")] = head

    def forward(self, tasks, context=None):
        out = {}
        for code, (name, shape) in zip(self.layer_codes,
                                       Target.shapes.items()):
            code = code.expand(tasks, -1)
            if self.context:
                code = torch.cat([code, context], 1)
            made = self.heads[name.replace(".", "-")](self.trunk(code))
            out[name] = made.view(tasks, *shape)
        return out


class LSLR(nn.Module):
    """The inner optimizer: a rate a layer and step, and one that none uses."""

    def __init__(self, names, steps, init, learned):
        super().__init__()
        self.names_learning_rates_dict = nn.ParameterDict({
            n.replace(".", "-"): nn.Parameter(
                torch.full((steps + 1,), init), requires_grad=learned)
            for n in names})

    def update_params(self, weights, grads, step):
        rates = self.names_learning_rates_dict
        return {n: w - rates[n.replace(".", "-")][step] * g
                for (n, w), g in zip(weights.items(), grads)}


class Learner(nn.Module):
    def __init__(self, steps, context=0, rate=0.02, learned=True):
        super().__init__()
        self.classifier = HyperNetwork(context)
        names = ["context"] if context else Target.shapes
        self.inner_loop_optimizer = LSLR(names, steps, rate, learned)

    def forward(self, x, y, xt, yt, steps, second):
        """Losses of all tasks on new points after 0, 1, ... steps."""
        tasks, make, context = len(x), self.classifier, self.classifier.context
        if context:
            learned = {"context": x.new_zeros(tasks, context,
                                              requires_grad=True)}
            weights = make(tasks, learned["context"])
        else:
            learned = weights = make(tasks)
        losses, support = [F.mse_loss(Target.run(xt, weights), yt)], []
        for step in range(steps):
            loss = F.mse_loss(Target.run(x, weights), y)
            support.append(loss)
            grads = torch.autograd.grad(loss * tasks, list(learned.values()),
                                        create_graph=second,
                                        retain_graph=True)
            learned = self.inner_loop_optimizer.update_params(
                learned, grads, step)
            weights = make(tasks, learned["context"]) if context else learned
            losses.append(F.mse_loss(Target.run(xt, weights), yt))
        return losses, support


def tasks_of(count):
    """Waves of some height and phase."""
    high = 0.5 + 2 * torch.rand(count, 1, 1)
    phase = 3.14 * torch.rand(count, 1, 1)
    x = 6 * torch.rand(2, count, SHOTS, 1) - 3
    y = high * (x + phase).sin()
    return x[0], y[0], x[1], y[1]


@kind(context="", anil="", stages="", importance="")
def hyper(run):
    """A hypernetwork under MAML++: tasks, inner steps, summary_statistics.csv.

    The net is as bad as the mean before adaptation and may get worse there;
    the inner optimizer is made anew for each task and its last rates are used
    by no step.

    Odd and sound: `context` adapts 4 numbers of each task alone that begin at
    0, `anil` has inner rates that are 0 and fixed but for the last layer's,
    `stages` begins with one inner step of the first order and gets two more
    later, of the second, which changes losses and gradients, with larger
    meta-batches, `importance` weighs the losses of all steps, by weights that
    move to the last, and keeps halves of networks without optimizers.
    """
    context, anil, stages, importance = (run.has(n) for n in (
        "context", "anil", "stages", "importance"))
    epochs, per, steps, lr = 12, 15, 3, 6e-3
    model = Learner(steps, 4 if context else 0, 0.5 if context else 0.03)
    if anil:
        for name, p in model.inner_loop_optimizer.named_parameters():
            if "linear2" in name:
                p.data.fill_(0.1)
            else:
                p.requires_grad_(False).zero_()
    learned = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(learned, lr, amsgrad=False)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(
        optimizer, epochs, eta_min=lr / 50)
    run.write("experiment_config.json", {
        "experiment_name": "sinusoid_hyper", "batch_size": 16,
        "total_epochs": epochs, "total_iter_per_epoch": per,
        "number_of_training_steps_per_iter": steps, "second_order": True,
        "number_of_evaluation_steps_per_iter": steps,
        "first_order_to_second_order_epoch": 2 if stages else -1,
        "task_learning_rate": 0.5 if context else 0.03,
        "meta_learning_rate": lr, "min_learning_rate": lr / 50,
        "learnable_per_layer_per_step_inner_loop_learning_rate": True,
        "use_multi_step_loss_optimization": importance,
        "multi_step_loss_num_epochs": 8, "seed": 104})
    say = lambda text: run.say(text, file="train.log")
    say("Inner Loop parameters")
    for name, p in model.inner_loop_optimizer.named_parameters():
        say(f"{name} {p.shape}")
    say("Outer Loop parameters")
    for name, p in model.named_parameters():
        if p.requires_grad:
            say(f"{name} {p.shape} cpu True")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(7)
        valid = tasks_of(200)
    place(run, "logs", "saved_models")
    rec = watch(run, model, optimizer, lr=lr) if anil or context else None
    state = {"best_val_loss": 1e9, "best_val_iter": 0, "current_iter": 0,
             "per_epoch_statistics": {}}

    def save(epoch):
        network = model.state_dict()
        if importance:
            network = {k: v.half() for k, v in network.items()}
        value = {"network": network, **state}
        if not importance:
            value["optimizer"] = optimizer.state_dict()
        for name in (epoch, "latest"):
            keep(run, f"saved_models/train_model_{name}", value)

    def weights_of(epoch):
        part = 1 / steps
        off = max(part - epoch * part / 8, 0.03 * part)
        last = min(part + epoch * (steps - 1) * part / 8,
                   1 - (steps - 1) * 0.03 * part)
        return [off] * (steps - 1) + [last]

    def stats(name, values):
        values = torch.tensor(values)
        return {f"{name}_mean": values.mean().item(),
                f"{name}_std": values.std(unbiased=False).item()}

    for epoch in range(epochs):
        inner = (steps if epoch >= 3 else 1) if stages else steps
        second = not stages or epoch >= 3
        count = 32 if stages and epoch >= 3 else 16
        seen = {"train_loss": [], "train_loss_before": [],
                "train_support_loss": []}
        for _ in range(per):
            batch = tasks_of(count)
            if rec:
                rec.batch(x=batch[0], y=batch[1])
            losses, support = model(*batch, inner, second)
            loss = losses[-1]
            if importance:
                loss = sum(w * v for w, v in zip(weights_of(epoch),
                                                 losses[1:]))
            optimizer.zero_grad()
            loss.backward()
            for p in learned:
                if p.grad is not None:
                    p.grad.clamp_(-10, 10)
            optimizer.step()
            if rec:
                rec.step(loss.detach())
            run.tick(0.2)
            for name, value in zip(seen, (loss, losses[0], support[0])):
                seen[name].append(value.item())
            state["current_iter"] += 1
        losses = [v.item() for v in model(*valid, steps, False)[0]]
        row = {}
        for name, values in seen.items():
            row |= stats(name, values)
        if importance:
            row |= {f"train_importance_vector_{i}": w
                    for i, w in enumerate(weights_of(epoch))}
        row["train_learning_rate"] = optimizer.param_groups[0]["lr"]
        row |= {"val_loss_mean": losses[-1], "val_loss_before_mean":
                losses[0], "epoch": epoch + 1, "epoch_run_time": per * 0.2}
        run.row("logs/summary_statistics.csv", **row)
        for name, value in row.items():
            state["per_epoch_statistics"].setdefault(name, []).append(value)
        say(f"epoch {epoch + 1} -> " + ", ".join(
            f"{k}: {v:.4f}" for k, v in row.items() if "mean" in k))
        if losses[-1] < state["best_val_loss"]:
            state |= {"best_val_loss": losses[-1],
                      "best_val_iter": state["current_iter"]}
        schedule.step()
        if epoch + 1 in (1, epochs // 2, epochs):
            save(epoch + 1)
    if rec:
        rec.close()
    run.write("logs/test_summary.json", json.loads(json.dumps(
        {"test_loss_mean": losses[-1], "test_loss_before_mean": losses[0]})))
    run.ends(before=losses[0], after=losses[-1],
             mean=valid[3].var().item())
