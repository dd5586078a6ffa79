#!/usr/bin/env python3
"""What a scrape of metrics each second costs, and what browsers with the page do: processor time of the process that
serves them, while nobody asks and while somebody does, as parts of one processor. All else that runs on the machine
makes it noisy.

    scraping.py --tidefs PROGRAM [--seconds 20] [--every 1] [--nodes 2] [--browsers 5]
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidefs", required=True)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--every", type=float, default=1)
    parser.add_argument("--nodes", type=int, default=2)
    parser.add_argument("--browsers", type=int, default=5, help="that show the page")
    return parser.parse_args()


def asked(url, token_file):
    token = Path(token_file).read_text()
    return urllib.request.Request(url, headers={"Authorization": f"Bearer {token}"})


class Instance:
    """A file system that is there until the block ends."""

    def __init__(self, tidefs, nodes):
        self.folder = tempfile.TemporaryDirectory(prefix="scraping")
        path = Path(self.folder.name)
        self.command = [tidefs, "--state", str(path / "state")]
        options = ["--mount", str(path / "mount"), "--metrics", "0"]
        nodes = ["--nodes", f"{nodes}..{nodes + 1}", "--policy", "static", "--node-memory", "64MiB"]
        self.tell("up", *options, *nodes)
        metrics = json.loads(self.tell("status", "--json"))["metrics"]
        self.metrics = asked(metrics["url"], metrics["token_file"])
        # A browser asks for it once a second.
        self.live = asked(f"{metrics['page']}live.json", metrics["page_token_file"])
        notes = (path / "state/up/mounts").glob("*.json")
        self.server = json.loads(next(notes).read_text())["owner"]["pid"]

    def tell(self, *words):
        said = subprocess.run([*self.command, *words], stdout=subprocess.PIPE, check=True)
        return said.stdout.decode()

    def scrape(self):
        return size(self.metrics)

    def look(self, browsers):
        for _ in range(browsers):
            size(self.live)

    def processor_seconds(self):
        fields = Path(f"/proc/{self.server}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.tell("down")
        self.folder.cleanup()


def size(request):
    with urllib.request.urlopen(request, timeout=10) as answer:
        return len(answer.read())


def part(instance, options, what):
    """Of a processor, in percent, over the time that is asked for."""
    begun, before = time.monotonic(), instance.processor_seconds()
    while (passed := time.monotonic() - begun) < options.seconds:
        what()
        time.sleep(max(0, min(options.every, options.seconds - passed)))
    return 100 * (instance.processor_seconds() - before) / (time.monotonic() - begun)


# Many at once show what the clock's steps of 10 ms hide.
MANY = 5000


def each(instance, request):
    """Bytes, and microseconds of processor time."""
    begun = instance.processor_seconds()
    for _ in range(MANY):
        told = size(request)
    return told, 1e6 * (instance.processor_seconds() - begun) / MANY


def main():
    options = arguments()
    with Instance(options.tidefs, options.nodes) as instance:
        idle = part(instance, options, lambda: None)
        asked = part(instance, options, instance.scrape)
        looked_at = part(instance, options, lambda: instance.look(options.browsers))
        scrape, look = each(instance, instance.metrics), each(instance, instance.live)
    load = os.getloadavg()[0]
    print(f"load of the machine {load:.1f}")
    print(f"nobody asks: {idle:.2f} % of a processor over {options.seconds:.0f} s")
    print(f"a scrape every {options.every:g} s: {asked:.2f} %")
    print(f"{options.browsers} browsers that ask every {options.every:g} s: {looked_at:.2f} %")
    print(f"{MANY} on end: a scrape of {scrape[0]} bytes {scrape[1]:.0f} us, a look of {look[0]} bytes {look[1]:.0f} us")
    return 0


if __name__ == "__main__":
    sys.exit(main())
