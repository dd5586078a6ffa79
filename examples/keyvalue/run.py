#!/usr/bin/env python3
"""Rescales a service of plain key-value servers while clients use it, and says what that cost.

Servers come and go by the plans of `tidefs_rescale`; buckets are moved by the service. Each client knows what it
must find, and in the end every key is looked up. Balance and time are held against what `tidefs plan bench` says
for as many servers and buckets. Fails where a key is lost or old, or a figure is worse than it may be.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

import tidefs_rescale as rescale
from breaking import Breaking
from buckets import name_of
from clients import START_SECONDS, Seen, first_values, key_of, run, value_of
from service import KeyValueService

#: Rescalings of `tidefs plan bench`, of which the middle one counts.
BENCH_RUNS = 10
#: A server starts in a second and is listed in less, unless the machine is very busy.
CALLBACK_SECONDS = 120
#: A client that does not end is one that hangs.
END_SECONDS = 120


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tidefs", required=True, help="the program, for its `plan bench`")
    parser.add_argument("--buckets", type=int, default=20_000)
    parser.add_argument("--servers", type=int, default=8, help="before and after")
    parser.add_argument("--most", type=int, default=32, help="servers in between")
    parser.add_argument("--keys", type=int, default=200_000)
    parser.add_argument("--clients", type=int, default=2)
    parser.add_argument("--rate", type=float, default=1_000, help="operations a second, of each client")
    parser.add_argument("--weigh", type=float, default=10, help="seconds for which loads are counted before a change")
    parser.add_argument("--between", type=float, default=3, help="seconds from one inventory to the next")
    parser.add_argument("--at-once", type=int, default=2, help="moves that a server sends at a time, and receives")
    parser.add_argument("--above", type=float, default=5, help="per cent that a figure may be above `plan bench`")
    parser.add_argument("--seed", type=int, default=1, help="which servers go is drawn from this")
    parser.add_argument("--breaking", action="store_true", help="some moves are broken off, and a newcomer dies")
    options = parser.parse_args()

    # Whoever ends this run gets the servers ended as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended from outside"))
    scratch = Path(tempfile.mkdtemp(prefix="buckets-"))
    kind = Breaking if options.breaking else KeyValueService
    service = kind(scratch, options.buckets, options.clients)
    try:
        return Example(options, scratch, service).run()
    finally:
        service.end()
        shutil.rmtree(scratch)


class Example:
    def __init__(self, options: argparse.Namespace, scratch: Path, service: KeyValueService) -> None:
        self.options, self.scratch, self.service = options, scratch, service
        self.random = random.Random(options.seed)
        self.wrong: list[str] = []

    def run(self) -> int:
        options = self.options
        for number in range(options.servers):
            self.service.start(f"server:{number}")
        self.service.fill(first_values(self.service.routes, options.keys))
        context = multiprocessing.get_context("spawn")
        begin, stop, results = context.Barrier(options.clients + 1), context.Event(), context.Queue()
        places = [(self.scratch, options.buckets, options.keys, me, options.clients) for me in range(options.clients)]
        processes = [context.Process(target=run, args=(it, options.rate, begin, stop, results)) for it in places]
        for process in processes:
            process.start()
        try:
            begin.wait(START_SECONDS)
            more = [f"server:{number}" for number in range(options.servers, options.most)]
            self.change(rescale.Change(start=[rescale.Server(name) for name in more]))
            names = sorted(self.service.living())
            self.change(rescale.Change(stop=self.random.sample(names, len(names) - options.servers)))
            stop.set()
            seen = [results.get(timeout=END_SECONDS) for _ in processes]
            for process in processes:
                process.join(END_SECONDS)
        finally:
            # Nobody reads what a client has to say after a failure, so it might not end by itself.
            for process in processes:
                process.kill()
                process.join()
        self.judge(seen)
        for what in self.wrong:
            print(f"WRONG: {what}", file=sys.stderr)
        print("wrong" if self.wrong else f"all {options.keys} keys are there, each with its last value")
        return 1 if self.wrong else 0

    def change(self, change: rescale.Change) -> None:
        self.service.weigh(self.options.weigh)
        self.service.closed.clear()
        before = len(self.service.living())
        settings = rescale.Settings(
            between_inventories=self.options.between,
            moves_per_server=self.options.at_once,
            start_within=CALLBACK_SECONDS,
            inventory_within=CALLBACK_SECONDS,
        )
        outcome = rescale.rescale(self.service, change, settings)
        mended = self.service.mend()
        self.tell(before, len(self.service.living()), outcome)
        self.wrong += self.service.unexpected(outcome)
        if mended and not self.options.breaking:
            self.wrong.append(f"{mended} buckets were left half moved")
        self.compare(before, outcome, change)

    def tell(self, before: int, after: int, outcome: rescale.Outcome) -> None:
        closed = self.service.closed
        times = f"{statistics.median(closed) * 1e3:.1f} ms, at most {max(closed) * 1e3:.0f} ms" if closed else "no time"
        moved = outcome.after.buckets_moved
        print(
            f"{before} to {after} servers, {self.options.buckets} buckets: {moved} moved with "
            f"{outcome.after.bytes_moved / 1e6:.1f} MB in {outcome.seconds:.1f} s, {moved / outcome.seconds:.0f} a second; "
            f"closed for {times}",
            flush=True,
        )

    def compare(self, before: int, outcome: rescale.Outcome, change: rescale.Change) -> None:
        bench = self.bench(before, change)
        for name, here, there in (
            ("load balance", outcome.after.load_balance, bench["load_balance"]),
            ("data balance", outcome.after.data_balance, bench["data_balance"]),
            ("time over the least", outcome.after.seconds / outcome.least.seconds, bench["duration_ratio"]),
        ):
            above = (here / there["p50"] - 1) * 100
            print(f"  {name:<20} {here:.4f}, and {there['p50']:.4f} by plan bench ({above:+.2f} %)", flush=True)
            # A newcomer that died makes another change than was asked for.
            if above > self.options.above and outcome.complete:
                self.wrong.append(f"{name} is {above:.2f} % above plan bench")

    def bench(self, before: int, change: rescale.Change) -> dict:
        kind, count = ("--commission", len(change.start)) if change.start else ("--decommission", len(change.stop))
        words = [self.options.tidefs, "plan", "bench", "--json", "--servers", str(before), kind, str(count)]
        words += ["--buckets", str(self.options.buckets), "--warmup", "5", "--runs", str(BENCH_RUNS)]
        said = subprocess.run(words, check=True, capture_output=True, text=True).stdout
        return json.loads(said)["strategies"][0]

    def judge(self, seen: list[Seen]) -> None:
        """What clients found, and what lies on the servers in the end."""
        versions: dict[int, int] = {}
        for client in seen:
            self.wrong += client.findings
            versions.update(client.versions)
        print(
            f"clients: {sum(it.operations for it in seen)} operations, {sum(it.moved for it in seen)} asked again where a "
            f"bucket had gone, {sum(it.closed for it in seen)} where it was closed; the slowest took "
            f"{max(it.slowest for it in seen) * 1e3:.0f} ms"
        )
        held: dict[bytes, list[bytes]] = {}
        for buckets in self.service.living().values():
            listed = buckets.listed()
            self.wrong += [f"{name} is {state}" for name, _, state in listed if state != "open"]
            whole = buckets.client.pipeline(transaction=False)
            for name, _, _ in listed:
                whole.hgetall(name)
            for field, value in (pair for fields in whole.execute() for pair in fields.items()):
                held.setdefault(bytes(field), []).append(bytes(value))
        held.pop(b"state", None)
        lost = old = 0
        for number in range(self.options.keys):
            values = held.pop(b"k:" + key_of(number), [])
            lost += not values
            old += any(value != value_of(number, versions.get(number, 0)) for value in values) or len(values) > 1
        if lost or old or held:
            self.wrong.append(f"{lost} keys are lost, {old} are old or twice there, {len(held)} are unknown")
        if not versions:
            self.wrong.append(f"nobody wrote anything, not even to {name_of(0)}")


if __name__ == "__main__":
    sys.exit(main())
