#!/usr/bin/python3
"""Looks at the page of a running file system in a real browser: what it shows is what `tidefs status` says, a wrong token
shows nothing, it fits screens from 320 to 1,920 pixels in light and in dark, is used with the keyboard alone, and every
control has a name for a screen reader.  It asks no other host for anything.

    page.py --tidefs PROGRAM [--pictures DIR]
"""

import argparse
import base64
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.parse
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys

# All that sticks out, for the message.
WIDE = """
return [...document.querySelectorAll("body *")].filter((it) => it.getBoundingClientRect().right > innerWidth + 1)
  .map((it) => it.tagName + "#" + it.id).slice(0, 10)
"""
WIDTHS = (320, 768, 1280, 1920)
SCHEMES = ("light", "dark")
WAIT_SECONDS = 60
# Of text to what is behind it, as WCAG 2 asks of ordinary text.
CONTRAST_LEAST = 4.5
# A picture of one colour has fewer bytes.
PICTURE_BYTES_LEAST = 8_000

# For each element with text of its own that is shown: its contrast, and whether it is cut off.
TEXTS = """
const light = (rgb) => {
  const part = (v) => (v /= 255) <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  return 0.2126 * part(rgb[0]) + 0.7152 * part(rgb[1]) + 0.0722 * part(rgb[2]);
};
const numbers = (colour) => colour.match(/[\\d.]+/g).map(Number);
const behind = (element) => {
  for (let it = element; it; it = it.parentElement) {
    const rgb = numbers(getComputedStyle(it).backgroundColor);
    if (rgb.length < 4 || rgb[3] > 0) return rgb;
  }
  return [255, 255, 255];
};
const found = [];
for (const element of document.querySelectorAll("body *")) {
  const own = [...element.childNodes].some((it) => it.nodeType === 3 && it.textContent.trim());
  if (!own || !element.checkVisibility() || element.closest("svg")) continue;
  const place = element.getBoundingClientRect();
  const head = element.closest("thead");
  if (head && getComputedStyle(head).position === "absolute") continue;
  const [a, b] = [light(numbers(getComputedStyle(element).color)), light(behind(element))];
  found.push({
    text: element.textContent.trim().slice(0, 40),
    contrast: (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05),
    outside: place.right > innerWidth + 1 || place.left < -1,
  });
}
return found;
"""


class Instance:
    """A file system with some files and one or two nodes, and its page."""

    def __init__(self, tidefs: Path, scratch: Path):
        self.command = [tidefs, "--state", scratch / "state"]
        self.mount = scratch / "mount"
        nodes = ["--nodes", "1..2", "--policy", "static", "--node-memory", "64MiB"]
        self.tell("up", "--mount", self.mount, "--metrics", "0", *nodes)
        for name, files, size in (("large", 3, 1 << 20), ("small", 2, 1 << 10), ("large/deep", 2, 1 << 20)):
            (self.mount / name).mkdir()
            for number in range(files):
                (self.mount / name / str(number)).write_bytes(os.urandom(size))
        metrics = self.status()["metrics"]
        self.page, self.token = metrics["page"], Path(metrics["page_token_file"]).read_text().strip()

    def tell(self, *words: object) -> str:
        done = subprocess.run([*self.command, *words], stdout=subprocess.PIPE, check=True, timeout=120)
        return done.stdout.decode()

    def status(self) -> dict:
        return json.loads(self.tell("status", "--json"))


class Looker:
    """A browser with the page."""

    def __init__(self, scratch: Path):
        options = webdriver.ChromeOptions()
        options.binary_location = "/usr/bin/chromium"
        # As root there is no sandbox; what is looked at is our own.
        for word in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu", f"--user-data-dir={scratch}/browser"):
            options.add_argument(word)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        service = Service("/usr/bin/chromedriver")
        self.driver = webdriver.Chrome(options=options, service=service)
        self.driver.set_page_load_timeout(WAIT_SECONDS)

    def text(self, name: str) -> str:
        return self.driver.execute_script("return document.getElementById(arguments[0]).innerText", name)

    def until(self, what: str, holds) -> None:
        end = time.monotonic() + WAIT_SECONDS
        while not holds():
            if time.monotonic() > end:
                raise AssertionError(f"not {what}: {self.driver.find_element(By.TAG_NAME, 'body').text}")
            time.sleep(0.1)

    def press(self, *keys: str) -> None:
        webdriver.ActionChains(self.driver).send_keys(*keys).perform()

    def focused(self) -> str:
        return self.driver.execute_script(
            "const it = document.activeElement; return it.id || it.innerText || it.tagName"
        )

    def screen(self, width: int, scheme: str) -> None:
        size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        media = {"features": [{"name": "prefers-color-scheme", "value": scheme}]}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def lets_in_with_the_token_only(looker: Looker, instance: Instance) -> None:
    """With the keyboard: the field has the focus."""
    looker.driver.get(instance.page)
    looker.until("asked for a token", lambda: looker.focused() == "token")
    looker.press("not the token", Keys.ENTER)
    looker.until("refused", lambda: "not the token" in looker.text("login-error"))
    if looker.driver.find_element(By.ID, "live").is_displayed() or looker.text("mount"):
        raise AssertionError("somebody without the token is shown something")
    looker.press(instance.token, Keys.ENTER)
    shows(looker, instance)
    where = looker.driver.execute_script("return location.href")
    if instance.token in where or instance.token in looker.driver.page_source:
        raise AssertionError("the token is in the address or in the page")


