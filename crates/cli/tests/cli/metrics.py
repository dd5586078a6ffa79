"""Scrapes metrics, reads them as strictly as OpenMetrics is written down, and compares them with what
`tidefs status --json` says. Prints what is wrong and ends with 1.

    metrics.py TIDEFS        of the file system that `tidefs status` finds
"""

import contextlib
import json
import socket
import stat
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

from prometheus_client.openmetrics.parser import text_string_to_metric_families

# As many as are served at once, and some.
HANGING = 10


def status(tidefs):
    said = subprocess.run([tidefs, "status", "--json"], stdout=subprocess.PIPE, check=True)
    return json.loads(said.stdout)


def settled(tidefs):
    """The status, once the manager, if there is one, has looked at every node."""
    end = time.monotonic() + 20
    while True:
        said = status(tidefs)
        seen = all(node["received_bytes"] is not None for node in said["nodes"])
        if seen or not said["nodes_may_change"]:
            return said
        assert time.monotonic() < end, said
        time.sleep(0.1)


def ask(url, token=None, method="GET"):
    """Status, type and text."""
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    request = urllib.request.Request(url, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.headers["Content-Type"], answer.read().decode()
    except urllib.error.HTTPError as refusal:
        return refusal.code, refusal.headers["Content-Type"], refusal.read().decode()


def refusals(url, token):
    for shown, path, method, code, word in [
        (None, "", "GET", 401, "token_file"),
        (token[:-1], "", "GET", 401, "not the token"),
        (token + "0", "", "GET", 401, "not the token"),
        (token, "/more", "GET", 404, "/metrics"),
        (token, "", "DELETE", 405, "read only"),
    ]:
        said = ask(url + path, shown, method)
        assert said[0] == code and word in said[2], (shown, path, method, said)
        assert len(said[2].splitlines()) == 1, said


def page_rights(metrics, token):
    """Whoever has the token of metrics learns no names of files; who has the page's learns both."""
    file = Path(metrics["page_token_file"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.stat()
    page = file.read_text().strip()
    assert page != token
    for path, code in (("live.json", 403), ("tree", 403), ("metrics", 200)):
        said = ask(metrics["page"] + path, token)
        assert said[0] == code and (code == 200 or "page_token_file" in said[2]), (path, said)
        assert ask(metrics["page"] + path, page)[0] == 200, path


def scrape(url, token):
    """The values of each sample, by name and labels."""
    code, media, text = ask(url, token)
    assert code == 200, text
    assert media == "application/openmetrics-text; version=1.0.0; charset=utf-8", media
    found = {}
    for family in text_string_to_metric_families(text):
        assert family.name.startswith("tidefs_") and family.documentation, family
        assert family.type in ("counter", "gauge", "histogram", "info"), family
        for sample in family.samples:
            found[sample.name, tuple(sorted(sample.labels.items()))] = sample.value
    return found


def node(found, name, number):
    values = [
        value for (of, labels), value in found.items() if of == name and ("node", number) in labels
    ]
    assert len(values) <= 1, values
    return values[0] if values else None


def compare(before, found, after):
    assert len(before["nodes"]) == len(after["nodes"])
    for then, now in zip(before["nodes"], after["nodes"]):
        number = str(then["number"])
        for key, name in [
            ("memory_used_bytes", "tidefs_node_memory_used_bytes"),
            ("memory_capacity_bytes", "tidefs_node_memory_capacity_bytes"),
            ("partitions", "tidefs_node_partitions"),
            ("keys", "tidefs_node_keys"),
            ("received_bytes", "tidefs_node_received_bytes_total"),
            ("sent_bytes", "tidefs_node_sent_bytes_total"),
        ]:
            value, known = node(found, name, number), (then[key], now[key])
            if None in known:
                assert value is None and known == (None, None), (name, value, known)
            elif key == "memory_used_bytes":
                assert abs(value - known[0]) < known[0] / 10, (name, value, known)
            else:
                assert min(known) <= value <= max(known), (name, value, known)
    nodes = {labels: value for (name, labels), value in found.items() if name == "tidefs_nodes"}
    up = nodes[("class", "own"), ("state", "up")]
    assert up == sum(nodes.values()) == len(after["nodes"]), nodes
    ranges = [value for (name, _), value in found.items() if name.endswith("_duration_seconds_count")]
    assert len(ranges) == 2 and max(ranges) > 0, "requests were served"


def hanging(url, token):
    """A scrape is answered while clients hang, and those are cut off."""
    parts = urllib.parse.urlsplit(url)
    with contextlib.ExitStack() as stack:
        clients = [
            stack.enter_context(socket.create_connection((parts.hostname, parts.port), 20))
            for _ in range(HANGING)
        ]
        clients[0].sendall(b"GET /metrics HTTP/1.1\r\nX: ")
        assert ask(url, token)[0] == 200
        for client in clients:
            while client.recv(4096):
                pass


def main():
    tidefs = sys.argv[1]
    before = settled(tidefs)
    metrics = before["metrics"]
    url, file = metrics["url"], Path(metrics["token_file"])
    assert stat.S_IMODE(file.stat().st_mode) == 0o600, file.stat()
    token = file.read_text().strip()
    refusals(url, token)
    page_rights(metrics, token)
    # Metrics are those of the last look, at most a tenth of a second ago on an idle machine.
    time.sleep(0.5)
    found = scrape(url, token)
    compare(before, found, status(tidefs))
    hanging(url, token)
    totals = {name: value for (name, labels), value in found.items() if not labels}
    labelled = {
        f"{name}{{{','.join(value for _, value in labels)}}}": value
        for (name, labels), value in found.items()
        if name in ("tidefs_reconfigurations_total", "tidefs_decisions_total")
    }
    print(json.dumps({"url": url, **totals, **labelled}))


main()
