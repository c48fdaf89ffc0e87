"""Estimates with their uncertainty: shares, means over clusters, calibration.

Every number comes as an Estimate with a 95 % interval. Cases of one fault in one family resemble each other
(severities, loggers and dropped columns of one injected fault), so that what is no plain share is resampled by whole
clusters; the seed is fixed.
"""

import dataclasses
import math
import random

Z = 1.959963984540054  # 97.5 % point of the normal distribution
RESAMPLES = 1000
SEED = 9


@dataclasses.dataclass(frozen=True)
class Estimate:
    """A figure, its 95 % interval and the number of cases behind it; nan where there is none."""
    value: float
    low: float
    high: float
    n: int

    def text(self, digits=2):
        if not self.n or math.isnan(self.value):
            return "-"
        return f"{self.value:.{digits}f} ({self.low:.{digits}f} to {self.high:.{digits}f})"


NONE = Estimate(math.nan, math.nan, math.nan, 0)


def wilson(hits, n):
    """Share of `hits` among `n` with Wilson's score interval, which holds near 0 and 1 and for few cases too."""
    if not n:
        return NONE
    p = hits / n
    middle = (p + Z * Z / (2 * n)) / (1 + Z * Z / n)
    half = Z / (1 + Z * Z / n) * math.sqrt(p * (1 - p) / n + Z * Z / (4 * n * n))
    return Estimate(p, max(0.0, middle - half), min(1.0, middle + half), n)


def share(values):
    values = list(values)
    return wilson(sum(map(bool, values)), len(values))


def quantile(ordered, q):
    """By linear interpolation of a sorted list."""
    at = q * (len(ordered) - 1)
    below = math.floor(at)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (at - below) * (ordered[above] - ordered[below])


def bootstrap(clusters, figure, n):
    """`figure` of a list of clusters, with the interval of its values on resampled lists."""
    clusters = [clusters[key] for key in sorted(clusters)]
    if not clusters:
        return NONE
    draw = random.Random(SEED)
    values = sorted(figure(draw.choices(clusters, k=len(clusters))) for _ in range(RESAMPLES))
    return Estimate(figure(clusters), quantile(values, 0.025), quantile(values, 0.975), n)


def mean(pairs):
    """Mean of (cluster, value) with a bootstrap over clusters."""
    clusters, n = {}, 0
    for cluster, value in pairs:
        total = clusters.setdefault(cluster, [0.0, 0])
        total[0] += value
        total[1] += 1
        n += 1
    return bootstrap(clusters, lambda drawn: sum(c[0] for c in drawn) / sum(c[1] for c in drawn), n)


BINS = 10


def bin_of(p):
    """[0, .1) is 0, ..., [.9, 1] is 9. A hair is added so that 0.3 from a sum falls where it reads."""
    return min(BINS - 1, int(p * BINS + 1e-9))


def reliability(pairs):
    """(bin, n, mean prediction, hits) of every bin that has (p, right) pairs."""
    bins = [[0, 0.0, 0] for _ in range(BINS)]
    for p, right in pairs:
        one = bins[bin_of(p)]
        one[0] += 1
        one[1] += p
        one[2] += bool(right)
    return [(i, n, total / n, hits) for i, (n, total, hits) in enumerate(bins) if n]


def calibration_floor(predictions):
    """The calibration error that perfect predictions would show by chance, of as many causes with the same
    probabilities: each is made right with just its probability, again and again. (mean, 95 % of them are below)"""
    predictions = list(predictions)
    draw = random.Random(SEED)
    values = []
    for _ in range(RESAMPLES // 5 if predictions else 0):
        gaps = [0.0] * BINS
        for p in predictions:
            gaps[bin_of(p)] += p - (draw.random() < p)
        values.append(sum(map(abs, gaps)) / len(predictions))
    return (sum(values) / len(values), quantile(sorted(values), 0.95)) if values else (math.nan, math.nan)


def calibration_error(triples):
    """Expected calibration error of (cluster, p, right): the mean over all predictions of how far the share right in
    their bin is from the mean prediction in it."""
    clusters, n = {}, 0
    for cluster, p, right in triples:
        sums = clusters.setdefault(cluster, [[0.0, 0] for _ in range(BINS)])
        one = sums[bin_of(p)]
        one[0] += p - bool(right)  # |sum of p - sum of right| is n times the gap
        one[1] += 1
        n += 1

    def figure(drawn):
        gaps, count = [0.0] * BINS, 0
        for cluster in drawn:
            for i, (gap, members) in enumerate(cluster):
                gaps[i] += gap
                count += members
        return sum(map(abs, gaps)) / count
    return bootstrap(clusters, figure, n)
