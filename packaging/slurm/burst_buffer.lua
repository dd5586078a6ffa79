-- A file system of Tidefs for a job of Slurm that asks for one in its script: `#TIDEFS size=64GB policy=nso+asi`.
-- Slurm's controller calls these functions (BurstBufferType=burst_buffer/lua). They start nothing: what is asked for is
-- checked when the job is submitted, and written into the script as a command line of `tidefs run`, which the script is run
-- by on the job's first node. So the file system lives on the job's nodes, in its time and as its user.

local DIRECTIVE = "#TIDEFS"
-- In bytes; as Tidefs reads them.
local UNITS = {
    B = 1, K = 2 ^ 10, M = 2 ^ 20, G = 2 ^ 30, T = 2 ^ 40, KIB = 2 ^ 10, MIB = 2 ^ 20, GIB = 2 ^ 30, TIB = 2 ^ 40,
    KB = 1e3, MB = 1e6, GB = 1e9, TB = 1e12,
}
-- Where a job says `pool=tidefs capacity=64GB` instead, Slurm reads that as well, shows it, and has jobs wait when the pool
-- is used up. So much is in it: as good as no limit, since Slurm counts the memory of each job on its nodes anyway.
local POOL, POOL_BYTES = "tidefs", 2 ^ 50
-- Of each node's memory, what files do not fill.
local HEAD_ROOM = 8 * 2 ^ 20
-- That know the line which is put in.
local SHELLS = { sh = true, bash = true, dash = true, ksh = true, zsh = true }
-- In this variable the command finds that it is run by the file system of its own job.
local BEGUN = "TIDEFS_BEGUN"

-- What each key is checked by; an answer that is no string is why the value is wrong.
local function size(text)
    local number, unit = text:match("^(%d+)(%a*)$")
    local factor = unit and UNITS[unit == "" and "B" or unit:upper()]
    if not factor or tonumber(number) == 0 then
        return nil, "give a size such as 64GB or 64GiB"
    end
    if number * factor > POOL_BYTES then return nil, "that is more than there is" end
    return string.format("%.0f", number * factor)
end

local function word(text)
    if text:match("^[%w+_-]+$") then return text end
    return nil, "give letters, digits and + alone"
end

local function number(text)
    if text:match("^[1-9]%d*$") then return text end
    return nil, "give a whole number above 0"
end

-- Within quotes of the shell nothing but these has a meaning.
local function pair(text)
    if not text:match("^[^:]+:[^:]+$") then return nil, "give SOURCE:DESTINATION" end
    if text:match("['\"\\`$]") then return nil, "leave quotes, backslashes and $ out" end
    return text
end

local function pool(text)
    if text == POOL then return text end
    return nil, "the pool is called " .. POOL
end

-- Keys, what checks them, and the option of `tidefs run`. Those that have `many` may come again.
local KEYS = {
    size = { check = size },
    capacity = { check = size },
    pool = { check = pool },
    policy = { check = word, option = "--policy" },
    satellites = { check = number, option = "--satellites" },
    stage_in = { check = pair, option = "--stage-in", many = true },
    stage_out = { check = pair, option = "--stage-out", many = true },
    stage_out_deadline = { check = number, option = "--stage-out-deadline" },
}

-- What a script asks for: nil where it asks for nothing, or else the words of the command line and the bytes of all nodes.
local function asked_for(script)
    local asked, seen, words = false, {}, {}
    for line in script:gmatch("[^\n]+") do
        -- Where Slurm stops to look for them.
        if line:sub(1, 1) ~= "#" then break end
        local rest = line:match("^" .. DIRECTIVE .. "(.*)$")
        if rest and rest:match("^%S") then rest = nil end
        asked = asked or rest ~= nil
        for item in (rest or ""):gmatch("%S+") do
            local key, value = item:match("^([^=]+)=(.+)$")
            local known = KEYS[key or item]
            if not known then return nil, string.format("%s %s: there is no such key", DIRECTIVE, key or item) end
            if not value then return nil, string.format("%s %s: it has no value", DIRECTIVE, item) end
            if seen[key] and not known.many then return nil, string.format("%s %s: it is there twice", DIRECTIVE, key) end
            local sound, why = known.check(value)
            if not sound then return nil, string.format("%s %s=%s: %s", DIRECTIVE, key, value, why) end
            seen[key] = sound
            if known.option then table.insert(words, known.option .. " '" .. sound .. "'") end
        end
    end
    if not asked then return nil end
    local bytes = seen.size or seen.capacity
    if not bytes then return nil, DIRECTIVE .. " size: it is missing; say how much files may take, such as size=64GB" end
    if seen.size and seen.capacity then return nil, DIRECTIVE .. " capacity: it is the same as size; give one of them" end
    return { words = table.concat(words, " "), bytes = bytes }
