-- The ledger of one run: what was asked of the outside world, and how it ended. One call of this
-- script is one operation, atomic, by the server's own clock. For Redis 7 and Valkey 9.
--
-- (KEYS[1]: the run's hash `onward:{R}`, ARGV[1]: op, then name, value, name, value …)
--     -> flat list name, value, …; always with `verdict`
--
--   begin    nonce:str lineage:flag
--   claim    step:str fp:str cls:str token:str lease_ms:int nonce:str inc:str strict:flag
--            needs_ds:flag [turn:str]
--   renew    step fp token lease_ms
--   complete step fp cls token result:str [sha:hex] [turn:str]
--   fail     step fp cls token fence:int result:str [sha:hex]
--   doubt    step fp cls token why:str
--   release  step fp token maybe:flag count:flag
--   resolve  step fp cls at:int to:done|failed|retry quarantine_ms:int by:str [result [sha]]
--   restore  step fp cls st:done|failed|doubt [result [sha]] [why] [at:int] [turn]
--   turn     step turn:str                        also of a restore: a turn without a record
--   end      ttl_ms:int if_unset:flag
--   usage    step token usage:str (JSON)          `usages step` brings those of all attempts
--   read     steps:str (JSON list; absent: the whole run)
--   flag is '0' or '1'; sha is given where the result is too long to live in the hash.
--
-- Fields of the hash: `_ds` birth nonce, `_fence` the highest fence, `turn:<step>` the frozen user
-- turn, `u:<step>` usage by attempt, `b:<sha>` one per text in a key of its own, `onward:{R}:b:<sha>`
-- (same hash tag, same slot): empty for a result, `whole` for a text of which a result of before 0.3
-- shows a part, and which no look-up brings; and the records `s:<step>`, JSON of
--   v      version of this layout
--   st     open     nobody works on it; `ms` says whether an earlier request may still land
--          claimed  the attempt `own` may be sending its request right now
--          done     it happened, and this is the one result that everybody gets
--          failed   it was refused and certainly did nothing
--          doubt    it may or may not have happened; nobody sends it again
--   own    token of the attempt that claimed it last
--   fp     fingerprint of what was asked; another one never gets this record's answer
--   cls    effect class; one that this script does not know is treated as at_most_once
--   fence  rises with every claim
--   exp    end of the lease, ms; decides patience, never safety. Of a doubt: when it was written
--          here; whoever may have sent claimed before that, so a person's quarantine counts from it
--   first  ms of the first claim that counts;   n  claims that count: each may have sent a request
--   ms     1: a request sent before the owner's may still land, so a later refusal proves nothing
--   res, err, ref   result, error, or the SHA-256 of one of these out of line
--   why, by         of a doubt: the reason; of what a person settled: who
--   at              when it ended, ms; of a doubt also its name, which never comes twice

local VERSION = 1
local SHAPE = { st = 'string', own = 'string', fp = 'string', cls = 'string',
                fence = 'number', exp = 'number', first = 'number', n = 'number', ms = 'number' }
local STATES = { open = true, claimed = true, done = true, failed = true, doubt = true }
-- Classes that may send again after an attempt was lost.
local SENDS_AGAIN = { read = true, keyed = true, transactional = true, sealed = true, timed = true }
-- Classes in which no earlier request lands after a refusal: a read has no effect, and the attempt
-- that was refused had the downstream shut every earlier one out.
local REFUSAL_IS_PROOF = { read = true, sealed = true }

-- `given` and not `arg`: Lua 5.1 hides that name in every function that takes `...`.
local hash, op, given = KEYS[1], ARGV[1], {}
for i = 2, #ARGV, 2 do given[ARGV[i]] = ARGV[i + 1] end
local time = redis.call('TIME')
local now = tonumber(time[1]) * 1000 + math.floor(tonumber(time[2]) / 1000)

-- ---- lifetime: no expiry while anybody works on the run; out-of-line results follow their hash

local function each_blob(command, ...)
  for _, field in ipairs(redis.call('HKEYS', hash)) do
    if string.sub(field, 1, 2) == 'b:' then redis.call(command, hash .. ':' .. field, ...) end
  end
end

local function persist()
  if redis.call('PERSIST', hash) == 1 then each_blob('PERSIST') end
end

-- ---- which dataset this is

local function birth_nonce() return redis.call('HGET', hash, '_ds') or nil end

-- Changes when the server restarts and when a replica is promoted. Read here and not by the client:
-- between two calls another node could have answered.
local function incarnation()
  return string.match(redis.call('INFO', 'server'), 'run_id:(%w+)') .. ':'
      .. string.match(redis.call('INFO', 'replication'), 'master_replid:(%w+)')
end

-- "Absent" means "never sent" only in the very dataset that an earlier claim would have written.
local function trusted(ds)
  return ds ~= nil and given.nonce ~= '' and ds == given.nonce
      and (given.strict == '1' or given.inc == incarnation())
end

-- ---- effect classes

-- The record's class counts too: between two deploys a tool may have changed its promise.
local function is_one_of(classes, rec) return classes[given.cls] and (not rec or classes[rec.cls]) end

-- `timed` waits until what was sent has landed, by this node's clock; where a lossy dataset is not
-- trusted, another node may have given a claim later than that.
local function sends_after_loss(rec)
  local guess = given.cls == 'timed' and given.strict ~= '1'
  return is_one_of(SENDS_AGAIN, rec) and not guess
end

-- ---- records

local function well_formed(rec)
  if type(rec) ~= 'table' or rec.v ~= VERSION or not STATES[rec.st] then return false end
  for field, kind in pairs(SHAPE) do
    if type(rec[field]) ~= kind then return false end
  end
  return true
end

-- -> record or nil, raw text that cannot be understood or nil
local function load(step)
  local raw = redis.call('HGET', hash, 's:' .. step)
  if not raw then return nil, nil end
  local parsed, rec = pcall(cjson.decode, raw)
  if parsed and well_formed(rec) then return rec, nil end
  return nil, raw
end

-- One HSET, so that a server that is full refuses all of it or nothing.
local function save(rec, ...)
  rec.v = VERSION
  redis.call('HSET', hash, 's:' .. given.step, cjson.encode(rec), ...)
end

local function turn_field()
  if given.turn then return 'turn:' .. given.step, given.turn end
end

local function result_of(rec)
  if rec.ref then return redis.call('GET', hash .. ':b:' .. rec.ref) or nil end
  return rec.res or rec.err
end

-- It ended, but the out-of-line result was evicted: worth no more than a record that is lost.
local function result_lost(rec) return rec and rec.ref and not result_of(rec) end
local function settled(rec)
  return rec and (rec.st == 'done' or rec.st == 'failed') and not result_lost(rec)
end

local function keep_result(rec)
  if given.sha then
    redis.call('SET', hash .. ':b:' .. given.sha, given.result)
    redis.call('HSET', hash, 'b:' .. given.sha, '')
    rec.ref = given.sha
  elseif rec.st ~= 'doubt' then
    rec[rec.st == 'done' and 'res' or 'err'] = given.result or ''
  end
end

local function ended(st, rec)
  rec = rec or { own = given.token or '', fence = 0, first = now, n = 0, ms = 1 }
  local doubt = st == 'doubt'
  return { st = st, own = rec.own, fp = given.fp, cls = given.cls, fence = rec.fence,
           exp = doubt and now or 0, first = rec.first, n = rec.n, ms = doubt and rec.ms or 0,
           -- Two doubts of one moment, or a clock that steps back: a person who saw the first one
           -- must not settle the second.
           at = math.max(now, (rec.at or 0) + 1) }
end

-- ---- answers

-- JSON of texts by token: what each attempt of a step of Claude's has used.
local function usages() return redis.call('HGET', hash, 'u:' .. given.step) or '{}' end

local function answer(verdict, rec, more)
  local out = { 'verdict', verdict, 'now_ms', now }
  local function add(name, value)
    if value ~= nil then out[#out + 1] = name; out[#out + 1] = value end
  end
  if rec then
    add('fence', rec.fence); add('ms', rec.ms); add('n', rec.n); add('first_ms', rec.first)
    add('why', rec.why); add('result', result_of(rec))
    if rec.st == 'doubt' then add('at', rec.at) end
    if given.turn then add('turn', redis.call('HGET', hash, 'turn:' .. given.step) or nil) end
  end
  if given.turn and op == 'claim' then add('usages', usages()) end
  if given.turn then                -- a step of Claude's: its calls take their witness from this answer
    local ds = birth_nonce()
    if ds then add('nonce', ds); add('inc', incarnation()) end
  end
  for name, value in pairs(more or {}) do add(name, value) end
  return out
end

local function fenced(rec) return answer('fenced', nil, { why = rec and rec.st or 'absent' }) end

local function doubt(rec, why, own)
  local new = ended('doubt', rec)
  new.own, new.why = own or new.own, why
  save(new)
  return answer('doubt', new)
end

-- ---- operations

local function take(rec, ms)
  local again = rec and rec.n > 0
  local fence = math.max(tonumber(redis.call('HGET', hash, '_fence') or 0) + 1, now)
  local new = { st = 'claimed', own = given.token, fp = given.fp, cls = given.cls, fence = fence,
                exp = now + tonumber(given.lease_ms), first = again and rec.first or now,
                n = (rec and rec.n or 0) + 1, ms = ms, at = rec and rec.at }
  local text = string.format('%.0f', fence)
  local frozen = redis.call('HEXISTS', hash, 'turn:' .. given.step) == 1
  if frozen then save(new, '_fence', text) else save(new, '_fence', text, turn_field()) end
  return answer('claimed', new)
end

local function claim_absent(ds, lost)
  if not lost and trusted(ds) then return take(nil, 0) end
  if sends_after_loss(lost) then return take(nil, 1) end
  return doubt(nil, lost and 'result_lost' or 'records_lost', '')
end

local function claim_claimed(rec)
  if rec.own == given.token then    -- the reply to this very claim was lost
    rec.exp = now + tonumber(given.lease_ms)
    save(rec)
    return answer('claimed', rec)
  end
  if rec.exp > now then return answer('busy', rec, { wait_ms = rec.exp - now }) end
  if is_one_of(SENDS_AGAIN, rec) then return take(rec, 1) end
  return doubt(rec, 'owner_lost')
end

local ops = {}

function ops.begin()
  -- In a run made by a reset a new nonce would make the records that were lost "never sent".
  if given.lineage == '1' then return answer('begun') end
  local ds = birth_nonce()
  if not ds then ds = given.nonce; redis.call('HSET', hash, '_ds', ds) end
  return answer('begun', nil, { nonce = ds, inc = incarnation() })
end

function ops.claim(rec)
  local ds = birth_nonce()
  if given.needs_ds == '1' and not ds then return answer('gap') end
  if not rec or result_lost(rec) then return claim_absent(ds, rec) end
  if rec.st == 'open' then return take(rec, rec.ms) end
  if rec.st == 'claimed' then return claim_claimed(rec) end
  return answer(rec.st, rec)
end

function ops.renew(rec)
  if not (rec and rec.st == 'claimed' and rec.own == given.token) then return fenced(rec) end
  rec.exp = now + tonumber(given.lease_ms)
  save(rec)
  return answer('claimed', rec)
end

function ops.complete(rec)
  if settled(rec) then return answer(rec.st, rec) end
  -- Absent: the truth is restored. In doubt: the truth comes late, from whichever attempt knows it.
  local busy = rec and (rec.st == 'claimed' or rec.st == 'open')
  if busy and rec.own ~= given.token then return fenced(rec) end
  local new = ended('done', rec)
  new.own = given.token
  keep_result(new)
  -- The turn again: after a wipe a reply would stand there without what it answers.
  save(new, turn_field())
  return answer('done', nil)      -- without result and turn: the caller's own are recorded
end

function ops.fail(rec)
  if settled(rec) then return answer(rec.st, rec) end
  -- The fence too: a late second copy of its claim would make it the owner again, after others had
  -- sent; that claim sealed nothing, and its refusal would prove nothing.
  local own = rec and rec.own == given.token and rec.fence == tonumber(given.fence)
  -- Its own doubt, taken back; not one with an earlier request, so a repeated `fail` changes nothing.
  local late = own and rec.st == 'doubt' and rec.ms == 0 and not is_one_of(SENDS_AGAIN, rec)
  if not late and not (own and rec.st == 'claimed') then return fenced(rec) end
  -- This request was refused; one that was sent before it may land all the same.
  if not late and rec.ms == 1 and not is_one_of(REFUSAL_IS_PROOF, rec) then
    return doubt(rec, 'refused, but an earlier request may still land')
  end
  local new = ended('failed', rec)
  keep_result(new)
  save(new)
  return answer('failed', nil)
end

function ops.doubt(rec)
  if not rec or (rec.st == 'claimed' and rec.own == given.token) then return doubt(rec, given.why) end
  if rec.st == 'claimed' or rec.st == 'open' then return fenced(rec) end
  return answer(rec.st, rec)
end

function ops.release(rec)
  if not rec or rec.own ~= given.token then return fenced(rec) end
  if rec.st == 'open' then return answer('open', rec) end   -- the reply to this release was lost
  if rec.st ~= 'claimed' then return fenced(rec) end
  rec.st, rec.exp = 'open', 0
  if given.maybe == '1' then rec.ms = 1 end
  if given.count == '0' then rec.n = rec.n - 1 end
  save(rec)
  return answer('open', rec)
end

-- A person settles the doubt that they looked at.
function ops.resolve(rec)
  -- Not the record that they looked at: history brings it back, and then they are heard again.
  if not rec or rec.fp ~= given.fp or rec.st == 'claimed' or result_lost(rec) then
    return answer('gap')
  end
  if rec.st ~= 'doubt' then return answer(rec.st, rec) end
  if rec.at ~= tonumber(given.at) then return answer('stale', rec) end
  local wait_ms = math.max(rec.at, rec.exp) + tonumber(given.quarantine_ms) - now
  -- Until then a request may be under way that nobody sees downstream yet.
  if given.to ~= 'done' and wait_ms > 0 then return answer('early', nil, { wait_ms = wait_ms }) end
  local new = ended(given.to == 'retry' and 'open' or given.to, rec)
  new.by = given.by
  -- Counted anew: else the retry that a person asked for would be given up at once.
  if new.st == 'open' then new.n, new.ms = 0, 1 else keep_result(new) end
  save(new)
  return answer(new.st)
end

function ops.restore(rec)
  local same = rec and rec.fp == given.fp and rec or nil
  -- A truth that came late stands; of another fingerprint it would be no answer to this doubt.
  if given.st == 'doubt' and settled(same) then return { 'verdict', same.st } end
  local new = ended(given.st, same)
  -- What history says of a doubt, no attempt may take back as its own.
  new.own, new.why = '', given.why
  new.at = tonumber(given.at) or new.at
  local stands = same and same.st == 'doubt' and same.at == new.at
  if new.st == 'doubt' and stands then new.exp = same.exp end
  keep_result(new)
  save(new, turn_field())
  return { 'verdict', new.st }
end

function ops.turn()
  redis.call('HSET', hash, 'turn:' .. given.step, given.turn)
  return { 'verdict', 'written' }
end

ops['end'] = function()
  -- A janitor that comes by again and again would put the end off for ever.
  if given.if_unset == '1' and redis.call('PTTL', hash) ~= -1 then return answer('kept') end
  each_blob('PEXPIRE', given.ttl_ms)
  return answer(redis.call('PEXPIRE', hash, given.ttl_ms) == 1 and 'ended' or 'absent')
end

function ops.usages() return answer('read', nil, { usages = usages() }) end

function ops.usage()
  local all = cjson.decode(usages())
  all[given.token] = given.usage
  redis.call('HSET', hash, 'u:' .. given.step, cjson.encode(all))
  return answer('written')
end

local LOOKED_UP = { _ds = true, s = true, turn = true, b = true }
function ops.read()
  local out = { 'verdict', 'read', '_inc', incarnation() }
  local function add(field, value)
    local kind = string.match(field, '^[^:]+')
    if kind == 'b' then value = value == '' and redis.call('GET', hash .. ':' .. field) end
    if value and LOOKED_UP[kind] then out[#out + 1] = field; out[#out + 1] = value end
  end
  if not given.steps then
    local all = redis.call('HGETALL', hash)
    for i = 1, #all, 2 do add(all[i], all[i + 1]) end
    return out
  end
  add('_ds', birth_nonce())
  for _, step in ipairs(cjson.decode(given.steps)) do
    local rec = load(step)
    add('s:' .. step, redis.call('HGET', hash, 's:' .. step))
    add('turn:' .. step, redis.call('HGET', hash, 'turn:' .. step))
    if rec and rec.ref then add('b:' .. rec.ref, '') end
  end
  return out
end

-- ---- one call

local function run()
  if not given.fp then return ops[op]() end
  local rec, unreadable = load(given.step)
  if unreadable then return { 'verdict', 'unreadable', 'why', string.sub(unreadable, 1, 200) } end
  if rec and op ~= 'restore' and op ~= 'resolve' and rec.fp ~= given.fp then
    return answer('mismatch', nil, { why = rec.fp })
  end
  return ops[op](rec)
end

if op == 'end' then return run() end
-- A full server refuses the first write of a script that needs memory. What would start something
-- new may be refused (nothing was sent); what says how something ended must get in. PERSIST needs
-- no memory, and after it the writes of the same call are let through.
local starts = op == 'claim' or op == 'begin' or op == 'restore' or op == 'turn'
if not starts then persist() end
local reply = run()
if starts then persist() end
return reply
