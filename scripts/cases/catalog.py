"""The first cases: one class each, the fault where it sits.

Each has whole dumps around its onset, which the fault cases of faults/ thin,
and an expected.json of its own.
"""

import copy

import torch

from . import logs, models
from .recorder import Run


class HealthyGpt(Run):
    """Healthy: warm-up, then cosine down to exactly 0 at the last step."""
    name, seed, steps = "healthy-gpt", 3, 450
    verdict = "healthy"
    note = "the learning rate is 0 at the last step by design of the schedule"
    write_files = logs.plain


class HealthyMlp(Run):
    """Healthy: a classifier on a Gaussian mixture at a constant rate."""
    name, seed, steps = "healthy-mlp", 5, 500
    lr, warmup, schedule, weight_decay = 5e-4, 0, "constant", 0.01
    batch_size = 64
    layers, one_row, verdict = models.Mlp.LAYERS, False, "healthy"
    dumped = ("batch.*", "fc*.input", "fc*.output", "out.output", "loss.output",
              "fc2.weight", "fc2.grad")
    note = "the loss stops near the Bayes error of the mixture, not near 0"

    def make_model(self):
        return models.Mlp()

    def make_source(self, seed):
        return models.GaussianMixture(seed)

    def write_files(self):
        logs.plain(self, progress=True, rename={
            "step": "_step", "loss": "train/loss", "lr": "train/lr",
            "grad_norm": "train/grad_norm", "step_time": "train/step_time",
            "val_loss": "val/loss"})


class LrTooHigh(Run):
    """AdamW at lr 0.3, a hundred times too high, behind a warm-up of 100
    steps: the loss falls while the rate is still small, then leaves."""
    name, seed, steps = "lr-too-high", 0, 350
    lr, warmup, schedule, clip = 0.3, 100, "constant", None
    dumped = Run.dumped + ("blocks.0.attn.scores.output",)
    dump_first = False
    root_class = "lr-too-high"
    also = ["logit-growth"]
    note = "step: the first with a loss of twice the best so far"
    write_files = logs.nanogpt

    def is_onset(self, i, row, now):
        return row["loss"] > 2 * min(r["loss"] for r in self.history)


class LrTooHighSgd(Run):
    """SGD with momentum at lr 3 and no clipping: grows to Inf, then NaN."""
    name, seed, steps = "lr-too-high-sgd", 2, 120
    optimizer_name, weight_decay = "sgd", 0.0
    lr, warmup, schedule, clip = 3.0, 100, "constant", None
    dumped = Run.dumped + ("blocks.*.mlp.input",)
    dump_last = False
    root_class = "lr-too-high"
    also = ["exploding-gradient"]
    note = "step: the first non-finite loss; it grows for steps before"
    write_files = logs.plain

    def make_optimizer(self, model):
        return torch.optim.SGD(model.parameters(), lr=self.lr, momentum=0.9)

    def is_onset(self, i, row, now):
        return not torch.isfinite(now.taps["loss.output"])


