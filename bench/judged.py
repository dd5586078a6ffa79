"""The goals of several mounts and of small files, and how a run is shown."""

import statistics
from collections.abc import Callable, Iterator

OPERATIONS = ("create", "stat", "read", "unlink")
# What is judged over what, for each operation: at least so much of its rate.
RATES = [
    *[(store, "null", {"create": 0.6, "read": 0.7, "stat": 1.0, "unlink": 0.9}) for store in ("one", "embedded")],
    *[(f"{store} four", "null four", {"create": 0.5}) for store in ("one", "embedded")],
    ("idle", "one", dict.fromkeys(OPERATIONS, 0.9)),
    ("taken over", "one", dict.fromkeys(OPERATIONS, 0.7)),
    ("looked at", "together", {"create": 0.5, "unlink": 0.5}),
    ("four mounts apart", "one four", {"create": 1.0}),
    ("four mounts", "one four", {"create": 0.5}),
    ("looked at", "GlusterFS looked at", {"create": 2.0, "unlink": 2.0}),
    ("looked at", "MooseFS looked at", {"create": 2.0, "unlink": 2.0}),
]
# Shown beside them: is it the processor that the kernel chooses?
SHOWN = [
    (f"{subject} pinned", "null pinned", dict.fromkeys(OPERATIONS, None)) for subject in ("one", "embedded")
]
# Microseconds of all that serves, on one mount and one node.
PROCESSOR_US = {"create": 250, "read": 90}
# Of a node, for each file.
REPLIES = {"one": {"unpack": 1.5}, "idle": {"create": 1.5, "unpack": 1.5}}
JOINS_MS = {"the second": 100, "another": 100, "sixteen at once": 1000}
HANDS_MS = {"median": 2, "99th": 10}


def percentile(values: list[float], part: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(part * len(ordered)))]


# A value of each round, and the bound: at least or at most.
Goal = tuple[str, list[float], Callable[[float, float], bool], float]


def goals(rounds: list[dict]) -> Iterator[Goal]:
    def at_least(value: float, bar: float) -> bool:
        return value >= bar

    def at_most(value: float, bar: float) -> bool:
        return value <= bar

    def each(who: str, operation: str, what: str) -> list[float]:
        return [it["figures"][who][operation][what] for it in rounds]

    measured = rounds[0]["figures"]
    for who, over, bars in [it for it in RATES + SHOWN if it[0] in measured and it[1] in measured]:
        for operation, bar in bars.items():
            pairs = zip(each(who, operation, "rate"), each(over, operation, "rate"))
            yield f"{operation}: {who} over {over}", [own / floor for own, floor in pairs], at_least, bar
    for operation, bar in PROCESSOR_US.items():
        yield f"{operation}: processor, us", each("one", operation, "processor_us"), at_most, bar
    for who, bars in REPLIES.items():
        for operation, bar in bars.items():
            yield f"{operation}: {who}, replies", each(who, operation, "replies"), at_most, bar
    for act in ("stat", "create"):
        for what, bar in HANDS_MS.items():
            part = {"median": 0.5, "99th": 0.99}[what]
            taken = [percentile(it["hands_ms"][act], part) for it in rounds]
            yield f"first {act} of a directory that changed hands, {what}, ms", taken, at_most, bar
    for who, bar in JOINS_MS.items():
        yield f"joining, {who}, ms", [it["join_ms"][who] for it in rounds], at_most, bar


def judge(rounds: list[dict]) -> list[dict]:
    """The median of the rounds is judged; what has no bar is only shown."""
    judged = []
    for name, values, meets, bar in goals(rounds):
        middle = statistics.median(values)
        met = bar is None or meets(middle, bar)
        sign = "at least" if meets(1, 0) else "at most"
        goal = f"{name}: {middle:.3g}" + ("" if bar is None else f", {sign} {bar}")
        judged.append({"goal": goal, "median": middle, "min": min(values), "max": max(values), "met": met})
    return judged


def show(rounds: list[dict], judged: list[dict]) -> None:
    """Medians of the rounds."""
    print(f"{'':20}{'':8}{'1/s':>10}{'min':>9}{'max':>9}{'processor us':>14}{'replies':>9}")
    for who, operations in rounds[0]["figures"].items():
        for operation in operations:
            figures = [it["figures"][who][operation] for it in rounds]
            rates = [it["rate"] for it in figures]
            rest = [statistics.median(it[what] for it in figures) for what in ("processor_us", "replies")]
            middle = statistics.median(rates)
            print(f"{who:20}{operation:8}{middle:10.0f}{min(rates):9.0f}{max(rates):9.0f}{rest[0]:14.1f}{rest[1]:9.2f}")
    for who in rounds[0]["rest"]:
        rest = [it["rest"][who] for it in rounds]
        percent, replies = (
            statistics.median(it[what] for it in rest) for what in ("processor_percent", "replies_per_second")
        )
        print(f"{who} at rest: {percent:.2f} % of a processor, {replies:.0f} replies a second")
    for it in judged:
        mark = "" if it["met"] else "  MISSED"
        print(f"{it['goal']} ({it['min']:.3g} to {it['max']:.3g}){mark}")
