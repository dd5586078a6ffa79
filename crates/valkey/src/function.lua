#!lua name=tidefs

-- The functions that a node runs for Tidefs, each on one key.
--
-- A batch works on a shard, which is a hash. Its arguments are a program, the names of its fields,
-- and the operands that the program refers to by their place among the arguments. The program is
-- a row of big-endian numbers:
--   how many fields are loaded, which field is the first to be updated, how many fields there are;
--   how many checks, updates and reads follow;
--   each of these: a letter, then its field, an offset, a length, and its operand.
-- Fields have numbers from 1 on. Those whose values matter come first, those that are updated last.
-- Numbers inside values have 64 bits and are worked on in halves: a Lua number is exact to 2^53.

-- The server offers its libraries to running functions only, so the first call binds them.
local byte, sub, rep, pack, take, call, unpack

local HEADER, HEADER_BYTES = '>I4I4I4I4I4I4', 24
local STEP, STEP_BYTES = '>c1I4I4I4I4', 17
local HALF = 4294967296
-- Bytes beyond what a node may hold that metadata may use; whoever loads this library says how many.
local HEAD_ROOM = 8388608
-- Words passed to one command, an even number: Lua's stack is bounded.
local WORDS_MAX = 1000

local function bind()
  byte, sub, rep = string.byte, string.sub, string.rep
  pack, take, call, unpack = struct.pack, struct.unpack, redis.call, _G.unpack
end

-- The two halves of the number at `at` of a value; missing bytes count as zero.
local function halves(value, at)
  local a, b, c, d, e, f, g, h = byte(value or '', at + 1, at + 8)
  if h then
    return ((a * 256 + b) * 256 + c) * 256 + d, ((e * 256 + f) * 256 + g) * 256 + h
  end
  return (((a or 0) * 256 + (b or 0)) * 256 + (c or 0)) * 256 + (d or 0),
    (((e or 0) * 256 + (f or 0)) * 256 + (g or 0)) * 256
end

-- Whether the number at `at` of a value is more than the one that `other` is.
local function exceeds(value, at, other)
  local high, low = halves(value, at)
  local other_high, other_low = halves(other, 0)
  return high > other_high or high == other_high and low > other_low
end

-- Whether it is less.
local function undercuts(value, at, other)
  local high, low = halves(value, at)
  local other_high, other_low = halves(other, 0)
  return high < other_high or high == other_high and low < other_low
end