def shows(looker: Looker, instance: Instance) -> None:
    """What `status` says."""
    looker.until("live", lambda: looker.text("mount") == str(instance.mount))
    nodes = instance.status()["nodes"]
    looker.until("all nodes", lambda: rows(looker, "nodes") == len(nodes))
    for node in nodes:
        if node["endpoint"] not in looker.text("nodes"):
            raise AssertionError(f"no {node['endpoint']} in {looker.text('nodes')}")
    looker.until("the number of nodes", lambda: f"Nodes\n{len(nodes)}\n" in looker.text("figures") + "\n")
    looker.until("the files that were made", lambda: "Files made\n7" in looker.text("figures"))


def rows(looker: Looker, table: str) -> int:
    return len(looker.driver.find_elements(By.CSS_SELECTOR, f"#{table} tbody tr"))


def opens_from_an_address(looker: Looker, instance: Instance) -> None:
    """With the token behind `#`, which goes to no server and does not stay."""
    looker.driver.execute_script("sessionStorage.clear()")
    looker.driver.get("about:blank")
    looker.driver.get(f"{instance.page}#{urllib.parse.urlencode({'token': instance.token})}")
    shows(looker, instance)
    if instance.token in looker.driver.execute_script("return location.href"):
        raise AssertionError("the token stays in the address")


def fits(looker: Looker, pictures: Path | None) -> None:
    for width in WIDTHS:
        for scheme in SCHEMES:
            looker.screen(width, scheme)
            # The chart follows, and so do colours.
            looker.until("drawn", lambda: looker.driver.execute_script(
                "const it = document.querySelector('#history svg'); return it && it.viewBox.baseVal.width === it.parentElement.clientWidth"))
            picture = looker.driver.execute_cdp_cmd("Page.captureScreenshot", {"captureBeyondViewport": True})
            picture = base64.b64decode(picture["data"])
            if len(picture) < PICTURE_BYTES_LEAST:
                raise AssertionError(f"{width} pixels, {scheme}: a picture of {len(picture)} bytes")
            if pictures:
                (pictures / f"{width}-{scheme}.png").write_bytes(picture)
            wide = looker.driver.execute_script("return document.documentElement.scrollWidth")
            texts = looker.driver.execute_script(TEXTS)
            wrong = [it for it in texts if it["outside"] or it["contrast"] < CONTRAST_LEAST]
            if wide > width or wrong or len(texts) < 20:
                raise AssertionError(f"{width} pixels, {scheme}: {wide} wide, {len(texts)} texts, wrong: {wrong}, {looker.driver.execute_script(WIDE)}")


def is_used_with_keys(looker: Looker) -> None:
    looker.driver.execute_script("document.activeElement.blur(); scrollTo(0, 0)")
    reached = []
    while len(reached) < 30 and (not reached or looker.focused() != "BODY"):
        looker.press(Keys.TAB)
        outline = looker.driver.execute_script("return getComputedStyle(document.activeElement).outlineStyle")
        reached.append(looker.focused())
        if reached[-1] != "BODY" and outline == "none":
            raise AssertionError(f"nobody sees that {reached[-1]} has the focus")
        if reached[-1] == "history":
            moves_through_time(looker)
        if reached[-1] == "large/":
            looker.press(Keys.ENTER)
            looker.until("in the directory", lambda: "deep/" in looker.text("tree") and looker.focused() == "large")
            break
    if not {"history", "look", "large/"} <= set(reached):
        raise AssertionError(f"the keyboard reaches {reached}")
    back = webdriver.ActionChains(looker.driver).key_down(Keys.SHIFT).send_keys(Keys.TAB).key_up(Keys.SHIFT)
    back.send_keys(Keys.ENTER).perform()
    looker.until("back", lambda: "small/" in looker.text("tree"))


