"""A state directory that is moved, full, seen from elsewhere, or of somebody who was killed."""

import contextlib
import errno
import json
import subprocess
from pathlib import Path

from alive import UP, Alive, Shells, ways
from ends import ENDS
from play import BASE, END_SECONDS_MAX, Play, holds, is_over, living, told, until

STEPS = 7
CONTENT = b"words that stay\n" * 100
# Debian's `nobody`.
STRANGER = ("setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--")

# Another machine, or another start of this one: ids of both differ, and locks here are not seen there,
# as on NFS.  What it would do to the directory is done to `changed` instead.
ELSEWHERE = """set -e
mkdir changed work
echo 01234567-89ab-cdef-0123-456789abcdef > boot
mount --bind boot /proc/sys/kernel/random/boot_id
[ -z "$HOST" ] || hostname "$HOST"
[ -z "$ID" ] || { echo "$ID" > machine; mount --bind machine /etc/machine-id; }
mount -t overlay overlay -o "lowerdir=$BASE,upperdir=$PWD/changed,workdir=$PWD/work" "$BASE"
set +e
echo set up >&2
"$@"
status=$?
umount "$BASE"
find changed -mindepth 1
exit $status"""
MACHINES = [(host, id) for host in ("", "elsewhere") for id in ("", "0123456789abcdef" * 2)]


