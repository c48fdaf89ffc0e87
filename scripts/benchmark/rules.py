"""Baseline: the rules of SageMaker Debugger with their published thresholds.

The rules (docs.aws.amazon.com/sagemaker/latest/dg/debugger-built-in-rules.html) name sights and not causes, and their
code is closed; each is given all the classes that may look so, and is right where any of them is. Where a rule reads
tensors that the runs do not have (single gradients, activations of units), it gets the statistics of layers that comes
closest. All of that is in the rules' favour. Rules over labels, images and profiles of the machine have no input here.
"""

import math

# Weights of a layer that the mean |gradient| is reckoned for, from the layer's norm: 64 by 64.
LAYER_SIZE = 4096

NONFINITE = {"fp16-overflow", "log-of-zero", "division-by-near-zero", "exp-overflow", "lr-too-high",
             "exploding-gradient", "silent-data-corruption", "logit-growth", "nan-in-input-data",
             "grad-singularity-sqrt-zero", "softmax-fully-masked-row", "bad-batch-outlier", "loss-sign-flipped",
             "loss-scale-collapse"}
STANDSTILL = {"frozen-parameters", "optimizer-holds-stale-params", "lr-zero-from-scheduler", "detached-graph",
              "bf16-update-underflow", "lr-too-low", "gradient-clip-too-small", "gradients-zeroed-before-step"}
LOSS_STAYS = {"lr-too-low", "lr-too-high", "lr-zero-from-scheduler", "optimizer-holds-stale-params", "double-softmax",
              "loss-sign-flipped", "gradient-clip-too-small", "detached-graph", "bad-initialization", "label-noise",
              "weight-decay-too-high", "optimizer-hyperparameter", "loss-mask-all-ignored", "warmup-missing",
              "learning-rate-jump", "vanishing-gradient", "position-encoding-missing", "regularisation-too-strong"}

# Rule -> classes that count as named by it.
CLASSES = {
    "ExplodingTensor": NONFINITE,
    "VanishingGradient": {"vanishing-gradient", "detached-graph", "saturated-activation", "dead-relu",
                          "loss-mask-all-ignored", "double-softmax"},
    "UnchangedTensor": STANDSTILL,
    "AllZero": {"dead-relu", "detached-graph", "loss-mask-all-ignored", "bad-initialization", "kv-block-reset"},
    "DeadRelu": {"dead-relu"},
    "SaturatedActivation": {"saturated-activation"},
    "WeightUpdateRatio, large": {"lr-too-high", "learning-rate-jump", "exploding-gradient", "bad-initialization",
                                 "optimizer-hyperparameter", "warmup-missing"},
    "WeightUpdateRatio, small": STANDSTILL,
    "PoorWeightInitialization": {"bad-initialization", "attention-scale-missing", "activation-missing"},
    "LossNotDecreasing": LOSS_STAYS,
    "Overfit": {"overfitting", "small-dataset-repeated", "label-noise", "split-not-representative"},
    "Overtraining": {"overfitting", "small-dataset-repeated", "lr-zero-from-scheduler", "learning-rate-jump"},
    "SimilarAcrossRuns": {"unseeded-rng", "iteration-order-nondeterminism", "race-in-state",
                          "nondeterministic-atomics"},
    "StepOutlier": {"dataloader-bound", "logging-or-eval-stall", "checkpoint-save-stall", "gc-straggler"},
}


def _mean(values):
    return sum(values) / len(values)


def _exploding(s):
    known = ("loss", "grad_norm", "activation_max")
    logged = [v for (metric, _), rows in s.of.items() if metric in known for _, v in rows]
    counts = [v for rows in s.layers("nonfinite").values() for _, v in rows]
    return not all(map(math.isfinite, logged)) or any(v > 0 for v in counts)


def _vanishing(s):
    """Mean |gradient| below 1e-7."""
    return any(v / math.sqrt(LAYER_SIZE) < 1e-7 for rows in s.layers("grad_norm").values() for _, v in rows)


def _three_in_a_row(rows, test):
    return any(all(test(v) for _, v in rows[i:i + 3]) for i in range(len(rows) - 2))


