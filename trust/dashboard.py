#!/usr/bin/env python3
"""Runs every query of the Grafana dashboard against a real Prometheus that scrapes a real file system which
grows meanwhile. A query that is refused, or that finds nothing, fails. Grafana itself is not started.

    dashboard.py --tidefs PROGRAM [--dashboard FILE]
"""

import argparse
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

DASHBOARD = Path(__file__).resolve().parent.parent / "packaging/grafana/tidefs.json"
# What a query is given by Grafana; the last is long enough for scrapes of one second.
VARIABLES = {"$__rate_interval": "5s", "$instance": ".*", "$job": ".*"}
# Nothing has this name, so a query of it must be noticed.
ABSENT = "sum(tidefs_no_such_metric)"
WAIT_SECONDS = 40


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidefs", required=True)
    parser.add_argument("--dashboard", type=Path, default=DASHBOARD)
    options = parser.parse_args()
    panels = json.loads(options.dashboard.read_text())["panels"]
    queries = [(panel["title"], it["expr"]) for panel in panels for it in panel["targets"]]
    with tempfile.TemporaryDirectory(prefix="dashboard") as folder:
        wrong = judged(os.path.abspath(options.tidefs), Path(folder), queries)
    for line in wrong:
        print(line, file=sys.stderr)
    print(f"{len(queries) - len(wrong)} of {len(queries)} queries in {len(panels)} panels found something")
    return 1 if wrong or not queries else 0


def judged(tidefs, folder, queries):
    """What is wrong, a line each."""
    command = [tidefs, "--state", str(folder / "state")]

    def tell(*words):
        return subprocess.run([*command, *words], stdout=subprocess.PIPE, check=True, timeout=60).stdout

    mount = folder / "mount"
    nodes = ["--nodes", "1..3", "--policy", "static", "--node-memory", "64MiB"]
    tell("up", "--mount", str(mount), "--metrics", "0", *nodes)
    prometheus = None
    try:
        prometheus, address = scraping(folder, json.loads(tell("status", "--json"))["metrics"])
        tell("scale", "2")
        deadline = time.monotonic() + WAIT_SECONDS
        while True:
            # Rates need something that goes on.
            (mount / "file").write_bytes(os.urandom(1 << 20))
            (mount / "file").read_bytes()
            found = [(title, query, answer(address, query)) for title, query in queries]
            wrong = [f"{title}: {query}: {why}" for title, query, why in found if why]
            if not wrong or time.monotonic() > deadline:
                break
            if prometheus.poll() is not None:
                return [f"Prometheus has ended: {(folder / 'log').read_text()}"]
            time.sleep(1)
        if answer(address, ABSENT) is None:
            wrong.append("a metric that does not exist was found: the test sees nothing")
        return wrong
    finally:
        if prometheus is not None:
            prometheus.terminate()
            prometheus.wait(30)
        tell("down")


def scraping(folder, metrics):
    """A Prometheus that scrapes the file system each second, and its address."""
    url = urllib.parse.urlsplit(metrics["url"])
    job = {
        "job_name": "tidefs",
        "metrics_path": url.path,
        "authorization": {"credentials_file": metrics["token_file"]},
        "static_configs": [{"targets": [url.netloc]}],
    }
    interval = {"scrape_interval": "1s", "scrape_timeout": "1s"}
    # JSON is YAML.
    (folder / "prometheus.yml").write_text(json.dumps({"global": interval, "scrape_configs": [job]}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{free.getsockname()[1]}"
    words = [f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    with open(folder / "log", "w") as log:
        started = subprocess.Popen(
            ["prometheus", *words, f"--web.listen-address={address}"], stdout=log, stderr=log
        )
    return started, address


def answer(address, query):
    """Why a query is no good; None when it finds something that is a number."""
    for name, value in VARIABLES.items():
        query = query.replace(name, value)
    asked = f"http://{address}/api/v1/query?" + urllib.parse.urlencode({"query": query})
    try:
        with urllib.request.urlopen(asked, timeout=10) as said:
            rows = json.load(said)["data"]["result"]
    except urllib.error.HTTPError as error:
        return f"refused: {error.read().decode(errors='replace')}"
    except OSError as error:
        return f"no answer: {error}"
    if not any(row["value"][1] != "NaN" for row in rows):
        return "nothing is found"
    return None


if __name__ == "__main__":
    sys.exit(main())