class State:
    def __init__(self, play: Play):
        self.play, self.draw = play, play.draw
        self.alive: Alive | None = None
        self.mount, self.others = play.scratch / "tide", play.scratch / "elsewhere"
        self.others.mkdir()
        (play.scratch / "a").mkdir()
        self.filler = BASE.parent / "filler"

    def tidefs(self, *words: object, check: bool = True) -> subprocess.CompletedProcess:
        state, environment = self.draw.choice(ways(self.play.scratch))
        done = self.play.call(self.play.tidefs, *state, *words, **environment)
        if check:
            how = f"{state} {environment}"
            holds(done.returncode == 0, f"{words} with {how} ends with {told(done)}")
        return done

    def up(self) -> None:
        nodes = self.draw.choice(((), ("--nodes", "1"), ("--nodes", "1..2", "--policy", "static")))
        words = ("up", "--mount", self.mount, *nodes, "--node-memory", "64MiB")
        # Whose wish for another place would be heard has none here.
        state, environment = self.draw.choice(
            (([], {"HOME": None}), ([], {}), (["--state", BASE], {}))
        )
        self.play.note(f"up {' '.join(nodes)}")
        self.play.must(self.play.tidefs, *state, *words, **environment)
        holds(UP.exists(), f"up did not take {BASE}")
        if nodes:
            self.is_managed()
        (self.mount / "kept").write_bytes(CONTENT)
        self.alive = Alive()

    def is_managed(self) -> None:
        """A manager that is just being started reads the state, and ends and comes again where it is away."""
        ask = (self.play.tidefs, "--state", UP, "status", "--json")
        until("a decision", lambda: json.loads(self.play.must(*ask))["last_decision"], 20)

    def is_whole(self, at: Path = UP) -> None:
        self.alive.is_whole(at)
        kept = (self.mount / "kept").read_bytes()
        holds(kept == CONTENT, "the file system's bytes are others")

    def moved(self) -> None:
        away, here = self.draw.choice(((BASE.with_name("away"), BASE), (BASE / "away", UP)))
        self.play.note(f"{here} is away for a moment")
        here.rename(away)
        self.play.pause(2.5)
        self.is_whole(away if here == UP else away / "up")
        away.rename(here)

    def full(self) -> None:
        self.play.note("the disk of the state is full for a moment")
        with self.filled():
            self.play.pause(1)
            self.tidefs("status")
            (self.mount / "while-full").write_bytes(CONTENT)
            self.is_whole()

    @contextlib.contextmanager
    def filled(self):
        try:
            with self.filler.open("wb", buffering=0) as file:
                try:
                    while True:
                        file.write(bytes(1 << 16))
                except OSError as error:
                    holds(error.errno == errno.ENOSPC, f"the disk cannot be filled: {error}")
            yield
        finally:
            self.filler.unlink(missing_ok=True)

    def elsewhere(self) -> None:
        host, id = self.draw.choice(MACHINES)
        word = self.draw.choice(
            ("status", "down", "mount a", "up --mount other", "fsck", "list", "umount a")
        )
        self.play.note(f"{word} on a machine with {host or 'this'} name and {id and 'another'} id")
        folder = self.others / f"{len(self.play.steps)}"
        folder.mkdir()
        script = ["sh", "-c", ELSEWHERE, "sh", self.play.tidefs, "--state", BASE, *word.split()]
        settings = {"HOST": host, "ID": id, "BASE": str(BASE)}
        done = self.play.call(
            "env", "-C", folder, "unshare", "--mount", "--uts", *script, **settings
        )
        holds("set up" in done.stderr, f"another machine cannot be had: {told(done)}")
        # A base is locked, and an empty directory made in it and removed; nothing stays.
        holds("changed" not in done.stdout, f"{word} changed what is not its own: {told(done)}")
        holds(
            "cleaned up" not in done.stderr, f"{word} cleaned up what is not its own: {told(done)}"
        )
        holds(word == "list" or done.returncode == 1, f"{word} elsewhere ends with {told(done)}")

    def container(self) -> None:
        word = self.draw.choice(("status", "down", "list", "fsck"))
        self.play.note(f"{word} in a container")
        within = ("unshare", "--pid", "--fork", "--mount-proc")
        done = self.play.call(*within, self.play.tidefs, "--state", BASE, word)
        holds(word != "down" or done.returncode == 1, f"down in a container ends with {told(done)}")

    def stranger(self) -> None:
        word = self.draw.choice(("status", "down", "list", "up", "umount", "doctor"))
        self.play.note(f"{word} of another user")
        words = [word, self.mount] if word == "umount" else [word]
        state = self.draw.choice(([], ["--state", BASE], ["--state", UP]))
        if word == "up":
            state = ["--state", UP]
        done = self.play.call(*STRANGER, self.play.tidefs, *state, *words, HOME=None)
        holds(
            word in ("list", "doctor") or done.returncode != 0,
            f"{word} of a stranger: {told(done)}",
        )

    def second_up(self) -> None:
        self.play.note("up once more")
        done = self.tidefs("up", "--mount", self.play.scratch / "second", check=False)
        holds(done.returncode == 1, f"a second one started: {told(done)}")

    def mounts(self) -> None:
        place = self.play.scratch / "a"
        self.play.note("mount and umount")
        self.tidefs("mount", place)
        holds((place / "kept").read_bytes() == CONTENT, "another mount reads other bytes")
        self.tidefs("umount", place)

    def step(self) -> None:
        weights = {
            self.moved: 3,
            self.full: 2,
            self.elsewhere: 4,
            self.container: 1,
            self.stranger: 2,
            self.second_up: 1,
            self.mounts: 1,
        }
        self.draw.choices(list(weights), list(weights.values()))[0]()

    def start(self, *words: object) -> subprocess.Popen:
        return subprocess.Popen(
            [self.play.tidefs, "--state", str(BASE), *map(str, words)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=self.play.scratch,
        )

    def at_once(self, each: list[tuple[str, ...]]) -> list[subprocess.CompletedProcess]:
        running = [(self.start(*words), words) for words in each]
        done = [(it, words, it.communicate(timeout=90)) for it, words in running]
        return [
            subprocess.CompletedProcess(words, it.returncode, *said) for it, words, said in done
        ]

    def play_all(self) -> None:
        self.up()
        with Shells(self.play):
            for _ in range(STEPS):
                self.step()
                self.is_whole()
                self.tidefs("status")
        for number, end in enumerate(self.draw.sample(ENDS, len(ENDS))):
            if number > 0:
                self.up()
            self.is_whole()
            end(self)
            # Whoever served a mount looks each second whether there is anything left to serve.
            until("the end of all", lambda: not living(), END_SECONDS_MAX)
            is_over()


def play(play: Play) -> None:
    State(play).play_all()
