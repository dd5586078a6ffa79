#!/usr/bin/env python3
"""Installs each package into a Debian root of its own that has nothing but Debian's base, no compiler and no
network, runs workflows on mounts there, and removes it again: nothing may be left.

Says how long it takes from an empty root to the end of the first workflow, without downloads.
"""

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

from roots import OrdinaryUser, Root, empty_root, mirror_and_suite

HERE = Path(__file__).resolve().parent
#: From an empty Debian to the first workflow, without downloads.
GOAL_SECONDS = 120

# Copies, lists, checks and packs files on the mount, as a workflow of scripts does.
WORKFLOW = """set -e
cd "$TIDEFS_MOUNT"
cp -r /etc . 2>/dev/null || true  # an ordinary user may not read all of it
find . -type f ! -name sums | sort | xargs -d '\\n' sha256sum > sums
sha256sum --quiet -c sums
tar cf - etc | gzip > etc.tgz && gzip -t etc.tgz
head -c 50000000 /dev/zero | tee zeros | sha256sum > one && sha256sum < zeros | cmp - one
echo "$(wc -l < sums) files"
"""
# A service in memory that is rescaled with the library of the wheel.
RESCALED = """
from tidefs_rescale import Bucket, Change, Inventory, Server, rescale
class Shelves:
    place = {f"bucket-{at}": "one" for at in range(10)}
    servers = {"one"}
    def inventory(self):
        buckets = [Bucket(name, server, 100) for name, server in self.place.items()]
        return Inventory([Server(name) for name in self.servers], buckets)
    def start(self, server):
        self.servers.add(server)
    def move(self, bucket, from_server, to_server):
        self.place[bucket] = to_server
    def stop(self, server):
        self.servers.remove(server)
print("complete:", rescale(Shelves(), Change([Server("two")], ["one"])).complete, Shelves.servers)
"""
FIRST = 'tidefs run --quiet -- sh /workflow'


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--packages", type=Path, required=True, help="what packaging/build made")
    parser.add_argument("--work", type=Path, default=HERE.parent / "target" / "packages" / "roots")
    parser.add_argument("--suite", help="of Debian (default: this machine's)")
    parser.add_argument("--kind", action="append", choices=sorted(KINDS), help="only these (default: all)")
    options = parser.parse_args()

    mirror, suite = mirror_and_suite()
    suite = options.suite or suite
    work, packages = options.work.resolve(), options.packages.resolve()
    empty = empty_root(work, suite, mirror)
    for kind in options.kind or sorted(KINDS):
        root = Root.copy_of(empty, work / f"{suite}-{kind}")
        (root.path / "workflow").write_text(WORKFLOW)
        for compiler in ("cc", "gcc", "clang", "cargo", "rustc"):
            assert root.ask(f"command -v {compiler} || true") == "", f"the root has {compiler}"
        seconds = KINDS[kind](root, packages)
        verdict = "" if seconds <= GOAL_SECONDS else f", more than {GOAL_SECONDS}"
        print(f"{suite}, {kind}: {seconds:.1f} s from an empty root to the first workflow{verdict}", flush=True)
        shutil.rmtree(root.path)


