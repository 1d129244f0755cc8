-- The rate limits of one pool of models, shared by all workers; one call, one atomic decision.
--
-- KEYS  of `take`: a reservation and the pool's hash; of `settle` and `drop`: the reservation, which
--       names its pool; of `learn` and `slow`: the pool's hash. All have one hash tag, one slot.
-- ARGV  the operation, then names and numbers:
--   take    input [cap_requests cap_input cap_output]   -> free | go | wait ms why limit
--   settle  requests input output                       what the request counted in truth
--   drop                                                nobody will come back for it
--   learn   low [limit_<kind> remaining_<kind>]         of a response's headers
--   slow    seconds guessed:0|1                         after a 429; a guess grows with each
--
-- Virtual scheduling (GCRA). For each kind the hash holds when all that was given out is used up, at
-- the limit's pace. A request is given the earliest time at which all kinds have room and is charged
-- at once, so whoever comes later is given a later time: first come, first served.
--
-- Times are ms of a clock that stands still while all wait for the API after a 429: what was given
-- out before keeps its order and its distances. Fields of the hash, all numbers:
--   limit_<kind>  what the API said, a minute
--   full_<kind>   when all that was given out is used up;   last_<kind>  at least, by the newest alone
--   sent_<kind>   when what was sent is used up, without those who wait
--   spare_<kind>  ms that were not given out, or not used, up to a limit
--   asked_<kind>, counted_<kind>   of the last requests: what was estimated (of output, how many
--                 there were) and what was counted
--   paused        the server's time until which nobody goes;   behind  ms that the clock is behind
--   waiting       reservations whose time has not come; also those that nobody comes back for
--   refusals      429s in a row that did not say how long to wait;   seen  the server's time, last
-- A reservation is JSON: its `pool`; its time `at`; `used` once its request was sent; `why` it waits,
-- and for what `limit`; and by kind `asked`, `charged`, `pace` in tokens a ms, `full` and `last`.

local KINDS = { 'requests', 'input', 'output' }
local MINUTE = 60000
-- Of the limit: what is given out all the time, and what may be given out at once. Together they are
-- the whole limit, so no minute is given more of it, but for the last request's tokens.
local PACE, DEPTH = 0.98, 0.02
-- The API saves up a minute's worth, from which all of this is taken in the worst case: what comes
-- late, what was spare, and DEPTH. Who comes later still queues again.
local LATE, SPARE = 2 / 3 * MINUTE, 1 / 4 * MINUTE
local LONGEST_REQUEST, KEPT = 3600000, 86400000
local LONGEST_HINT, LONGEST_GUESS = 600000, 120000
-- Of what was learned from one request, the part that is left after the next.
local MEMORY = 0.98
local UNTIL_LEARNED = { requests = 1, input = 1, output = 300 }

local op, given = ARGV[1], {}
for i = 2, #ARGV, 2 do given[ARGV[i]] = tonumber(ARGV[i + 1]) end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + tonumber(time[2]) / 1000

local who, held = KEYS[1], nil
if op == 'take' or op == 'settle' or op == 'drop' then
  local raw = redis.call('GET', who)
  held = raw and cjson.decode(raw)
  if not held and op ~= 'take' then return { 'absent' } end