-- The value with `bytes` in place from `at` on, extended with zeros as far as needed.
local function splice(value, at, bytes)
  value = value or ''
  if at >= #value then return value .. rep('\0', at - #value) .. bytes end
  return sub(value, 1, at) .. bytes .. sub(value, at + #bytes + 1)
end

local function sum(value, at, delta)
  local high, low = halves(value, at)
  local delta_high, delta_low = halves(delta, 0)
  low = low + delta_low
  if low >= HALF then
    low = low - HALF
    high = high + 1
  end
  return pack('>I4I4', (high + delta_high) % HALF, low)
end

local function holds(code, value, at, operand)
  if code == 'a' then return not value end
  if code == 'p' then return value end
  if code == 'e' then return value == operand end
  if code == 'l' then return not undercuts(value, at, operand) end
  return not exceeds(value, at, operand)
end

-- The number of the first check that does not hold, or -1.
local function refusal(args, values, position, checks)
  for number = 0, checks - 1 do
    local code, field, at, _, operand = take(STEP, args[1], position + number * STEP_BYTES)
    if not holds(code, values[field], at, args[operand]) then return number end
  end
  return -1
end

-- What an update makes of a value; false is none.
local function updated(code, value, at, operand)
  if code == 'p' then return operand end
  if code == 'd' then return false end
  if code == 'a' then return splice(value, at, sum(value, at, operand)) end
  if code == 'm' and exceeds(value, at, operand) then
    operand = pack('>I4I4', halves(value, at))
  end
  return splice(value, at, operand)
end

local function update(args, values, position, updates)
  for number = 0, updates - 1 do
    local code, field, at, _, operand = take(STEP, args[1], position + number * STEP_BYTES)
    values[field] = updated(code, values[field], at, args[operand])
  end
end

local function send(command, key, words, count)
  for first = 1, count, WORDS_MAX do
    local last = first + WORDS_MAX - 1
    call(command, key, unpack(words, first, last < count and last or count))
  end
end

-- Writes the fields from `first` on.
local function store(key, args, values, first, fields)
  local put, puts, removed, removals = {}, 0, {}, 0
  for field = first, fields do
    local value = values[field]
    if value then
      put[puts + 1], put[puts + 2] = args[field + 1], value
      puts = puts + 2
    else
      removals = removals + 1
      removed[removals] = args[field + 1]
    end
  end
  send('HSET', key, put, puts)
  send('HDEL', key, removed, removals)
end

local function load(key, args, loaded)
  if loaded == 0 then return {} end
  if loaded <= WORDS_MAX then return call('HMGET', key, unpack(args, 2, loaded + 1)) end
  local values = {}
  for field = 1, loaded do values[field] = call('HGET', key, args[field + 1]) end
  return values
end

local function is_empty(key, values, loaded)
  for field = 1, loaded do
    if values[field] then return 0 end
  end
  return 1 - call('EXISTS', key)
end

-- The value that a read asks for; one that follows a reference sees the updates too.
local function read(key, code, value, at, length, prefix)
  if code == 'r' then return value or false end
  if not value or at + length > #value then return false end
  return call('HGET', key, prefix .. sub(value, at + 1, at + length))
end

local function batch(keys, args)
  if not call then bind() end
  local key = keys[1]
  local loaded, first, fields, checks, updates, reads = take(HEADER, args[1])
  local position = HEADER_BYTES + 1
  local values = load(key, args, loaded)
  local answer = { -1, is_empty(key, values, loaded) }
  answer[1] = refusal(args, values, position, checks)
  position = position + checks * STEP_BYTES
  if answer[1] < 0 and updates > 0 then
    update(args, values, position, updates)
    store(key, args, values, first, fields)
  end
  position = position + updates * STEP_BYTES
  for number = 0, reads - 1 do
    local code, field, at, length, operand = take(STEP, args[1], position + number * STEP_BYTES)
    answer[number + 3] = read(key, code, values[field], at, length, args[operand])
  end
  return answer
end

-- Whether metadata may still use what data leaves free. Asked only on a node that is full of data: the
-- question takes as long as a batch.
local function has_head_room()
  local info = call('INFO', 'memory')
  -- As the server counts before it refuses.
  local apart = tonumber(string.match(info, 'mem_not_counted_for_evict:(%d+)')) or 0
  local used = tonumber(string.match(info, 'used_memory:(%d+)')) - apart
  local most = tonumber(string.match(info, '\nmaxmemory:(%d+)'))
  return most == 0 or used < most + HEAD_ROOM
end

local function batch_in_head_room(keys, args)
  if not call then bind() end
  if not has_head_room() then return redis.error_reply('OOM the head-room is used up') end
  return batch(keys, args)
end

-- Cuts a stripe to at most so many bytes, but not to nothing.
local function trim(keys, args)
  if not call then bind() end
  local length = tonumber(args[1])
  if call('STRLEN', keys[1]) > length then
    call('SET', keys[1], call('GETRANGE', keys[1], 0, length - 1))
  end
  return 0
end

-- Writes into a stripe from an offset on, but never leaves a gap: whoever asks has to find out first
-- whether what is missing there was lost. The answer is the stripe's new length, or -1.
local function write(keys, args)
  if not call then bind() end
  local offset = tonumber(args[1])
  if call('STRLEN', keys[1]) < offset then return -1 end
  return call('SETRANGE', keys[1], offset, args[2])
end

-- Marks a partition as having lost: two numbers, neither of which ever falls. A node takes over what a
-- dead one held also when it is full.
local function mark(keys, args)
  if not call then bind() end
  local value = call('GET', keys[1]) or ''
  value = updated('m', value, 0, sub(args[1], 1, 8))
  call('SET', keys[1], updated('m', value, 8, sub(args[1], 9, 16)))
  return 0
end

redis.register_function('tidefs_write', write)
redis.register_function('tidefs_batch', batch)
redis.register_function{
  function_name = 'tidefs_batch_reclaim', callback = batch, flags = { 'allow-oom' }
}
redis.register_function{
  function_name = 'tidefs_batch_room', callback = batch_in_head_room, flags = { 'allow-oom' }
}
redis.register_function{ function_name = 'tidefs_read', callback = batch, flags = { 'no-writes' } }
redis.register_function{ function_name = 'tidefs_trim', callback = trim, flags = { 'allow-oom' } }
redis.register_function{ function_name = 'tidefs_mark', callback = mark, flags = { 'allow-oom' } }
