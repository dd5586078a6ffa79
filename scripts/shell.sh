# shellcheck shell=bash disable=SC2034
# What the set-up scripts share: messages, root rights, the cache folder.
# Sourced, never run.  Every script that sources it works under `set -euo pipefail`.

cache_dir="${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/tidefs"

# What root builds is for all users of the machine, what anybody else builds is for themselves.
# Tidefs looks in both places.
if [ "$(id -u)" -eq 0 ]; then
    server_dir=/usr/local/lib/tidefs
else
    server_dir="$cache_dir"
fi

# Messages reach the reader also from where a command's errors go to a log.
exec {reader}>&2

say() { printf 'setup: %s\n' "$*" >&"$reader"; }

die() {
    say "$@"
    exit 1
}

# Runs a command with root rights, or says which command the reader has to run.
as_root() {
    if [ "$(id -u)" -eq 0 ]; then
        "$@"
    elif command -v sudo >/dev/null; then
        sudo -- "$@"
    else
        die "this needs root and there is no sudo; run it as root, then repeat: $*"
    fi
}

# Prints which of the named Debian packages are not installed.
missing_packages() {
    local package
    local -A installed=()
    # dpkg-query fails when it knows one of the names not at all; that one is missing, then.
    while read -r package status; do
        if [ "$status" = installed ]; then installed[$package]=1; fi
    done < <(dpkg-query --show --showformat '${Package} ${db:Status-Status}\n' "$@" 2>/dev/null || true)
    for package in "$@"; do
        [ -n "${installed[$package]:-}" ] || printf '%s\n' "$package"
        # A name given twice is printed once.
        installed[$package]=1
    done
}

# Whether a server can speak TLS.  Without a certificate it does not start, and says whether that is why.
has_tls() {
    # It ends with an error either way: one without TLS does not know the word.
    local said
    said="$(timeout 10 "$1" --port 0 --tls-port 1 --save "" 2>&1 || true)"
    [[ "$said" == *"configure TLS"* ]]
}
