//! A lender that changes what its node holds, on a real server: reading answers an error, and never a
//! byte that was not written last.

use crate::lend::{Borrower, rests_with, victims};

/// Lent to at `argv[1]`, with the mounts' secret in `argv[2]`, of which it is shown what follows for `argv[3]`. Finds files whose stripe lies there, by
/// asking for it in each slot that there is, and alters, withholds and replays one each.
const CRIMES: &str = r#"
import binascii, hmac, itertools, os, socket, string, subprocess, sys

address, secret_file, node = sys.argv[1:]
host, port = address.rsplit(":", 1)
stream = socket.create_connection((host, int(port)), timeout=60)
replies = stream.makefile("rb")

def send(*words):
    words = [word if isinstance(word, bytes) else str(word).encode() for word in words]
    stream.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%b\r\n" % (len(it), it) for it in words))

def reply():
    line = replies.readline().rstrip()
    if line[:1] != b"$":
        return line
    return replies.read(int(line[1:]) + 2)[:-2] if line != b"$-1" else None

def ask(*words):
    send(*words)
    return reply()

shown = hmac.new(open(secret_file, "rb").read(), b"shown to " + node.encode(), "sha256").hexdigest()
assert ask("AUTH", "ACCOUNT", shown) == b"+OK"
tags = {}
for letters in itertools.product(string.digits + string.ascii_uppercase + string.ascii_lowercase, repeat=3):
    tag = "".join(letters).encode()
    tags.setdefault(binascii.crc_hqx(tag, 0) % 16384, tag)

def name(path):
    inode = os.stat(path).st_ino
    names = [b"{%b}s" % tag + inode.to_bytes(8, "big") + bytes(4) for tag in tags.values()]
    for at in range(0, len(names), 512):
        for it in names[at:at + 512]:
            send("EXISTS", it)
        found = [reply() for _ in names[at:at + 512]]
        if b":1" in found:
            return names[at + found.index(b":1")]

held = {number: name(f"tide/{number}") for number in range(1, 17)}
held = [(number, key) for number, key in held.items() if key]
assert len(held) > 3, held
(altered, key), (withheld, other), (replayed, third) = held[:3]
byte = ask("GETRANGE", key, 70000, 70000)
assert ask("SETRANGE", key, 70000, bytes([byte[0] ^ 1])).startswith(b":")
assert ask("UNLINK", other) == b":1"
earlier = ask("GET", third)
with open(f"tide/{replayed}", "r+b") as file:
    file.write(b"later than what it had before")
    os.fsync(file.fileno())
assert ask("GET", third) != earlier, "it is the same"
assert ask("SET", third, earlier) == b"+OK"
print(altered, withheld, replayed)
"#;

#[test]
fn what_a_lender_changes_is_found_out() {
    // The lender has its node's key; the script here has none.
    let options = ["--nodes", "1", "--own-share", "0.5", "--network", "trusted"];
    let Some(borrower) = Borrower::start("valkey", &options) else { return };
    let lender = borrower.lender("128MiB", &borrower.secret_file());
    borrower.until("it is taken in", rests_with(1));
    borrower.script("for i in $(seq 16); do make $i 1 > tide/$i || exit 1; done").succeeded();
    let holds_its_share = |seen: &serde_json::Value| {
        rests_with(1)(seen)
            && victims(seen).all(|node| node["memory_used_bytes"].as_u64() > Some(8 << 20))
    };
    let seen = borrower.until("it has its share", holds_its_share);
    let victim = victims(&seen).next().expect("the victim");
    let [endpoint, id] = ["endpoint", "id"].map(|name| victim[name].as_str().unwrap().to_owned());
    let state = borrower.world.up();
    let mut python = borrower.world.command("/usr/bin/python3");
    python.args(["-c", &CRIMES.replace("ACCOUNT", "tidefs"), &endpoint]);
    let ran = borrower.world.start(python.arg(state.join("secret")).arg(id)).end().succeeded();
    let script = format!(
        r#"
        crimes=" {} "
        mkdir second && "$TIDEFS" mount second > said || exit 3
        for i in $(seq 16); do
            if cat second/$i > out 2> why; then
                make $i 1 | cmp - out || exit 4
                case "$crimes" in *" $i "*) echo "$i is not found out"; exit 5 ;; esac
            else
                grep -q 'Input/output error' why || exit 6
                case "$crimes" in *" $i "*) ;; *) echo "$i was not touched"; exit 7 ;; esac
            fi
        done
        "$TIDEFS" umount second > said && rmdir second; rm -f out why said; rm tide/*
        "#,
        ran.stdout.trim()
    );
    let tidefs = borrower.world.binary();
    borrower.script(&format!("TIDEFS={}\n{script}", tidefs.display())).succeeded();
    lender.send(rustix::process::Signal::TERM);
    lender.end().succeeded();
    borrower.ends();
}
