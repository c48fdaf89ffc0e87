"""Faults of no class in `fcst`."""

import torch
from torch.nn import functional as F

from .unclassed import Unclassed


class OfForecaster(Unclassed):
    """Base: what the user typed of the experiment is in the config."""
    families = ("fcst",)


class OfLoss(OfForecaster):
    """Base: training has a loss of its own, validation that of the model."""

    def compute_loss(self, i, model, batch):
        loss = self.of_forecasts(model.logits(batch).float(),
                                 batch["outsample_y"],
                                 batch["outsample_mask"], batch)
        model.tap("loss.output", loss)
        return loss

    def of_forecasts(self, said, wanted, seen, batch):
        raise NotImplementedError


class LagsForgiven(OfLoss):
    """A loss that forgives what comes early or late, as dynamic time warping
    does: of all lags up to a limit the one counts that suits a window best.
    So when something comes is never learned; validation compares step by
    step."""
    id = "U201"
    severities = (dict(lag=2), dict(lag=4), dict(lag=8))

    def setup(self):
        super().setup()
        self.user["loss_max_lag"] = self.s.lag

    def of_forecasts(self, said, wanted, seen, batch):
        steps, costs = said.shape[1], []
        for lag in range(-self.s.lag, self.s.lag + 1):
            mine = slice(max(0, -lag), steps - max(0, lag))
            theirs = slice(max(0, lag), steps - max(0, -lag))
            count = seen[:, theirs].sum(1)
            off = ((said[:, mine] - wanted[:, theirs]).abs()
                   * seen[:, theirs]).sum(1) / count.clamp_min(1)
            costs.append(off.masked_fill(count == 0, torch.inf))
        return torch.stack(costs).min(0).values.mean()


class DirectionsAlone(OfLoss):
    """A loss for traders: a forecast has to lie on the right side of the last
    value, and as far away as a margin says, in units of the window's spread.
    How far away it is to be costs nothing; validation has the distance."""
    id = "U202"
    severities = (dict(margin=1.0), dict(margin=2.0), dict(margin=4.0))

    def setup(self):
        super().setup()
        self.user["directional_loss_margin"] = self.s.margin

    def of_forecasts(self, said, wanted, seen, batch):
        past = batch["insample_y"]
        last, unit = past[:, -1:], past.std(1, keepdim=True) + 1e-5
        right = (wanted - last).sign()
        short = F.relu(self.s.margin - right * (said - last) / unit)
        return (short * seen).sum() / seen.sum()


class ForecastsBounded(OfForecaster):
    """Forecasts are kept within what has been, between two quantiles of the
    window that are much too near each other, in validation as well. What is
    beyond them is never said, and has no gradient."""
    id = "U203"
    severities = (dict(quantile=0.2), dict(quantile=0.35),
                  dict(quantile=0.45))

    def setup(self):
        super().setup()
        self.user["forecast_bounds"] = [self.s.quantile,
                                        round(1 - self.s.quantile, 2)]

    def make_model(self):
        model = super().make_model()
        own = model.forward

        def forward(past):
            low, high = torch.quantile(past, torch.tensor(
                self.user["forecast_bounds"]), 1)[..., None]
            return own(past).maximum(low).minimum(high)
        model.forward = forward
        return model


class SeasonsMasked(OfForecaster):
    """An augmentation masks frequencies of training windows, past and future
    at once, and its sort has the wrong order: not the weakest go but the
    strongest, which are the season. Validation has all."""
    id = "U204"
    severities = (dict(count=1), dict(count=2), dict(count=5))

    def setup(self):
        super().setup()
        self.user["frequency_mask"] = {"count": self.s.count, "p": 1.0}

    def spoil_batch(self, i, batch):
        past, seen = batch["insample_y"], batch["outsample_mask"]
        y = torch.cat((past, batch["outsample_y"]), 1)
        waves = torch.fft.rfft(y)
        size = waves.abs()
        size[:, 0] = 0.0
        kept = torch.ones_like(size).scatter(
            1, size.topk(self.s.count, 1).indices, 0.0)
        y = torch.fft.irfft(waves * kept, y.shape[1])
        ahead = past.shape[1]
        return batch | {"insample_y": y[:, :ahead].contiguous(),
                        "outsample_y": y[:, ahead:] * seen}

    def spoil_val(self, batch):
        return batch


class RestoredByTail(OfForecaster):
    """Forecasts get back the mean and spread of the last steps alone, as these
    are nearest, in validation as well; the window lost its own. How these
    differ has to be found out anew for each."""
    id = "U205"
    severities = (dict(steps=8), dict(steps=4), dict(steps=2))

    def setup(self):
        super().setup()
        self.user["revin_denorm_window"] = self.s.steps

    def make_model(self):
        model = super().make_model()
        model.restored_by = lambda past, mean, spread: model.statistics(
            past[:, -self.s.steps:])
        return model


class TargetsSmoothed(OfLoss):
    """What is to be forecast is smoothed before the loss sees it, by an
    exponential average that begins in the past, and so comes late; validation
    has it as it is."""
    id = "U206"
    severities = (dict(alpha=0.5), dict(alpha=0.3), dict(alpha=0.1))

    def setup(self):
        super().setup()
        self.user["target_smoothing_alpha"] = self.s.alpha

    def of_forecasts(self, said, wanted, seen, batch):
        y = torch.cat((batch["insample_y"], wanted), 1)
        level, smooth = y[:, 0], []
        for now in y.unbind(1):
            level = level + self.s.alpha * (now - level)
            smooth.append(level)
        smooth = torch.stack(smooth, 1)[:, -wanted.shape[1]:]
        return ((said - smooth).abs() * seen).sum() / seen.sum()


FAULTS = (LagsForgiven, DirectionsAlone, ForecastsBounded, SeasonsMasked,
          RestoredByTail, TargetsSmoothed)
