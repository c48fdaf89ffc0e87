"""The reliability diagram as a small SVG: what was predicted against how often it was right."""

from benchmark import estimates

SIZE, LEFT, TOP, PLOT = (560, 420), 60, 30, 320
COLOURS = {"dev": "#888888", "held out": "#0060b0"}


def x(p):
    return LEFT + p * PLOT


def y(p):
    return TOP + (1 - p) * PLOT


def reliability(curves):
    """SVG of {name: reliability bins}; a point a bin, its area by the number of causes, with the 95 % interval."""
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {SIZE[0]} {SIZE[1]}" font-family="sans-serif" '
           'font-size="12">',
           f'<rect width="{SIZE[0]}" height="{SIZE[1]}" fill="white"/>',
           f'<rect x="{LEFT}" y="{TOP}" width="{PLOT}" height="{PLOT}" fill="none" stroke="#444444"/>',
           f'<line x1="{x(0)}" y1="{y(0)}" x2="{x(1)}" y2="{y(1)}" stroke="#bbbbbb" stroke-dasharray="4 4"/>']
    for i in range(0, 11, 2):
        p = i / 10
        out.append(f'<text x="{x(p):.0f}" y="{y(0) + 18:.0f}" text-anchor="middle">{p:.1f}</text>')
        out.append(f'<text x="{LEFT - 8}" y="{y(p) + 4:.0f}" text-anchor="end">{p:.1f}</text>')
    out.append(f'<text x="{x(.5):.0f}" y="{y(0) + 40:.0f}" text-anchor="middle">predicted probability of a cause'
               '</text>')
    out.append(f'<text x="16" y="{y(.5):.0f}" text-anchor="middle" transform="rotate(-90 16 {y(.5):.0f})">'
               'share right</text>')
    for row, (name, bins) in enumerate(curves.items()):
        colour = COLOURS.get(name, "#000000")
        most = max((n for _, n, _, _ in bins), default=1)
        points = []
        for _, n, predicted, hits in bins:
            right = estimates.wilson(hits, n)
            points.append(f"{x(predicted):.1f},{y(right.value):.1f}")
            out.append(f'<line x1="{x(predicted):.1f}" y1="{y(right.low):.1f}" x2="{x(predicted):.1f}" '
                       f'y2="{y(right.high):.1f}" stroke="{colour}"/>')
            out.append(f'<circle cx="{x(predicted):.1f}" cy="{y(right.value):.1f}" r="{2 + 5 * (n / most) ** .5:.1f}" '
                       f'fill="{colour}"/>')
        out.append(f'<polyline points="{" ".join(points)}" fill="none" stroke="{colour}"/>')
        at = TOP + 14 + 18 * row
        out.append(f'<circle cx="{x(1) + 20}" cy="{at - 4}" r="5" fill="{colour}"/>')
        out.append(f'<text x="{x(1) + 32}" y="{at}">{name}, {sum(b[1] for b in bins)} causes</text>')
    return "\n".join(out) + "\n</svg>\n"