class LrZero(Run):
    """The lambda of a LambdaLR divides with // after the warm-up, so that the
    linear decay is 1 for one step and 0 from then on."""
    name, seed, steps, first_step = "lr-zero-from-scheduler", 4, 400, 1
    warmup, schedule = 60, "linear"
    onset, dump_first = 61, False
    root_class = "lr-zero-from-scheduler"
    note = "step: the first update with a rate of 0 (counted from 1)"
    write_files = logs.hf_trainer

    def lr_factor(self, i):
        if i < self.warmup:
            return (i + 1) / self.warmup
        return max(0, (self.steps - i) // (self.steps - self.warmup))


class Fp16Overflow(Run):
    """q k^T in real fp16, scaled only afterwards, and q and k weights of block
    1 that grow by 1.6 % a step: the growth of logits over 10^5 steps of a
    large run, in 300. The first +Inf under the softmax is the first NaN."""
    name, seed, steps = "fp16-overflow", 0, 330
    precision = "fp16-mixed"
    model_options = {"half_scores": True}
    dumped = ("batch.*", "embed.output", "blocks.*.attn.input",
              "blocks.*.attn.scores.input", "blocks.*.attn.scores.output",
              "blocks.*.attn.probs.output", "blocks.*.attn.output",
              "blocks.*.mlp.output", "head.output", "loss.output")
    dump_last = False
    root_class, where = "fp16-overflow", "blocks.1.attn.scores"
    also = ["logit-growth"]
    note = "Inf is born in the product of finite q and k, NaN in the softmax"
    write_files = logs.plain

    def after_step(self, i, model):
        with torch.no_grad():
            for part in (model.blocks[1].attn.q, model.blocks[1].attn.k):
                part.weight.mul_(1.016)

    def is_onset(self, i, row, now):
        return not torch.isfinite(now.taps["loss.output"])


class BadBatch(Run):
    """Batch 237 comes from a corrupt shard: its tokens are draws from the ids
    60 to 63. All other batches are sound."""
    name, seed, steps = "bad-batch", 6, 300
    schedule, onset = "constant", 237
    dump_first, dump_last = False, False
    extra_dumps = {i: ("batch.*", "loss.output")
                   for i in (0, 60, 120, 180, 238, 299)}
    root_class = "bad-batch-outlier"
    note = "the loss is back in its band at the next step"
    write_files = logs.lightning

    def spoil_batch(self, i, batch):
        if i != self.onset:
            return batch
        rng = torch.Generator().manual_seed(60)
        rows, length = batch["input_ids"].shape
        ids = torch.randint(60, 64, (rows, length + 1), generator=rng)
        return {"input_ids": ids[:, :-1].clone(),
                "labels": ids[:, 1:].clone()}


class LabelShiftMissing(Run):
    """labels = input_ids, in training and in validation: a copy task."""
    name, seed, steps = "label-shift-missing", 7, 300
    root_class, onset = "label-shift-missing", 0
    note = "both losses near 0, far below the entropy of the text"
    write_files = logs.nanogpt

    def spoil_batch(self, i, batch):
        return {**batch, "labels": batch["input_ids"].clone()}


class DetachedBlock(Run):
    """The output of block 0 is detached: embedding and block 0 get no
    gradient and never change; block 1 and the head train on."""
    name, seed, first_step = "detached-block", 8, 1
    model_options = {"detach_after": 0}
    onset, npy_dumps = 0, True
    dumped = Run.dumped + ("embed.tok.weight", "embed.tok.grad",
                              "blocks.1.attn.proj.weight",
                              "blocks.1.attn.proj.grad")
    root_class, where = "detached-graph", "blocks.0"
    also = ["frozen-parameters"]
    note = "layer: the last one without gradient; embed is upstream of it"
    write_files = logs.megatron


class OptimizerStaleParams(Run):
    """The optimizer is built before the model is copied (as some wrappers
    do): it steps parameters that nobody uses."""
    name, seed, steps = "optimizer-stale-params", 9, 300
    root_class, onset = "optimizer-holds-stale-params", 0
    also = ["frozen-parameters"]
    note = "learning rate and gradient are not 0, every update is"
    write_files = logs.torchtune

    def wrap(self, model):
        return copy.deepcopy(model)


class LossSignFlipped(Run):
    """The loss is negated before backward: gradient ascent."""
    name, seed, steps = "loss-sign-flipped", 10, 200
    root_class, onset, dump_first = "loss-sign-flipped", 0, False
    write_files = logs.plain

    def spoil_loss(self, loss):
        return -loss


CLASSIC = {case.name: case for case in (
    HealthyGpt, HealthyMlp, LrTooHigh, LrTooHighSgd, LrZero, Fp16Overflow,
    BadBatch, LabelShiftMissing, DetachedBlock, OptimizerStaleParams,
    LossSignFlipped)}
