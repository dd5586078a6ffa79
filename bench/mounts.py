#!/usr/bin/python3
"""Several mounts of one file system beside one, and a mount beside a FUSE layer that does nothing.

A round starts a file system with one node, works on its one mount, has others join, and works on those.
Each figure is a rate, the processor time of all that serves (mounts and nodes, not the programs) for each
operation, and how often the node has sent replies for it.  What is done after the answer, a moment later,
counts.  Ratios are taken within a round, and their median counts; the range stands beside it.

- `null`, `embedded`, `one`: one program on a layer that does nothing, the embedded store, a node; `... pinned`:
  it and all that serves it on one processor; `... four`: four programs in one directory.
- `together`: one program works and one lists and looks at the same directory without a pause, on one mount;
  `looked at`: the same with a mount each.
- `idle`: another mount is there and does nothing; `taken over`: it works in a directory of the first mount.
- `four mounts`: in one directory; `four mounts apart`: in a directory each, as `four apart` is on one mount.
- `unpack`, in `one` and `idle`: tar makes files with owners, modes and times.
- hands: a directory goes to and fro between two mounts; what the first look and the first change take.
- with --rivals: `GlusterFS looked at`, `MooseFS looked at`: the same on two mounts of one of their volumes.
- a mount joins one that has just worked, another joins two, sixteen join one at once, and seventeen rest.

    bench/mounts.py --tidefs target/release/tidefs --bench target/release/tidefs-bench
"""

import argparse
import contextlib
import io
import shutil
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

import about
import rivals
from judged import judge, show
from served import ALL, Figure, FileSystem, Meter, Program, Served, keep_to, null_layer, programs

# What is put off is done by then: names that wait to be stored, bytes of removed files.
SETTLES_SECONDS = 0.3
REST_SECONDS = 5
JOINING = 16
HANDS = 100
FILES_A_HAND = 5
UNPACKED = "unpacked"
UNPACKED_BYTES = 3000
UNPACK_SECONDS_MAX = 300
PINNED = frozenset([max(ALL)])


def forget_names() -> bool:
    """Of the whole machine, so that the file system is asked; only root may."""
    with contextlib.suppress(PermissionError):
        Path("/proc/sys/vm/drop_caches").write_text("2")
        return True
    return False


class Work:
    """Programs, each with its directory, that do the same at the same time."""

    def __init__(self, served: Served, files: int):
        self.served, self.files = served, files

    def measure(self, at: list[tuple[Program, Path]]) -> dict[str, Figure]:
        """Makes, looks at, reads and removes files, so many of each program."""
        found = {"create": self.of("create", at)}
        found["stat"] = self.of("stat" if forget_names() else "stat_uncached", at)
        self.all("forget_pages", at)
        found["read"] = self.of("read", at)
        return found | {"unlink": self.of("unlink", at)}

    def of(self, act: str, at: list[tuple[Program, Path]]) -> Figure:
        with Meter(self.served) as meter:
            answers = self.all(act, at)
            time.sleep(SETTLES_SECONDS)
        return meter.of(answers)

    def unpack(self, archive: Path, mount: Path) -> Figure:
        """Files with attributes of their own, in a directory that tar makes."""
        with Meter(self.served) as meter:
            began = time.monotonic_ns()
            tar = ["tar", "--extract", "--same-owner", "--file", archive, "--directory", mount]
            subprocess.run(tar, check=True, timeout=UNPACK_SECONDS_MAX)
            ended = time.monotonic_ns()
            time.sleep(SETTLES_SECONDS)
        shutil.rmtree(mount / UNPACKED)
        return meter.of([{"count": self.files, "began": began, "ended": ended}])

    def all(self, act: str, at: list[tuple[Program, Path]]) -> list[dict]:
        for number, (program, directory) in enumerate(at):
            program.order(act, directory, prefix=f"{number}-", files=self.files)
        return [program.answer() for program, _ in at]


def archive_of(files: int, path: Path) -> Path:
    """Of one directory with so many small files of somebody else."""
    with tarfile.open(path, "w") as archive:
        for number in range(files):
            member = tarfile.TarInfo(f"{UNPACKED}/{number}")
            member.size, member.mode, member.mtime = UNPACKED_BYTES, 0o640, 1_000_000_000 + number
            member.uid = member.gid = 1000
            archive.addfile(member, io.BytesIO(bytes(UNPACKED_BYTES)))
    return path


