"""How often a cause is right that is said with some log-odds: a beta calibration curve.

Kull, Silva Filho, Flach: Beta calibration (AISTATS 2017). The log-odds of being right are
`high * -log(1 - p) + low * log(p) + offset`: a line of slope `low` far below even odds, of slope `high` far above, bent
between them. One slope does not do: small probabilities come out too large and large ones too large as well.
"""

import math

# Slopes and offset that leave every probability as it is.
START = 1.0, 1.0, 0.0


def sigmoid(z):
    """Without a power that overflows, however far z is from 0."""
    if z >= 0:
        return 1 / (1 + math.exp(-z))
    power = math.exp(z)
    return power / (1 + power)


def softplus(z):
    """log(1 + e^z): of log-odds minus the log of the probability against."""
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


def terms(x):
    """What the parameters (low, high, offset) are multiplied by at log-odds of x."""
    return -softplus(-x), softplus(x), 1.0


def misfit(points, curve):
    """Minus the log of how well a curve agrees with (terms, right) points and with START."""
    total = sum((c - start) ** 2 for c, start in zip(curve, START)) / 2
    for at, right in points:
        z = sum(c * t for c, t in zip(curve, at))
        total += softplus(z) - right * z
    return total


def slopes(points, curve):
    """Gradient and second derivatives of the misfit."""
    gradient = [c - start for c, start in zip(curve, START)]
    bends = [[1.0 if i == j else 0.0 for j in range(3)] for i in range(3)]
    for at, right in points:
        p = sigmoid(sum(c * t for c, t in zip(curve, at)))
        for i in range(3):
            gradient[i] += (p - right) * at[i]
            for j in range(3):
                bends[i][j] += p * (1 - p) * at[i] * at[j]
    return gradient, bends


def solve(matrix, right):
    """x of matrix x = right, of a symmetric matrix that is positive definite, by elimination."""
    rows = [[*row, value] for row, value in zip(matrix, right)]
    for i, row in enumerate(rows):
        for other in rows[i + 1:]:
            share = other[i] / row[i]
            other[i:] = [b - share * a for a, b in zip(row[i:], other[i:])]
    out = [0.0] * len(rows)
    for i in reversed(range(len(rows))):
        known = sum(a * b for a, b in zip(rows[i][i + 1:-1], out[i + 1:]))
        out[i] = (rows[i][-1] - known) / rows[i][i]
    return out


def fit(points):
    """(low, high, offset) of (log-odds said, right) pairs.

    Each is taken to be about 1 from START, the curve that changes nothing: some hundred causes overrule that, and some
    few, or such as lie apart, leave the curve near it. Newton's method, each step halved until the misfit falls and no
    longer falls more, since a whole one may go astray.
    """
    points = [(terms(x), right) for x, right in points]
    curve = list(START)
    least = misfit(points, curve)
    for _ in range(200):
        gradient, bends = slopes(points, curve)
        steps = solve(bends, gradient)
        share, best, found = 1.0, least, None
        while share > 1e-9:
            tried = [c - share * s for c, s in zip(curve, steps)]
            loss = misfit(points, tried)
            if found and loss >= best:
                break  # the one before was the best
            if loss < best:
                best, found = loss, tried
            share /= 2
        if not found:
            break  # nothing near is less
        curve, least = found, best
    return tuple(curve)


def apply(curve, p):
    """The calibrated form of a probability; certain ones stay as they are."""
    if not 0 < p < 1:
        return p
    low, high, offset = curve
    return sigmoid(low * math.log(p) - high * math.log1p(-p) + offset)
