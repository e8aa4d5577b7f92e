"""The table of the trained models: each beside the better of its peers, and the means of all."""

import collections
import math
import statistics

import cases

PEERS = ["onnxruntime", "openvino"]
# Targets: the row of the means -> a bound, and whether higher is better.
TARGETS = {"steady": (1.0, True), "slowest": (0.7, True), "cold": (3.0, False), "warm": (1.0, False)}
HEAD = ["model", "kind", "Doorbell ms", "onnxruntime ms", "OpenVINO ms", "ratio", "cold s", "warm s",
        "onnxruntime s", "OpenVINO s", "MB", "onnxruntime MB", "OpenVINO MB"]


def mean(ratios):
    return math.exp(statistics.fmean(map(math.log, ratios)))


def figure(x):
    return f"{x:.0f}" if x >= 100 else f"{x:.3g}"


class Results:
    """Values by contender, model, row and round; and the reasons for missing ones."""

    def __init__(self):
        self.values = collections.defaultdict(dict)
        self.missing = {}

    def take(self, turn, who, name, rows):
        for row in rows:
            if "missing" in row:
                self.missing[who, name] = row["missing"]
            else:
                self.values[who, name, row["name"][len(name) + 1:]][turn] = row["value"]

    def shown(self, who, name, row):
        got = self.values.get((who, name, row))
        return figure(statistics.median(got.values())) if got else ""

    def ratio(self, name, row, peers, over=None):
        """The time of the fastest of some peers divided by ours, median of the rounds."""
        ours, some = self.values.get(("doorbell", name, row), {}), []
        for turn, value in ours.items():
            theirs = [self.values[p, name, over or row][turn] for p in peers
                      if turn in self.values.get((p, name, over or row), {})]
            if theirs:
                some.append(min(theirs) / value)
        return statistics.median(some) if some else None

    def names(self):
        seen = {name for _, name, *_ in [*self.values, *self.missing]}
        return [name for name in cases.ZOO if name in seen]

    def steady(self):
        """The time of the faster peer divided by ours, by model."""
        return {n: self.ratio(n, cases.STEADY, PEERS) for n in self.names()}

    def table(self):
        names, steady = self.names(), self.steady()
        lines = ["| " + " | ".join(HEAD) + " |", "|---|---|" + "---:|" * (len(HEAD) - 2)]
        for n in names:
            def of(row, *who):
                return [self.shown(w, n, row) for w in who]
            own, (ort, vino) = "doorbell", PEERS
            lines.append("| " + " | ".join([
                n, cases.facts(n)["kind"], *of(cases.STEADY, own, ort, vino),
                f"{steady[n]:.2f}x" if steady[n] else "", *of(cases.COLD, own), *of(cases.WARM, own),
                *of(cases.COLD, ort, vino), *of(cases.MEMORY, own, ort, vino)]) + " |")
        known = [r for r in steady.values() if r]
        # First results are compared with ONNX Runtime's only: our time divided by its time.
        first = {state: [1 / r for n in names if (r := self.ratio(n, row, PEERS[:1]))]
                 for state, row in (("cold", cases.COLD), ("warm", cases.WARM))}
        rows = []
        if known:
            least = min((r, n) for n, r in steady.items() if r)
            rows.append(("steady", "steady, geometric mean of the ratios", mean(known)))
            rows.append(("slowest", f"steady, the lowest ratio ({least[1]})", least[0]))
        for state, times in first.items():
            if times:
                rows.append((state, f"first result {state}, geometric mean of times relative to onnxruntime's", mean(times)))
        failed = [n for n in names if ("doorbell", n) in self.missing]
        lines += ["", "| all | | target | |", "|---|---:|---:|---|"]
        for key, text, value in rows:
            bound, more = TARGETS[key]
            # A model that does not run is slower than any bound.
            good = not failed and (value >= bound if more else value <= bound)
            side = "at least" if more else "at most"
            lines.append(f"| {text} | {value:.2f}x | {side} {bound:g}x | {'met' if good else '**not met**'} |")
        notes = [f"- {who} does not run {n}: {why}." for (who, n), why in sorted(self.missing.items())]
        return "\n".join(lines + ([""] + notes if notes else []))


TEXT = """
## Zoo

Trained models that packages ship as files (`scripts/zoo list`), with realistic inputs, on
two threads, in 32-bit floats where the model uses them. *ratio* is the time of the faster peer divided by
ours; *cold* is the time to the first result with an empty compile cache, *warm* with the cache of the previous
run, both from the start of the process; a peer's is from loading the model. Memory is the peak of
the process.

"""