@contextlib.contextmanager
def new_directory(by: Program, path: Path):
    """It may have files of others in it by the end, so what is left of it is not asked."""
    by.do("make_directory", path)
    yield path
    by.do("remove_directory", path)


@contextlib.contextmanager
def pinned(served: Served, workers: list[Program]):
    """All of it on one processor, for as long as this lasts."""
    try:
        for processors in (PINNED, ALL):
            served.keep_to(processors)
            for it in workers:
                keep_to(it.process.pid, processors)
            if processors is PINNED:
                yield
    finally:
        served.keep_to(ALL)


def on_one_mount(name: str, mount: Path, served: Served, workers: list[Program], options) -> dict:
    """The same for all that has one mount, a layer that does nothing included."""
    first = workers[0]
    with new_directory(first, mount / "one") as directory:
        found = {name: Work(served, options.files).measure([(first, directory)])}
    with new_directory(first, mount / "pinned") as directory, pinned(served, workers):
        found[f"{name} pinned"] = Work(served, options.files).measure([(first, directory)])
    with new_directory(first, mount / "four") as directory:
        four = [(it, directory) for it in workers]
        found[f"{name} four"] = Work(served, options.files // 4).measure(four)
    return found


def apart(mounts: list[Path], served: Served, workers: list[Program], options) -> dict[str, Figure]:
    """Each program in a directory of its own."""
    with contextlib.ExitStack() as stack:
        each = [
            (it, stack.enter_context(new_directory(it, mount / f"apart-{number}")))
            for number, (it, mount) in enumerate(zip(workers, mounts))
        ]
        return Work(served, options.files // 4).measure(each)


def looked_at(mounts: list[Path], served: Served, workers: list[Program], options) -> dict[str, Figure]:
    """The first works on the first mount while the second looks on the second one."""
    works, looks = workers[:2]
    with new_directory(works, mounts[0] / "looked-at") as directory:
        looks.do("look", mounts[1] / "looked-at")
        found = Work(served, options.files_looked_at).measure([(works, directory)])
        looks.do("stop", directory)
    return found


def taken_over(mounts: list[Path], served: Served, workers: list[Program], options) -> dict[str, Figure]:
    """The second mount works in a directory that the first has made and worked in."""
    with new_directory(workers[0], mounts[0] / "taken-over") as directory:
        workers[0].do("create", directory, prefix="first-", files=10)
        workers[0].do("unlink", directory, prefix="first-", files=10)
        there = mounts[1] / "taken-over"
        workers[1].do("create", there, prefix="hand", files=1)
        workers[1].do("unlink", there, prefix="hand", files=1)
        return Work(served, options.files).measure([(workers[1], there)])


def hands(mounts: list[Path], workers: list[Program]) -> dict[str, list[float]]:
    """Milliseconds of the first look, and of the first change, after the other mount has worked there."""
    took = {"stat": [], "create": []}
    with new_directory(workers[0], mounts[0] / "hands") as directory:
        for hand in range(2 * HANDS):
            worked, works = (0, 1) if hand % 2 else (1, 0)
            there = mounts[worked] / directory.name
            workers[worked].do("create", there, prefix=f"{hand}-", files=FILES_A_HAND)
            here = mounts[works] / directory.name
            # Half of the hands of each mount begin with a look at what the other one has made last.
            act = "stat" if hand % 4 < 2 else "create"
            first = {"prefix": f"{hand}-", "first": FILES_A_HAND - (act == "stat"), "files": 1}
            answer = workers[works].do(act, here, **first)
            took[act].append((answer["ended"] - answer["began"]) / 1e6)
            if act == "stat":
                workers[works].do("create", here, prefix=f"{hand}-", first=FILES_A_HAND, files=1)
            workers[works].do("unlink", here, prefix=f"{hand}-", files=FILES_A_HAND + 1)
    return took


def at_rest(file_system: FileSystem) -> dict[str, float]:
    """Of all mounts and nodes, while nobody works: parts of a processor, and replies a second."""
    served = file_system.served()
    time.sleep(1)
    began = time.monotonic()
    with Meter(served) as meter:
        time.sleep(REST_SECONDS)
    processor_us, replies = meter.spent
    took = time.monotonic() - began
    return {
        "mounts": len(file_system.mounts),
        "processor_percent": processor_us / took / 1e4,
        "replies_per_second": replies / took,
    }


def on_nodes(options, folder: Path, workers: list[Program]) -> dict:
    """A round on one node: of one mount, two, four, seventeen."""
    with FileSystem(options.tidefs, folder, ("--nodes", "1")) as it:
        one, served = it.mounts[0], it.served()
        rest = {"one mount": at_rest(it)}
        found = on_one_mount("one", one, served, workers, options)
        found["four apart"] = apart([one] * 4, served, workers, options)
        found["together"] = looked_at([one] * 2, served, workers, options)
        archive = archive_of(options.files, folder / "files.tar")
        with new_directory(workers[0], one / "tar") as directory:
            found["one"]["unpack"] = Work(served, options.files).unpack(archive, directory)
        # The first mount has worked until now.
        joins = {"the second": it.join(1)}
        served = it.served()
        with new_directory(workers[0], one / "idle") as directory:
            found["idle"] = Work(served, options.files).measure([(workers[0], directory)])
            found["idle"]["unpack"] = Work(served, options.files).unpack(archive, directory)
        found["taken over"] = taken_over(it.mounts, served, workers, options)
        found["looked at"] = looked_at(it.mounts, served, workers, options)
        handed = hands(it.mounts, workers)
        joins["another"] = statistics.mean([it.join(1), it.join(1)])
        served = it.served()
        found["four mounts apart"] = apart(it.mounts, served, workers, options)
        with new_directory(workers[0], one / "shared") as directory:
            each = [(its, mount / directory.name) for its, mount in zip(workers, it.mounts)]
            found["four mounts"] = Work(served, options.files // 4).measure(each)
        for mount in it.mounts[1:]:
            it.run("umount", mount)
        del it.mounts[1:]
        apart([one], served, workers, options)
        joins["sixteen at once"] = it.join(JOINING)
        rest["seventeen mounts"] = at_rest(it)
    return {"figures": found, "hands_ms": handed, "join_ms": joins, "rest": rest}


def round_of(options) -> dict:
    with tempfile.TemporaryDirectory(prefix="tm", dir="/tmp") as name:
        folder = Path(name)
        for part in ("e", "n", "v"):
            (folder / part).mkdir()
        with programs(options.bench, 4) as workers:
            with null_layer(options.bench, folder / "n") as (mount, served):
                figures = on_one_mount("null", mount, served, workers, options)
            with FileSystem(options.tidefs, folder / "e", ()) as it:
                figures |= on_one_mount("embedded", it.mounts[0], it.served(), workers, options)
            found = on_nodes(options, folder / "v", workers)
            for rival in options.rivals:
                with rivals.volume(rival) as (mounts, served):
                    name = f"{rival} looked at"
                    figures[name] = looked_at(mounts, served, workers, options)
        figures |= found["figures"]
        told = {who: {what: asdict(it) for what, it in each.items()} for who, each in figures.items()}
        return found | {"figures": told}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    target = about.PROJECT / "target/release"
    parser.add_argument("--tidefs", type=Path, default=target / "tidefs")
    parser.add_argument("--bench", type=Path, default=target / "tidefs-bench")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--files", type=int, default=4000, help="of one program, and of four together")
    parser.add_argument("--files-looked-at", type=int, default=400)
    parser.add_argument("--results", type=Path, default=about.PROJECT / "bench/results")
    parser.add_argument("--check", action="store_true", help="fail when a goal is missed")
    parser.add_argument("--rivals", action="store_true", help="GlusterFS and MooseFS as well")
    options = parser.parse_args()
    options.rivals = rivals.there() if options.rivals else []
    options.tidefs, options.bench = options.tidefs.resolve(), options.bench.resolve()
    told = about.look(options.tidefs)
    rounds = []
    for number in range(options.rounds):
        print(f"round {number + 1} of {options.rounds}", file=sys.stderr, flush=True)
        rounds.append(round_of(options))
    judged = judge(rounds)
    show(rounds, judged)
    missed = [it["goal"] for it in judged if not it["met"]]
    about.keep(options.results, "mounts", told, {"rounds": rounds, "judged": judged, "missed": missed})
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    sys.exit(main())
