# SPDX-License-Identifier: Apache-2.0
#
# The two pictures: bars of the engines' speeds and a roofline of a bundle's
# kernels. Plain SVG text, so that no plotting package is needed.
import math
from html import escape

from report import shown

WIDTH = 760
ROW = 22
LABEL = 170
NOTE = 300  # beside the longest bar
INK, GRID, OURS, OTHERS = "#222", "#ddd", "#1b6ca8", "#9aa5b1"
KERNEL_SHARE = 0.01  # kernels with less of the time are left out of the roofline


def document(width: int, height: int, body: list[str]) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" font-family="sans-serif" font-size="12" fill="{INK}">'
    return "\n".join([head, '<rect width="100%" height="100%" fill="#fff"/>', *body, "</svg>", ""])


def text(x: float, y: float, value: str, anchor: str = "start", weight: str = "normal") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-weight="{weight}">{escape(value)}</text>'


def bars(results, title: str) -> str:
    """One group of bars per column that tells speed, ours in colour."""
    first, *rest = results.heading(title).split("\n")
    body, y = [text(10, 22, first, weight="bold")], 40
    for line in rest:
        body.append(text(10, y, line))
        y += 16
    speeds = ("decode_ms_per_token", "prefill_tokens_per_s", "latency_ms")
    for column in results.columns():
        if column.metric.key not in speeds:
            continue
        y += 26
        better = "more is better" if column.metric.higher_is_better else "less is better"
        body.append(text(10, y, f"{column.title()} ({better})", weight="bold"))
        measured = [(label, results.median(label, column)) for label in results.values]
        measured = [(label, value) for label, value in measured if value is not None]
        most = max(value for _, value in measured)
        for label, value in measured:
            y += ROW
            length = (WIDTH - LABEL - NOTE) * value / most
            colour = OURS if label in results.bundles else OTHERS
            body.append(text(LABEL - 8, y, label, anchor="end"))
            body.append(f'<rect x="{LABEL}" y="{y - 12}" width="{length:.1f}" height="15" fill="{colour}"/>')
            speedup = results.speedup(label, column) if label in results.bundles else None
            note = shown(value) + (f"  ({speedup:.2f} times as good as the best other)" if speedup else "")
            body.append(text(LABEL + length + 6, y, note))
        if column.metric.key == "decode_ms_per_token":
            for label in results.bundles:
                bound = results.bound_ms(label)
                if bound and column == [c for c in results.columns() if c.metric.key == column.metric.key][-1]:
                    y += ROW
                    body.append(text(LABEL, y, f"memory's limit for {label}: {shown(bound)} ms"))
    return document(WIDTH, y + 24, body)


class LogAxis:
    def __init__(self, low: float, high: float, start: float, end: float):
        self.low, self.high = math.floor(math.log10(low)), math.ceil(math.log10(high))
        self.start, self.end = start, end

    def at(self, value: float) -> float:
        place = (math.log10(value) - self.low) / max(1, self.high - self.low)
        return self.start + (self.end - self.start) * place

    def ticks(self) -> list[float]:
        return [10.0**power for power in range(self.low, self.high + 1)]


def roofline(results, title: str) -> str:
    """Kernels by operations per byte and per second, below what memory and arithmetic allow."""
    bandwidth, peak = results.bandwidth(), results.machine_median("f32_flops_per_s")
    points = []  # (name, intensity, speed, share of the time, phase)
    for label, measured in results.profiles.items():
        for phase, rows in measured["profile"].items():
            for row in rows:
                if row["flops_per_call"] > 0 and row["share"] >= KERNEL_SHARE:
                    speed = row["flops_per_call"] / row["us_per_call"] * 1e6
                    points.append((f"{label}, {phase}: {row['kernel']}", row["flops_per_call"] / row["bytes_per_call"], speed, row["share"]))
    height = 420 + 16 * len(points)
    x = LogAxis(min([0.1, *(p[1] for p in points)]), max([1000, *(p[1] for p in points)]), 70, WIDTH - 20)
    y = LogAxis(min([1e9, *(p[2] for p in points)]), max([peak, *(p[2] for p in points)]), 380, 60)
    body = [text(10, 22, f"{title or 'benchmark'}: kernels below the roofline", weight="bold")]
    for tick in x.ticks():
        body.append(f'<line x1="{x.at(tick):.1f}" x2="{x.at(tick):.1f}" y1="60" y2="380" stroke="{GRID}"/>')
        body.append(text(x.at(tick), 396, f"{tick:g}", anchor="middle"))
    for tick in y.ticks():
        body.append(f'<line x1="70" x2="{WIDTH - 20}" y1="{y.at(tick):.1f}" y2="{y.at(tick):.1f}" stroke="{GRID}"/>')
        body.append(text(64, y.at(tick) + 4, f"{tick / 1e9:g}", anchor="end"))
    body.append(text(10, 50, "Gflop/s"))
    body.append(text(WIDTH - 20, 412, "operations per byte", anchor="end"))
    ridge = peak / bandwidth
    low, high = 10.0**x.low, 10.0**x.high
    corner = f"{x.at(ridge):.1f},{y.at(peak):.1f}"
    start = max(low, 10.0**y.low / bandwidth)
    body.append(
        f'<polyline points="{x.at(start):.1f},{y.at(start * bandwidth):.1f} {corner} {x.at(high):.1f},{y.at(peak):.1f}" '
        f'fill="none" stroke="{INK}" stroke-width="2"/>'
    )
    for number, (name, intensity, speed, share) in enumerate(points, 1):
        px, py = x.at(intensity), y.at(speed)
        body.append(f'<circle cx="{px:.1f}" cy="{py:.1f}" r="{3 + 8 * math.sqrt(share):.1f}" fill="{OURS}" fill-opacity="0.5"/>')
        body.append(text(px, py + 4, str(number), anchor="middle"))
        limit = min(peak, intensity * bandwidth)
        body.append(text(20, 420 + 16 * number - 8, f"{number}  {name}: {share * 100:.0f} % of the time, {speed / limit * 100:.0f} % of the roofline"))
    return document(WIDTH, height, body)
