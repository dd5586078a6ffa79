#!/usr/bin/python3
"""Programs that people run, on mounts of both stores, compared with the same on the local disk.

Each does its work in a folder and answers what came out of it, which must be the same in both
places: git, cargo, SQLite with two processes, makeblastdb, tar, rsync, fio and stress-ng. One that
this machine lacks is a failure, unless TIDEFS_TEST_WITHOUT names it.

Exit status 0 when all held, 1 when something did not, 2 for wrong usage.
"""

import argparse
import hashlib
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

from mounted import PROJECT, STORES, TIDEFS, Mounted, is_left_out  # noqa: E402

PROGRAM_SECONDS_MAX = 1200


def call(*words, cwd: Path, **environment: str) -> str:
    """Runs a program to its end; a failure says what it said."""
    done = subprocess.run(
        [str(word) for word in words],
        cwd=cwd,
        env={**os.environ, **environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        timeout=PROGRAM_SECONDS_MAX,
    )
    if done.returncode != 0:
        said = (done.stderr or done.stdout)[-2000:]
        raise AssertionError(f"{' '.join(map(str, words))}: status {done.returncode}\n{said}")
    return done.stdout


def survey(folder: Path) -> list[tuple]:
    """All that tells two trees apart, times of directories and links aside."""
    found = []
    inodes: dict[int, str] = {}
    for path in sorted(folder.rglob("*")):
        name, stat = str(path.relative_to(folder)), path.lstat()
        row = [name, oct(stat.st_mode), stat.st_uid, stat.st_gid]
        if path.is_symlink():
            row.append(os.readlink(path))
        elif path.is_file():
            twin = inodes.setdefault(stat.st_ino, name)
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
            row += [stat.st_size, stat.st_mtime_ns, stat.st_nlink, twin, digest]
            names = sorted(os.listxattr(path))
            row += [(xattr, os.getxattr(path, xattr)) for xattr in names]
        found.append(tuple(row))
    return found


def plant(folder: Path, count: int) -> None:
    """A tree with what copying programs find hard: hard links, holes, attributes, odd names."""
    chance = random.Random(7)
    folder.mkdir()
    for number in range(count):
        inside = folder / f"d{number % 7}"
        inside.mkdir(exist_ok=True)
        path = inside / f"file {number}\n"
        path.write_bytes(chance.randbytes(chance.choice([0, 1, 5000, 70_000])))
        os.chmod(path, chance.choice([0o600, 0o755, 0o444]))
        os.utime(path, ns=(number, 1_600_000_000_000_000_000 + number))
        if number % 3 == 0:
            os.link(path, folder / f"link-{number}")
        if number % 5 == 0:
            os.setxattr(path, "user.number", b"%d" % number)
        if number % 4 == 0:
            os.symlink(f"../{number}", inside / f"symlink-{number}")
    with open(folder / "sparse", "wb") as file:
        file.seek(5 << 20)
        file.write(b"after a hole")
        file.truncate(9 << 20)
    os.utime(folder / "sparse", ns=(0, 1_700_000_000_123_456_789))


def git(folder: Path, big: bool) -> object:
    """Clones this project, checks every object, changes, commits, packs, and checks again."""
    call("git", "clone", "--quiet", "--no-hardlinks", PROJECT, "clone", cwd=folder)
    clone = folder / "clone"
    (clone / "README.md").write_text("changed\n")
    who = {"NAME": "somebody", "EMAIL": "somebody@localhost", "DATE": "1700000000 +0000"}
    roles = ("AUTHOR", "COMMITTER")
    who = {f"GIT_{role}_{what}": value for role in roles for what, value in who.items()}
    call("git", "commit", "--quiet", "-a", "-m", "change", cwd=clone, **who)
    call("git", "gc", "--quiet", cwd=clone)
    call("git", "fsck", "--strict", "--full", cwd=clone)
    return call("git", "rev-parse", "HEAD", cwd=clone), call("git", "status", "-s", cwd=clone)


def cargo(folder: Path, big: bool) -> object:
    """Builds crates that depend on each other, runs what came out, and builds nothing twice."""
    for name, dependency in (("below", ""), ("above", 'below = { path = "../below" }')):
        (folder / name / "src").mkdir(parents=True)
        (folder / name / "Cargo.toml").write_text(
            f'[package]\nname = "{name}"\nversion = "0.1.0"\nedition = "2021"\n'
            f"[dependencies]\n{dependency}\n"
        )
    modules = range(60 if big else 5)
    source = "".join(f"pub fn f{n}() -> u64 {{ {n} }}\n" for n in modules)
    (folder / "below/src/lib.rs").write_text(source)
    total = " + ".join(f"below::f{n}()" for n in modules)
    (folder / "above/src/main.rs").write_text(f'fn main() {{ println!("{{}}", {total}); }}\n')
    above, target = folder / "above", {"CARGO_TARGET_DIR": str(folder / "target")}
    call("cargo", "build", "--quiet", "--offline", cwd=above, **target)
    again = call("cargo", "build", "--offline", "--message-format=json", cwd=above, **target)
    return call(folder / "target/debug/above", cwd=folder), again.count('"fresh":true')


def sqlite(folder: Path, big: bool) -> object:
    """Two processes write to one database with a write-ahead log, which maps a shared file."""
    path, rows = folder / "database", 2000 if big else 300
    with sqlite3.connect(path) as base:
        mode = base.execute("pragma journal_mode=wal").fetchone()
        base.execute("create table t (who integer, n integer, primary key (who, n))")
    base.close()
    program = (
        "import sqlite3, sys\n"
        "base = sqlite3.connect(sys.argv[1], timeout=600, isolation_level=None)\n"
        "for n in range(int(sys.argv[3])):\n"
        "    base.execute('begin immediate')\n"
        "    base.execute('insert into t values (?, ?)', (int(sys.argv[2]), n))\n"
        "    base.execute('commit')\n"
    )
    command = ["/usr/bin/python3", "-c", program, str(path)]
    writers = [subprocess.Popen([*command, str(who), str(rows)]) for who in range(2)]
    codes = [writer.wait(PROGRAM_SECONDS_MAX) for writer in writers]
    with sqlite3.connect(path) as base:
        check = base.execute("pragma integrity_check").fetchall()
        sums = base.execute("select who, count(*), sum(n) from t group by who").fetchall()
    base.close()
    return mode, codes, check, sums


def makeblastdb(folder: Path, big: bool) -> object:
    """A version 5 database, whose index is an LMDB that is mapped and written."""
    chance = random.Random(3)
    with open(folder / "sequences.fasta", "w") as file:
        for number in range(4000 if big else 300):
            bases = "".join(chance.choices("ACGT", k=400))
            file.write(f">sequence{number}\n{bases}\n")
    words = ["-in", "sequences.fasta", "-dbtype", "nucl", "-parse_seqids", "-blastdb_version", "5"]
    call("makeblastdb", *words, "-out", "db", "-title", "test", cwd=folder)
    entry = call("blastdbcmd", "-db", "db", "-entry", "sequence7", cwd=folder)
    (folder / "query.fasta").write_text(entry)
    words = ["-query", "query.fasta", "-db", "db", "-outfmt", "6"]
    return entry, call("blastn", *words, cwd=folder)


def tar(folder: Path, big: bool) -> object:
    """Packs and unpacks hard links, holes and attributes."""
    plant(folder / "tree", 600 if big else 100)
    options = ["--sparse", "--xattrs", "--numeric-owner"]
    call("tar", "-cf", "tree.tar", *options, "tree", cwd=folder)
    (folder / "copy").mkdir()
    call("tar", "-xpf", "tree.tar", *options, "-C", "copy", cwd=folder)
    tree, copy = survey(folder / "tree"), survey(folder / "copy/tree")
    if tree != copy:
        wrong = [pair for pair in zip(tree, copy) if pair[0] != pair[1]]
        raise AssertionError(f"the copy differs: {wrong[:3]}")
    return tree


def rsync(folder: Path, big: bool) -> object:
    """Copies a tree with hard links, holes and attributes, and finds nothing to do afterwards."""
    plant(folder / "tree", 600 if big else 100)
    options = ["-aHX", "--sparse", "--numeric-ids"]
    call("rsync", *options, "tree/", "copy/", cwd=folder)
    again = call("rsync", *options, "--itemize-changes", "--checksum", "tree/", "copy/", cwd=folder)
    if survey(folder / "tree") != survey(folder / "copy"):
        raise AssertionError("the copy differs")
    return again, survey(folder / "copy")


def fio(folder: Path, big: bool) -> object:
    """Random and sequential writes that are read back and verified, also through maps."""
    size = "64m" if big else "4m"
    for engine in ("psync", "mmap", "libaio"):
        for pattern in ("randwrite", "write"):
            call(
                *("fio", f"--name={engine}-{pattern}", f"--ioengine={engine}", f"--rw={pattern}"),
                *(f"--size={size}", "--bs=4k", "--verify=crc32c", "--verify_fatal=1"),
                *("--do_verify=1", "--iodepth=8", "--randseed=5", f"--directory={folder}"),
                cwd=folder,
            )
    return sorted(path.stat().st_size for path in folder.glob("*-*write*"))


def stress(folder: Path, big: bool) -> object:
    """stress-ng's stressors of files, one after the other, each checking what it did."""
    names = "access,chmod,chown,dentry,dir,dirdeep,dirmany,dup,fallocate,fiemap,filename,flock"
    names += ",fstat,getdent,hdd,iomix,lease,link,locka,lockf,lockofd,mknod,open,rename"
    names += ",seek,symlink,sync-file,touch,utime,xattr"
    seconds = "5s" if big else "1s"
    for name in names.split(","):
        call(
            *("stress-ng", f"--{name}", "1", "--timeout", seconds, "--verify", "--temp-path", "."),
            *("--oomable", "--quiet"),
            cwd=folder,
        )
    return names


# What each needs; in a quick run, those that take seconds.
PROGRAMS = {
    git: ["git"],
    cargo: ["cargo"],
    sqlite: [],
    makeblastdb: ["makeblastdb", "blastn"],
    tar: ["tar"],
    rsync: ["rsync"],
    fio: ["fio"],
    stress: ["stress-ng"],
}
QUICK = [git, cargo, sqlite, makeblastdb, tar]


def judge(program, mount: Path, disk: Path, big: bool) -> str | None:
    """What is wrong, if anything."""
    results = []
    for place in (disk, mount):
        folder = place / program.__name__
        folder.mkdir()
        try:
            results.append(program(folder, big))
        except (AssertionError, OSError, sqlite3.Error, subprocess.TimeoutExpired) as error:
            return f"{program.__name__} in {place}: {error}"
        finally:
            shutil.rmtree(folder, ignore_errors=place == disk)
    if results[0] != results[1]:
        return f"{program.__name__}: {results[0]!r:.1000} on the disk, {results[1]!r:.1000} here"
    return None


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tidefs", type=Path, default=TIDEFS)
    parser.add_argument("--store", choices=STORES, action="append", help="default: both")
    parser.add_argument("--quick", action="store_true", help="small; without names, those that take seconds")
    parser.add_argument("names", nargs="*", help="of programs; default: all")
    options = parser.parse_args()
    if not options.tidefs.is_file():
        parser.error(f"there is no program {options.tidefs}; run make build")
    options.tidefs = options.tidefs.resolve()
    programs = QUICK if options.quick and not options.names else list(PROGRAMS)
    chosen = [p for p in programs if not options.names or p.__name__ in options.names]
    chosen = [p for p in chosen if not is_left_out(p.__name__)]
    if not chosen:
        parser.error(f"there are {', '.join(p.__name__ for p in PROGRAMS)}")
    for program in chosen:
        for needed in PROGRAMS[program]:
            if not shutil.which(needed):
                parser.error(
                    f"there is no {needed}: run make setup, or name {program.__name__} "
                    "in TIDEFS_TEST_WITHOUT"
                )
    wrong = []
    for store in options.store or STORES:
        with tempfile.TemporaryDirectory(prefix="tidefs-programs-", dir="/tmp") as scratch:
            disk = Path(scratch) / "disk"
            disk.mkdir()
            with Mounted.on(store, options.tidefs, Path(scratch)) as mounted:
                watch = mounted.give_up_after(len(chosen) * 2 * PROGRAM_SECONDS_MAX)
                for program in chosen:
                    found = judge(program, mounted.mounts[0], disk, not options.quick)
                    wrong += [f"{store}: {found}"] if found else []
                    became = "FAILED" if found else "ok"
                    print(f"  {store}: {program.__name__} {became}", flush=True)
                watch.cancel()
    for what in wrong:
        print(f"FAILED: {what}", file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
