# SPDX-License-Identifier: Apache-2.0
#
# Values to medians, ratios and tables. A bundle is compared with the best of
# the other engines of the same run, never with a number from elsewhere.
import os
import statistics
from collections import defaultdict
from pathlib import Path
from typing import NamedTuple


class Metric(NamedTuple):
    key: str
    title: str
    higher_is_better: bool
    scale: float  # of the printed value
    per_prompt: bool


METRICS = [
    Metric("decode_ms_per_token", "decode ms", False, 1, True),
    Metric("prefill_tokens_per_s", "prefill tok/s", True, 1, True),
    Metric("latency_ms", "latency ms", False, 1, False),
    Metric("load_ms", "load ms", False, 1, False),
    Metric("first_token_ms", "first ms", False, 1, False),
    Metric("peak_rss_bytes", "RSS MB", False, 1e-6, False),
]


def write_beside(path: Path, text: str) -> None:
    """Written whole or not at all."""
    beside = path.with_name(path.name + ".part")
    beside.write_text(text)
    os.replace(beside, path)


def shown(value: float) -> str:
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


class Column(NamedTuple):
    metric: Metric
    prompt: int | None

    def title(self) -> str:
        return f"{self.metric.title} @{self.prompt}" if self.metric.per_prompt and self.prompt else self.metric.title


class Results:
    def __init__(self, threads: int):
        self.threads = threads
        self.generated = 0
        self.machines: list[dict] = []
        self.bundles: list[str] = []
        self.profiles: dict[str, dict] = {}  # of bundles
        # label -> prompt (None: single runs) -> key -> one value per round
        self.values: dict[str, dict[int | None, dict[str, list[float]]]] = {}

    def add_machine(self, machine: dict) -> None:
        self.machines.append(machine)

    def add(self, label: str, bundle: bool, row: dict) -> None:
        if bundle and label not in self.bundles:
            self.bundles.append(label)
        cell = self.values.setdefault(label, {}).setdefault(row.get("prompt"), defaultdict(list))
        for metric in METRICS:
            if metric.key in row:
                cell[metric.key].append(float(row[metric.key]))

    def columns(self) -> list[Column]:
        prompts = sorted({prompt for cells in self.values.values() for prompt in cells if prompt is not None})
        columns = []
        for metric in METRICS:
            places = prompts if metric.per_prompt and prompts else [prompts[-1] if prompts else None]
            for place in places:
                if any(metric.key in cells.get(place, {}) for cells in self.values.values()):
                    columns.append(Column(metric, place))
        return columns

    def series(self, label: str, column: Column) -> list[float]:
        values = self.values[label].get(column.prompt, {}).get(column.metric.key, [])
        return [value * column.metric.scale for value in values]

    def median(self, label: str, column: Column) -> float | None:
        values = self.series(label, column)
        return statistics.median(values) if values else None

    def best_peer(self, column: Column) -> tuple[float, str] | None:
        others = [(self.median(label, column), label) for label in self.values if label not in self.bundles]
        others = [(value, label) for value, label in others if value is not None]
        if not others:
            return None
        return max(others) if column.metric.higher_is_better else min(others)

    def speedup(self, label: str, column: Column) -> float | None:
        """How many times better than the best other engine; above 1 is better."""
        value, best = self.median(label, column), self.best_peer(column)
        if value is None or best is None or not value or not best[0]:
            return None
        return value / best[0] if column.metric.higher_is_better else best[0] / value

    def machine_median(self, key: str) -> float:
        return statistics.median(machine[key] for machine in self.machines)

    def bandwidth(self) -> float:
        """Bytes per second."""
        return max(self.machine_median("read_bandwidth_bytes_per_s"), self.machine_median("large_page_read_bandwidth_bytes_per_s"))

    def bytes_per_token(self, label: str) -> float | None:
        """What all kernels of one decoded token read and write, at the longest prompt. The profile counts whole operands, so
        where rows of a table are looked up, what memory can give in the kernel's time is the most that counts."""
        measured = self.profiles.get(label)
        rows = measured["profile"].get("decode") if measured else None
        if not rows or not self.generated:
            return None
        machine = measured["machine"]
        per_us = max(machine["read_bandwidth_bytes_per_s"], machine["large_page_read_bandwidth_bytes_per_s"]) / 1e6
        return sum(min(row["bytes_per_call"], row["us_per_call"] * per_us) * row["calls"] for row in rows) / self.generated

    def bound_ms(self, label: str) -> float | None:
        """The time that memory needs for a token's bytes."""
        read = self.bytes_per_token(label)
        return read / self.bandwidth() * 1e3 if read else None

    def of_bound(self, label: str) -> float | None:
        columns = [column for column in self.columns() if column.metric.key == "decode_ms_per_token"]
        bound = self.bound_ms(label)
        value = self.median(label, columns[-1]) if columns else None
        return bound / value if bound and value else None

    def heading(self, title: str) -> str:
        machine = self.machines[-1]
        reads = [max(m["read_bandwidth_bytes_per_s"], m["large_page_read_bandwidth_bytes_per_s"]) / 1e9 for m in self.machines]
        return (
            f"{title or 'benchmark'}: {self.threads} threads, {len(self.machines)} rounds, medians (least to most)\n"
            f"{machine['cpu']}, {machine['isa']}; reads {statistics.median(reads):.1f} GB/s ({min(reads):.1f} to {max(reads):.1f}), "
            f"computes {self.machine_median('f32_flops_per_s') / 1e9:.0f} Gflop/s in f32"
        )

    def table(self, title: str) -> str:
        columns = self.columns()
        rows = [["engine", *(column.title() for column in columns)]]
        if any(self.of_bound(label) for label in self.bundles):
            rows[0].append("of bandwidth")
        for label in self.values:
            row = [label]
            for column in columns:
                values = self.series(label, column)
                if not values:
                    row.append("-")
                    continue
                text = f"{shown(statistics.median(values))} ({shown(min(values))} to {shown(max(values))})"
                best = self.best_peer(column)
                if best and best[1] == label:
                    text = f"**{text}**"
                if label in self.bundles and (speedup := self.speedup(label, column)):
                    text += f" x{speedup:.2f}"
                row.append(text)
            if len(rows[0]) > len(row):
                share = self.of_bound(label)
                row.append(f"{share * 100:.0f} %" if share else "-")
            rows.append(row)
        rows.insert(1, ["---"] * len(rows[0]))
        lines = ["| " + " | ".join(row) + " |" for row in rows]
        notes = "Bold: the best of the others. x: how many times better than that (above 1 is better)."
        return "\n".join(["", self.heading(title), "", *lines, "", notes])

    def document(self, title: str) -> dict:
        """Everything, for machines."""
        rows = []
        for label in self.values:
            for column in self.columns():
                values = self.series(label, column)
                if not values:
                    continue
                rows.append(
                    {
                        "engine": label,
                        "metric": column.metric.key,
                        "prompt": column.prompt,
                        "median": statistics.median(values) / column.metric.scale,
                        "values": [value / column.metric.scale for value in values],
                        "times_better_than_best_peer": self.speedup(label, column) if label in self.bundles else None,
                    }
                )
        bounds = {label: {"bytes_per_token": self.bytes_per_token(label), "of_bandwidth": self.of_bound(label)} for label in self.bundles}
        return {"title": title, "threads": self.threads, "machines": self.machines, "results": rows, "bounds": bounds, "profiles": self.profiles}
