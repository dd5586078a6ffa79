"""What a bucket is on a server, and how it is read, written and moved. Knows nothing of Tidefs.

A bucket is one hash. Its field `state` is `open` where it may be written; the others are its keys. A copy that
is being moved is closed: it can be read, and nobody writes to it. The old copy is removed before the new one is
opened, so there is never one that can be read beside one that can be written.
"""

from __future__ import annotations

import valkey

#: Writes if the bucket is here and open; else says why not.
WRITE = """
local state = redis.call('HGET', KEYS[1], 'state')
if state ~= 'open' then return state or 'absent' end
redis.call('HSET', KEYS[1], ARGV[1], ARGV[2])
return 'written'
"""
#: Closes the bucket and returns it as it will be on its next server.
CLOSE = """
if redis.call('EXISTS', KEYS[1]) == 0 then return false end
redis.call('HSET', KEYS[1], 'state', 'closed')
return redis.call('DUMP', KEYS[1])
"""
#: Opens the bucket if it is here.
OPEN = """
if redis.call('EXISTS', KEYS[1]) == 0 then return 0 end
redis.call('HSET', KEYS[1], 'state', 'open')
return 1
"""
#: A line for each bucket: its name, its bytes in memory, and its state.
LIST = """
local cursor, lines = '0', {}
repeat
  local page = redis.call('SCAN', cursor, 'MATCH', 'bucket:*', 'COUNT', 1000)
  cursor = page[1]
  for _, name in ipairs(page[2]) do
    lines[#lines + 1] = table.concat({name, redis.call('MEMORY', 'USAGE', name, 'SAMPLES', 0),
      redis.call('HGET', name, 'state') or 'none'}, ' ')
  end
until cursor == '0'
return table.concat(lines, '\\n')
"""


def name_of(bucket: int) -> str:
    return f"bucket:{bucket}"


def number_of(name: str) -> int:
    return int(name.split(":")[1])


def field_of(key: bytes) -> bytes:
    return b"k:" + key


class Held:
    """The buckets of one server."""

    def __init__(self, client: valkey.Valkey) -> None:
        self.client = client
        self.write_script, self.close_script, self.open_script, self.list_script = (
            client.register_script(text) for text in (WRITE, CLOSE, OPEN, LIST)
        )

    def write(self, bucket: str, key: bytes, value: bytes) -> str:
        """`written`, or why not: `closed`, or `absent`."""
        return bytes(self.write_script([bucket], [field_of(key), value])).decode()

    def read(self, bucket: str, key: bytes) -> tuple[bool, bytes | None]:
        """Is the bucket here, and what has it for the key?"""
        state, value = self.client.hmget(bucket, "state", field_of(key))
        return state is not None, value

    def listed(self) -> list[tuple[str, int, str]]:
        """Name, bytes and state of every bucket."""
        lines = bytes(self.list_script()).decode().splitlines()
        return [(name, int(size), state) for name, size, state in (line.split() for line in lines)]

    def close(self, bucket: str) -> bytes | None:
        """The bucket as it can be restored elsewhere; None where it is not here."""
        return self.close_script([bucket])

    def restore(self, bucket: str, dump: bytes) -> None:
        self.client.restore(bucket, 0, dump, replace=True)

    def remove(self, bucket: str) -> None:
        self.client.unlink(bucket)

    def open(self, bucket: str) -> bool:
        return bool(self.open_script([bucket]))

    def has(self, bucket: str) -> bool:
        return bool(self.client.exists(bucket))