def _unchanged(s):
    """allclose over three saved steps, with a relative tolerance of 1e-5."""
    return any(_three_in_a_row(rows, lambda v: v <= 1e-5) for rows in s.layers("update_ratio").values())


def _all_zero(s):
    return any(v >= 1 for rows in s.layers("zero_share").values() for _, v in rows) or \
        any(v == 0 for rows in s.layers("grad_norm").values() for _, v in rows) or \
        any(v == 0 for v in s.values("loss"))


def _dead(s):
    """Half of the units dead makes three quarters zeros, where the others are off half of the time."""
    return any(v > 0.75 for rows in s.layers("zero_share").values() for _, v in rows)


def _saturated(s):
    return any(v > 0.5 for rows in s.layers("saturated_share").values() for _, v in rows)


def _update_large(s):
    return any(v > 10 for rows in s.layers("update_ratio").values() for _, v in rows)


def _update_small(s):
    """Twice: a schedule that ends at 0 has one such row at its end."""
    return any(sum(v < 1e-8 for _, v in rows) > 1 for rows in s.layers("update_ratio").values())


def _poor_start(s):
    """Variances of the layers' activations a factor of ten apart in the first record, and a loss that does not fall in
    its first five rows. Either alone would accuse most runs: an embedding has smaller values than a block."""
    first = [rows[0][1] ** 2 for rows in s.layers("activation_rms").values() if rows and math.isfinite(rows[0][1])]
    loss = s.values("loss")[:6]
    stays = len(loss) > 5 and not min(loss[1:]) < loss[0]
    return stays and len(first) > 1 and max(first) > 10 * max(min(first), 1e-300)


def _loss_stays(s):
    """Every ten rows the loss must be 0.1 % lower. One check that fails would accuse every run; here it is the means of
    ten rows, and most checks must fail."""
    loss = s.finite("loss")
    means = [_mean(loss[i:i + 10]) for i in range(0, len(loss) - 9, 10)]
    checks = [b > a * (1 - 0.001) for a, b in zip(means, means[1:])]
    return bool(checks) and sum(checks) > len(checks) / 2


def _overfit(s):
    """(validation - training) / training above 0.1, of the last of each."""
    val, loss = s.finite("val_loss"), s.finite("loss")
    return bool(val and loss) and val[-1] - _mean(loss[-10:]) > 0.1 * abs(_mean(loss[-10:]))


def _overtraining(s):
    """The validation loss has not improved by 0.01 for ten evaluations, or the training loss for five times ten
    rows."""
    val, loss = s.finite("val_loss"), s.finite("loss")
    means = [_mean(loss[i:i + 10]) for i in range(0, len(loss) - 9, 10)]
    return len(val) > 10 and min(val[-10:]) > min(val[:-10]) - 0.01 or \
        len(means) > 5 and min(means[-5:]) > min(means[:-5]) - 0.01


def _differs_across_runs(s):
    other = s.second.get(("loss", None))
    return bool(other) and other != s.of.get(("loss", None))


def _step_outlier(s):
    """Ten steps beyond three standard deviations; of runs logged rarely one in twenty rows."""
    times = s.finite("step_time")
    if len(times) < 10:
        return False
    middle = _mean(times)
    deviation = math.sqrt(_mean([(t - middle) ** 2 for t in times]))
    outliers = sum(t > middle + 3 * deviation for t in times)
    return outliers >= min(10, max(1, len(times) // 20))


CHECKS = {"ExplodingTensor": _exploding, "VanishingGradient": _vanishing, "UnchangedTensor": _unchanged,
          "AllZero": _all_zero, "DeadRelu": _dead, "SaturatedActivation": _saturated,
          "WeightUpdateRatio, large": _update_large, "WeightUpdateRatio, small": _update_small,
          "PoorWeightInitialization": _poor_start, "LossNotDecreasing": _loss_stays, "Overfit": _overfit,
          "Overtraining": _overtraining, "SimilarAcrossRuns": _differs_across_runs, "StepOutlier": _step_outlier}


def fired(series):
    """Names of the rules that a run sets off."""
    return [name for name, check in CHECKS.items() if check(series)]
