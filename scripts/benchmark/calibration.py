"""How often a cause is right that is said with some log-odds: a line in the log-odds, by logistic regression."""

import math


def sigmoid(z):
    """Without a power that overflows, however far z is from 0."""
    if z >= 0:
        return 1 / (1 + math.exp(-z))
    power = math.exp(z)
    return power / (1 + power)


def misfit(points, slope, offset):
    """Minus the log-likelihood of (log-odds, right, weight) points."""
    total = 0.0
    for x, right, weight in points:
        z = slope * x + offset
        total += weight * (max(z, 0.0) + math.log1p(math.exp(-abs(z))) - right * z)
    return total


def logistic(points):
    """Slope and offset of the log-odds of being right, of (log-odds said, right) pairs.

    One cause more than was seen keeps the two finite where what is right and what is wrong lie apart, and is a weak
    ridge to slope 1 and offset 0: half of it is said at log-odds of 2 and half at -2, each as often right as said.
    Newton's method, each step halved until the misfit falls and no longer falls more, since a whole one may go astray.
    """
    points = [(x, right, 1.0) for x, right in points] + [(x, sigmoid(x), 0.5) for x in (2.0, -2.0)]
    slope, offset = 1.0, 0.0
    least = misfit(points, slope, offset)
    for _ in range(200):
        gradient, hessian = [0.0, 0.0], [0.0, 0.0, 0.0]
        for x, right, weight in points:
            p = sigmoid(slope * x + offset)
            gradient[0] += weight * (p - right) * x
            gradient[1] += weight * (p - right)
            bend = weight * p * (1 - p)
            hessian[0] += bend * x * x
            hessian[1] += bend * x
            hessian[2] += bend
        determinant = hessian[0] * hessian[2] - hessian[1] ** 2
        if determinant <= 0:
            break  # only by rounding, where all points are told for sure
        steps = ((hessian[2] * gradient[0] - hessian[1] * gradient[1]) / determinant,
                 (hessian[0] * gradient[1] - hessian[1] * gradient[0]) / determinant)
        share, best = 1.0, least
        while share > 1e-9:
            loss = misfit(points, slope - share * steps[0], offset - share * steps[1])
            if best < least and loss >= best:
                break  # the one before was the best
            best = min(best, loss)
            share /= 2
        if best >= least:
            break  # nothing near is less
        slope, offset, least = slope - 2 * share * steps[0], offset - 2 * share * steps[1], best
    return slope, offset