end

-- The line that has the script run by the file system; each node has its part of the capacity.
local function begins(asked)
    local part = "$(( (%s + SLURM_JOB_NUM_NODES - 1) / SLURM_JOB_NUM_NODES + %.0f ))"
    local each = part:format(asked.bytes, HEAD_ROOM)
    local run = 'tidefs run --slurm --mount "/tmp/tidefs-$SLURM_JOB_ID" --node-memory %s %s -- "$0" "$@"'
    -- Also where the script is run with -u.
    local begin = '[ "${%s-}" = "$SLURM_JOB_ID" ] || { %s="$SLURM_JOB_ID"; export %s; exec %s; }'
    return begin:format(BEGUN, BEGUN, BEGUN, run:format(each, asked.words))
end

-- The name of what a script is run by.
local function interpreter(first)
    local path, argument = first:match("^#!%s*(%S+)%s*(%S*)")
    local name = (path or ""):match("[^/]*$")
    return name == "env" and argument or name
end

-- The script with that line before its first command.
local function rewritten(script, line)
    local first, rest = script:match("^([^\n]*\n)(.*)$")
    if not first or not SHELLS[interpreter(first)] then
        return nil, DIRECTIVE .. ": the script begins with no shell; its first line has to be such as #!/bin/bash"
    end
    -- Of salloc and srun Slurm has the directives alone.
    if not ("\n" .. rest):match("\n[ \t]*[^#%s%c]") then
        return nil, DIRECTIVE .. ": there is no script; in a shell of salloc, type: tidefs run --slurm -- COMMAND"
    end
    return first .. line .. "\n" .. rest
end

function slurm_bb_job_process(path)
    local file = io.open(path, "rb")
    if not file then return slurm.ERROR, "cannot read the job's script" end
    local script = file:read("*a")
    file:close()
    local asked, why = asked_for(script)
    if why then return slurm.ERROR, why end
    local line = asked and begins(asked)
    -- Slurm may ask again for what it has seen, such as when its controller starts.
    if not asked or script:find(line, 1, true) then return slurm.SUCCESS end
    local new
    new, why = rewritten(script, line)
    if not new then return slurm.ERROR, why end
    file = io.open(path, "wb")
    if not file then return slurm.ERROR, "cannot write the job's script" end
    local is_written = file:write(new)
    if not file:close() or not is_written then return slurm.ERROR, "cannot write the job's script" end
    return slurm.SUCCESS
end

function slurm_bb_paths(job, _, path)
    local file = io.open(path, "w")
    if not file then return slurm.ERROR, "cannot write the job's variables" end
    file:write("TIDEFS_MOUNT=/tmp/tidefs-" .. job .. "\n")
    file:close()
    return slurm.SUCCESS
end

function slurm_bb_pools()
    return slurm.SUCCESS, string.format('{"pools":[{"id":"%s","quantity":%.0f,"granularity":1}]}', POOL, POOL_BYTES)
end

function slurm_bb_get_status() return slurm.SUCCESS, "file systems of jobs: tidefs status, on a node of the job\n" end

function slurm_bb_real_size() return slurm.SUCCESS, "" end

-- What the file system has is in the job: it comes and goes with it.
local function nothing() return slurm.SUCCESS end
for moment in ("setup data_in test_data_in pre_run post_run data_out test_data_out job_teardown"):gmatch("%S+") do
    _G["slurm_bb_" .. moment] = nothing
end