def of_deb(root: Root, packages: Path) -> float:
    (package,) = packages.glob("*.deb")
    shutil.copy(package, root.path / "tidefs.deb")
    install = "apt-get install -qq -y --no-install-recommends /tidefs.deb"
    root.online(f"apt-get update -qq && {install} --download-only")
    before = root.files()
    start = time.monotonic()
    root.offline(f"{install} >/dev/null 2>&1 && {FIRST}")
    seconds = time.monotonic() - start

    check_program(root, "/usr/bin/tidefs", "/usr/lib/tidefs/valkey-server")
    check_ordinary_user(root)
    check_settings(root)
    for path in (
        "man/man1/tidefs.1.gz",
        "man/man1/tidefs-run.1.gz",
        "bash-completion/completions/tidefs",
        "zsh/vendor-completions/_tidefs",
        "fish/vendor_completions.d/tidefs.fish",
        "doc/tidefs/examples/shelves.c",
        "../include/tidefs_rescale.h",
        "../lib/libtidefs_rescale.so",
    ):
        assert (root.path / "usr/share" / path).is_file(), path
    check_units(root)
    check_plugin(root)
    # An upgrade while a file system runs: it goes on, and is stopped with the new program.
    root.offline(f"tidefs up --nodes 1..2 --node-memory 64MiB --policy static --mount /m && echo one > /m/file "
                 f"&& {install} --reinstall >/dev/null 2>&1 && tidefs scale 2 && cat /m/file && tidefs down")
    # It is not taken away from under one.
    said = root.offline("tidefs up --mount /m >&2; if apt-get purge -qq -y tidefs 2>&1; then echo REMOVED; fi; "
                        "tidefs down >&2")
    assert "REMOVED" not in said and "What they hold would be lost" in said, said
    root.offline("apt-get purge -qq -y --autoremove tidefs >/dev/null 2>&1")
    nothing_left(root, before)
    return seconds


def of_wheel(root: Root, packages: Path) -> float:
    wheels = root.path / "wheels"
    shutil.copytree(packages, wheels, ignore=lambda _, names: [it for it in names if not it.endswith(".whl")])
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "-q"]
    subprocess.run([*pip, "download", "-d", wheels, "fsspec"], check=True)
    root.online("apt-get update -qq && apt-get install -qq -y --no-install-recommends python3-venv fuse3 >/dev/null 2>&1")
    pip = "/env/bin/pip --disable-pip-version-check -q"
    start = time.monotonic()
    root.offline("python3 -m venv /env && . /env/bin/activate && "
                 f"{pip} install --no-index --find-links /wheels tidefs && {FIRST}")
    seconds = time.monotonic() - start
    check_program(root, "/env/bin/tidefs", "/env/lib/tidefs/valkey-server")
    said = root.offline("""/env/bin/python - <<'END'
import fsspec, tidefs
with tidefs.run(nodes=2, node_memory="64MiB") as fs:
    assert "valkey 9." in fs.status().store, fs.status().store
    (fs.mount / "a").write_text("written")
    with fsspec.open("tidefs://a", "rt", mount=str(fs.mount)) as file:
        print(file.read())
END""")
    assert "written" in said, said
    # The library is a wheel of its own, and needs neither the program nor anything else.
    root.offline(f"{pip} uninstall -y tidefs fsspec && {pip} install --no-index --find-links /wheels tidefs-rescale")
    said = root.offline(f"""/env/bin/python - <<'END'
{RESCALED}
END""")
    assert "complete: True" in said, said
    root.offline(f"{pip} uninstall -y tidefs-rescale")
    left = root.ask("find /env -iname '*tidefs*' ! -name '*.pyc'; ls -A /env/share/man/man1 2>/dev/null || true")
    assert left == "", left
    return seconds


def of_archive(root: Root, packages: Path) -> float:
    (package,) = packages.glob("*.tar.gz")
    shutil.copy(package, root.path / "tidefs.tar.gz")
    before = root.files()
    start = time.monotonic()
    # Root mounts by itself, without fuse3.
    root.offline(f"mkdir /opt/t && tar xf /tidefs.tar.gz -C /opt/t --strip-components=1 && PATH=/opt/t/bin:$PATH && {FIRST}")
    seconds = time.monotonic() - start
    check_program(root, "/opt/t/bin/tidefs", "/opt/t/lib/tidefs/valkey-server")
    root.offline("rm -r /opt/t")
    nothing_left(root, before)
    return seconds


def of_container(root: Root, packages: Path) -> float:
    """By rootless Podman: an ordinary user's, with no right on this machine but to open /dev/fuse."""
    with OrdinaryUser() as user:
        shutil.copytree(packages / "container", user.home / "container")
        root.pack(user.home / "base.tar")
        user.podman("import base.tar localhost/debian")
        start = time.monotonic()
        user.podman("build --isolation chroot --build-arg BASE=localhost/debian -t localhost/tidefs container")
        given = "run --rm --network none --device /dev/fuse --cap-add SYS_ADMIN localhost/tidefs run --quiet"
        user.podman(f"{given} -- sh /workflow")
        seconds = time.monotonic() - start
        user.podman(f"{given} --nodes 2 --node-memory 128MiB -- sh /workflow")
    return seconds