def moves_through_time(looker: Looker) -> None:
    now = looker.text("history-value")
    looker.press(Keys.HOME)
    first = looker.text("history-value")
    looker.press(Keys.ARROW_RIGHT, Keys.ARROW_RIGHT)
    later = looker.text("history-value")
    looker.press(Keys.ESCAPE)
    if not now.startswith("Now") or not first.startswith("0 s after the start") or later == first or not looker.text("history-value").startswith("Now"):
        raise AssertionError(f"the chart says {now!r}, {first!r}, {later!r}")


def lists_by_memory(looker: Looker) -> None:
    names = [it.text for it in looker.driver.find_elements(By.CSS_SELECTOR, "#tree tbody button")]
    if names != ["large/", "small/"] or "7 files" not in looker.text("tree-sum"):
        raise AssertionError(f"the tree is {names}, {looker.text('tree-sum')!r}")


def is_heard(looker: Looker) -> None:
    """Whoever cannot see it hears a name for all that can be reached, and finds headings, tables and what is live."""
    tree = looker.driver.execute_cdp_cmd("Accessibility.getFullAXTree", {})["nodes"]
    shown = [it for it in tree if not it.get("ignored")]
    role = lambda it: it.get("role", {}).get("value")
    name = lambda it: it.get("name", {}).get("value", "")
    focusable = lambda it: any(p["name"] == "focusable" and p["value"]["value"] for p in it.get("properties", []))
    nameless = [role(it) for it in shown if focusable(it) and role(it) != "RootWebArea" and not name(it).strip()]
    roles = {role(it) for it in shown}
    headings = [name(it) for it in shown if role(it) == "heading"]
    if nameless or not {"heading", "table", "columnheader", "rowheader", "status", "navigation", "main"} <= roles:
        raise AssertionError(f"without a name: {nameless}; roles: {sorted(map(str, roles))}")
    if headings[0].split()[0] != "Tidefs" or len(headings) < 5:
        raise AssertionError(f"headings: {headings}")
    images = [name(it) for it in shown if role(it) in ("image", "img")]
    if not any("used on" in it for it in images):
        raise AssertionError(f"what the chart shows is not said: {images}")


def is_live(looker: Looker, instance: Instance) -> None:
    """A node comes, with the decision and its reason; then the file system ends."""
    instance.tell("scale", "2")
    looker.until("two nodes", lambda: rows(looker, "nodes") == 2)
    decided = lambda: looker.driver.find_elements(By.CSS_SELECTOR, "#decisions li .why")
    looker.until("a decision with its reason", lambda: decided() and all(it.text for it in decided()))
    (instance.mount / "more").write_bytes(os.urandom(1 << 20))
    looker.until("the new file", lambda: "Files made\n8" in looker.text("figures"))
    look = looker.driver.find_element(By.ID, "look")
    look.click()
    looker.until("the new file in the tree", lambda: "more" in looker.text("tree"))
    instance.tell("down")
    looker.until("told of the end", lambda: looker.text("connection").startswith("No answer"))


def asks_nobody_else(looker: Looker, instance: Instance) -> None:
    names = looker.driver.execute_script("return performance.getEntries().map((it) => it.name)")
    hosts = {urllib.parse.urlsplit(it).netloc for it in names if "://" in it}
    own = urllib.parse.urlsplit(instance.page).netloc
    if hosts != {own}:
        raise AssertionError(f"it asks {hosts}, and its own is {own}")
    # That it was refused once is its own business.
    errors = [it for it in looker.driver.get_log("browser") if it["level"] == "SEVERE" and "401" not in it["message"]]
    if errors:
        raise AssertionError(f"the browser complains: {errors}")


def check(tidefs: Path, pictures: Path | None, scratch: Path) -> None:
    instance = Instance(tidefs, scratch)
    try:
        looker = Looker(scratch)
        try:
            lets_in_with_the_token_only(looker, instance)
            opens_from_an_address(looker, instance)
            lists_by_memory(looker)
            fits(looker, pictures)
            is_heard(looker)
            is_used_with_keys(looker)
            asks_nobody_else(looker, instance)
            is_live(looker, instance)
        finally:
            looker.driver.quit()
    finally:
        subprocess.run([*instance.command, "down"], capture_output=True, timeout=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--tidefs", type=Path, required=True)
    parser.add_argument("--pictures", type=Path, help="a directory for pictures of the page")
    options = parser.parse_args()
    if options.pictures:
        options.pictures.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="page", dir="/tmp") as scratch:
        check(options.tidefs.resolve(), options.pictures, Path(scratch))
    print(f"page: looked at {len(WIDTHS) * len(SCHEMES)} screens in {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    sys.exit(main())
