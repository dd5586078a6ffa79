#!lua name=tidefs

-- The functions that a node runs for Tidefs, each on one key.
--
-- A batch works on a shard, which is a hash. Its arguments are:
--   loaded, fields, updates, reads    numbers
--   the names of all fields; the first `loaded` of them are those whose values matter
--   checks, then updates from argument `updates` on, then reads from argument `reads` on
-- Each check, update or read is a code, the number of its field, and its operands.
-- Numbers inside values have 64 bits and are worked on in halves: a Lua number is exact to 2^53.

-- The server offers its libraries to running functions only, so the first call binds them.
local byte, char, sub, rep, floor, tonumber, unpack, call
local HALF = 4294967296
-- Words passed to one command: Lua's stack is bounded.
local WORDS_MAX = 1000

local function bind()
  byte, char, sub, rep, floor = string.byte, string.char, string.sub, string.rep, math.floor
  tonumber, unpack, call = _G.tonumber, _G.unpack, redis.call
end

-- The two halves of the number at `at` of a value; missing bytes count as zero.
local function halves(value, at)
  local a, b, c, d, e, f, g, h = byte(value or '', at + 1, at + 8)
  return (a or 0) * 16777216 + (b or 0) * 65536 + (c or 0) * 256 + (d or 0),
    (e or 0) * 16777216 + (f or 0) * 65536 + (g or 0) * 256 + (h or 0)
end

local function bytes_of(high, low)
  return char(
    floor(high / 16777216), floor(high / 65536) % 256, floor(high / 256) % 256, high % 256,
    floor(low / 16777216), floor(low / 65536) % 256, floor(low / 256) % 256, low % 256
  )
end

-- Whether the number at `at` of a value is less than (-1), equal to (0) or more than (1) `other`.
local function compare(value, at, other)
  local high, low = halves(value, at)
  local other_high, other_low = halves(other, 0)
  if high ~= other_high then return high < other_high and -1 or 1 end
  if low ~= other_low then return low < other_low and -1 or 1 end
  return 0
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
  return bytes_of((high + delta_high) % HALF, low)
end

-- The number of the first check that does not hold, or -1.
local function refusal(args, values, at, updates)
  local number = 0
  while at < updates do
    local code, value, holds = args[at], values[tonumber(args[at + 1])], nil
    if code == 'absent' then
      holds = not value
      at = at + 2
    elseif code == 'present' then
      holds = value
      at = at + 2
    elseif code == 'equals' then
      holds = value == args[at + 2]
      at = at + 3
    elseif code == 'least' then
      holds = compare(value, tonumber(args[at + 2]), args[at + 3]) >= 0
      at = at + 4
    else
      holds = compare(value, tonumber(args[at + 2]), args[at + 3]) <= 0
      at = at + 4
    end
    if not holds then return number end
    number = number + 1
  end
  return -1
end

-- Makes the updates in `values` and answers which fields they touch.
local function update(args, values, at, reads)
  local touched = {}
  while at < reads do
    local code, field = args[at], tonumber(args[at + 1])
    touched[field] = true
    if code == 'put' then
      values[field] = args[at + 2]
      at = at + 3
    elseif code == 'delete' then
      values[field] = false
      at = at + 2
    else
      local value, offset, operand = values[field], tonumber(args[at + 2]), args[at + 3]
      if code == 'add' then
        operand = sum(value, offset, operand)
      elseif code == 'max' and compare(value, offset, operand) > 0 then
        operand = bytes_of(halves(value, offset))
      end
      values[field] = splice(value, offset, operand)
      at = at + 4
    end
  end
  return touched
end

local function send(command, key, words)
  for first = 1, #words, WORDS_MAX do
    call(command, key, unpack(words, first, math.min(first + WORDS_MAX - 1, #words)))
  end
end

local function store(key, args, values, touched)
  local put, removed = {}, {}
  for field in pairs(touched) do
    local value = values[field]
    if value then
      put[#put + 1] = args[field + 4]
      put[#put + 1] = value
    else
      removed[#removed + 1] = args[field + 4]
    end
  end
  send('HSET', key, put)
  send('HDEL', key, removed)
end

local function load(key, args, loaded)
  if loaded == 0 then return {} end
  if loaded <= WORDS_MAX then return call('HMGET', key, unpack(args, 5, loaded + 4)) end
  local values = {}
  for field = 1, loaded do values[field] = call('HGET', key, args[field + 4]) end
  return values
end

local function is_empty(key, values, loaded)
  for field = 1, loaded do
    if values[field] then return 0 end
  end
  return 1 - call('EXISTS', key)
end

local function answer(key, args, values, at, outcome)
  while at <= #args do
    local value = values[tonumber(args[at + 1])]
    if args[at] == 'read' then
      at = at + 2
    else
      local from, length = tonumber(args[at + 2]), tonumber(args[at + 3])
      if value and from + length <= #value then
        value = call('HGET', key, args[at + 4] .. sub(value, from + 1, from + length))
      else
        value = false
      end
      at = at + 5
    end
    outcome[#outcome + 1] = value or false
  end
  return outcome
end

local function batch(keys, args)
  if not call then bind() end
  local key, loaded, fields = keys[1], tonumber(args[1]), tonumber(args[2])
  local updates, reads = tonumber(args[3]), tonumber(args[4])
  local values = load(key, args, loaded)
  local empty = is_empty(key, values, loaded)
  local refused = refusal(args, values, fields + 5, updates)
  if refused < 0 and updates < reads then
    store(key, args, values, update(args, values, updates, reads))
  end
  return answer(key, args, values, reads, { refused, empty })
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

redis.register_function('tidefs_batch', batch)
redis.register_function{
  function_name = 'tidefs_batch_reclaim', callback = batch, flags = { 'allow-oom' }
}
redis.register_function{ function_name = 'tidefs_read', callback = batch, flags = { 'no-writes' } }
redis.register_function{ function_name = 'tidefs_trim', callback = trim, flags = { 'allow-oom' } }