KINDS = {"deb": of_deb, "wheel": of_wheel, "archive": of_archive, "container": of_container}


def check_program(root: Root, program: str, server: str) -> None:
    """The packaged server serves, on fixed nodes and while they come and go, with TLS too."""
    said = root.offline(f"{program} --version --json")
    assert f'"path": "{server}"' in said and '"warning": null' in said, said
    assert '"commit": null' not in said, said
    root.offline(f"{program} run --quiet --nodes 2 --node-memory 128MiB -- sh /workflow")
    root.offline(f"{program} run --quiet --nodes 1..3 --node-memory 64MiB --policy nso+asi -- sh /workflow")
    root.offline(f"{program} run --quiet --nodes 2 --node-memory 128MiB --listen 127.0.0.1:0 -- sh /workflow")
    said = root.offline(f"{program} up --nodes 1 --node-memory 64MiB --mount /m >&2; {program} list; {program} down >&2; "
                        f"{program} list")
    assert "valkey 9" in said and "mount  /m" in said and "nothing runs here" in said, said
    said = root.ask(f"{program} doctor || true")
    assert "MISSING  server" not in said and server in said, said


def check_ordinary_user(root: Root) -> None:
    said = root.offline("su -s /bin/sh nobody -c 'cd /tmp && HOME=/tmp tidefs run --quiet --nodes 2 --node-memory 128MiB "
                        "-- sh /workflow'")
    assert "files" in said, said


def check_settings(root: Root) -> None:
    """What the administrator's file sets counts, and what is wrong in it is said."""
    settings = root.path / "etc" / "tidefs.toml"
    shutil.copy(root.path / "usr/share/doc/tidefs/examples/tidefs.toml", settings)
    said = root.offline("tidefs run --quiet -- sh -c 'echo $TIDEFS_MOUNT'")
    assert said.strip().endswith("/tide"), said
    settings.write_text(settings.read_text().replace("#mount", "mount").replace("/scratch/tide", "/elsewhere"))
    said = root.offline("tidefs run --quiet -- sh -c 'echo $TIDEFS_MOUNT'")
    assert said.strip() == "/elsewhere", said
    settings.write_text('[storage]\nnode-memory = "lots"\n')
    said = root.ask("tidefs run -- true 2>&1; echo $?")
    assert "/etc/tidefs.toml, line 2: " in said and said.strip().endswith("2"), said
    settings.unlink()


def check_plugin(root: Root) -> None:
    """What Slurm's controller reads, and where the manual says that it is."""
    for name in ("burst_buffer.lua", "burst_buffer.conf"):
        assert "TIDEFS" in (root.path / "usr/share/doc/tidefs/examples/slurm" / name).read_text()


def check_units(root: Root) -> None:
    """There is no systemd in the root: the commands of its units do what they should."""
    for unit, name in (("tidefs.service", None), ("tidefs@.service", "fast")):
        text = (root.path / "usr/lib/systemd/system" / unit).read_text().replace("%i", name or "")
        lines = dict(line.split("=", 1) for line in text.splitlines() if "=" in line)
        variables = ""
        if name:
            (root.path / "etc/tidefs").mkdir()
            (root.path / "etc/tidefs" / f"{name}.toml").write_text('[up]\nnodes = 2\nnode-memory = "64MiB"\n')
            variables = f"export {lines['Environment']}; "
        said = root.offline(f"{variables}{lines['ExecStart']} >&2; {lines['ExecStop'].replace('down', 'status')}; "
                            f"{lines['ExecStop']}")
        assert (" 2 " if name else "embedded") in said.replace("\n", " ") and "/srv/tidefs" in said, said
        if name:
            shutil.rmtree(root.path / "etc/tidefs")


def nothing_left(root: Root, before: set) -> None:
    left = sorted(root.files() - before)
    assert not left, f"left behind: {left}"


if __name__ == "__main__":
    main()