end
local pool = held and held.pool or KEYS[#KEYS]

local state = { paused = 0, behind = 0, waiting = 0, refusals = 0 }
for _, kind in ipairs(KINDS) do
  state['full_' .. kind], state['sent_' .. kind] = 0, 0
  state['last_' .. kind], state['spare_' .. kind] = 0, SPARE
end
local fields = redis.call('HGETALL', pool)
for i = 1, #fields, 2 do state[fields[i]] = tonumber(fields[i + 1]) end

local changed = {}
local function put(field, value)
  state[field], changed[field] = value, true
end

-- All at once: each command is one more for the server's disk and for its replicas.
local function write()
  if not next(changed) then return end
  put('seen', now)
  local found = {}
  for field in pairs(changed) do
    table.insert(found, field)
    table.insert(found, string.format('%.3f', state[field]))
  end
  redis.call('HSET', pool, unpack(found))
  redis.call('PEXPIRE', pool, KEPT)
end

-- A clock that was set back, or a replica's that is behind and takes over, would keep all waiting
-- until it is where it was: time goes on from there.
local back = (state.seen or now) - now
if back > 0 then
  put('behind', state.behind - back)
  put('paused', state.paused - back)
end

local function clock() return math.max(now, state.paused) - state.behind end

local function pause(ms)
  local before, after = math.max(now, state.paused), now + ms
  if after > before then
    put('behind', state.behind + after - before)
    put('paused', after)
  end
end

-- ---- reservations

local function save(ms) redis.call('SET', who, cjson.encode(held), 'PX', math.ceil(ms)) end

-- Not DEL, which the ledger's users need no permission for.
local function forget() redis.call('PEXPIRE', who, 0) end

local function limit(kind)
  local least = math.min(state['limit_' .. kind] or math.huge, given['cap_' .. kind] or math.huge)
  return least < math.huge and least or nil
end

-- What a request counts for each unit of `asked`: learned, since estimates err in one direction.
local function estimate(kind, asked)
  local sum = state['asked_' .. kind]
  return asked * (sum and state['counted_' .. kind] / sum or UNTIL_LEARNED[kind])
end

local function learn_from(kind, counted)
  local asked = state['asked_' .. kind] or 0
  put('counted_' .. kind, (state['counted_' .. kind] or 0) * MEMORY + counted)
  put('asked_' .. kind, asked * MEMORY + held.asked[kind])
end

local function price(kind, most)
  local pace, charged = PACE * most / MINUTE, math.min(estimate(kind, held.asked[kind]), most)
  held.pace[kind], held.charged[kind] = pace, charged
  return state['full_' .. kind] - math.max(DEPTH * most - charged, 0) / pace
end

local function charge(kind)
  local took = held.charged[kind] / held.pace[kind]
  local idle = math.max(held.at - state['full_' .. kind], 0)
  put('spare_' .. kind, math.min(state['spare_' .. kind] + idle, SPARE))
  held.full[kind], held.last[kind] = state['full_' .. kind] + idle + took, held.at + took
  put('full_' .. kind, held.full[kind])
  put('last_' .. kind, held.last[kind])
end

local function reserve()
  held = { pool = pool, at = clock(), charged = {}, pace = {}, full = {}, last = {} }
  held.asked = { requests = 1, input = math.max(given.input, 1), output = 1 }
  for _, kind in ipairs(KINDS) do
    local most = limit(kind)
    local ready = most and price(kind, most) or 0
    if ready > held.at then held.at, held.why, held.limit = ready, kind, most end
  end
  for kind in pairs(held.pace) do charge(kind) end
end

local function wait()
  if not held.waits then put('waiting', state.waiting + 1) end
  held.waits = true
end

local function no_longer_waits()
  if held.waits then put('waiting', math.max(state.waiting - 1, 0)) end
  held.waits = false
end

local function send()
  no_longer_waits()
  held.used = true
  for kind, full in pairs(held.full) do
    if full > state['sent_' .. kind] then put('sent_' .. kind, full) end
  end
end

-- An error of an estimate must cost no capacity: what one request counts less is spare for the next
-- that counts more.
local function delay(kind, ms)
  local spared = math.min(ms, state['spare_' .. kind])
  put('spare_' .. kind, state['spare_' .. kind] - spared)
  put('full_' .. kind, state['full_' .. kind] + ms - spared)
  return ms - spared
end

local function hasten(kind, ms)
  -- What was given out after it keeps its time, so no more than the rest can be given out again.
  if held.last[kind] > state['last_' .. kind] - 1 then
    put('last_' .. kind, state['last_' .. kind] - ms)
  end
  local sooner = math.min(math.max(state['full_' .. kind] - state['last_' .. kind], 0), ms)
  put('full_' .. kind, state['full_' .. kind] - sooner)
  put('spare_' .. kind, math.min(state['spare_' .. kind] + ms - sooner, SPARE))
  return -ms
end

local function correct(real)
  for kind, pace in pairs(held.pace) do
    -- One request, however large, never keeps the others waiting for more than a minute.
    local more_ms = (math.min(real[kind], pace * MINUTE / PACE) - held.charged[kind]) / pace
    local by_ms = more_ms > 0 and delay(kind, more_ms) or hasten(kind, -more_ms)
    if held.used then put('sent_' .. kind, state['sent_' .. kind] + by_ms) end
  end
end

-- ---- operations

local ops = {}

function ops.take()
  local known = limit('requests') or limit('input') or limit('output')
  if not held and not known and state.paused <= now then return { 'free' } end
  -- The attempt that used it is gone, and what it sent is paid for: this is another request.
  local new = not held or held.used
  if new then reserve() end
  local at = math.max(held.at + state.behind, state.paused)
  if at <= now then
    if new then put('waiting', 0) end  -- nobody waits; some who did will not come back
    send()
    save(LONGEST_REQUEST)
    return { 'go' }
  end
  wait()
  save(at - now + LATE)
  return { 'wait', math.ceil(at - now), held.why or '', math.floor(held.limit or 0) }
end

function ops.settle()
  if not held.used then return { 'waits' } end
  correct(given)
  forget()
  if given.output > 0 then
    learn_from('input', given.input)
    learn_from('output', given.output)
    put('refusals', 0)
  end
  return { 'settled' }
end

function ops.drop()
  if held.used then return { 'used' } end
  correct({ requests = 0, input = 0, output = 0 })
  no_longer_waits()
  forget()
  if state.waiting == 0 then
    -- Where many queued for one kind, the others were reserved for as late a time: that is over.
    for _, kind in ipairs(KINDS) do
      put('full_' .. kind, state['sent_' .. kind])
      put('last_' .. kind, 0)
    end
  end
  return { 'dropped' }
end

-- What the API has counted and we have not: requests of before the limits were known, and of others.
-- Where that leaves little, those who have their time already must wait too.
local function unknown_to_us(kind, most, left)
  local known = math.max(state['sent_' .. kind] - clock(), 0) * most / MINUTE
  return most - left - known
end

function ops.learn()
  for _, kind in ipairs(KINDS) do
    local most, left = given['limit_' .. kind], given['remaining_' .. kind]
    if most then
      put('limit_' .. kind, most)
      left = left or most
      local lacking = math.min(given.low * most - left, unknown_to_us(kind, most, left))
      if lacking > 0 then pause(lacking / most * MINUTE) end
    end
  end
  return { 'learned' }
end

function ops.slow()
  local ms = math.min(given.seconds * 1000, LONGEST_HINT)
  if given.guessed == 1 then
    -- One moment's many refusals are not many in a row.
    if state.paused <= now then
      put('refusals', (now - state.paused < MINUTE and state.refusals or 0) + 1)
    end
    ms = math.min(ms * 2 ^ (state.refusals - 1), LONGEST_GUESS)
  end
  pause(ms)
  return { 'slowed' }
end

local answer = ops[op]()
write()
return answer
