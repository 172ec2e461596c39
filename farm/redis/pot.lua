-- Calls of a farm.Pot, one after the other. farm/farmtest/potmem.go and potways.go say the same in Go; a test compares
-- them call by call. Several calls in one script share what each script costs: an engine spends more on that than on a
-- call.
--
-- KEYS, for each call: what is kept for its key; which engine this is, and since when. Both are under one hash tag.
-- ARGV: a time and an identity for tests ("" for the engine's own), and all calls in one text. Each call has:
--   its length, with this number (4 bytes), and a byte that says what follows (1, 2 and 4 are added up);
--   1: run, and the identity that the call is for, each after a byte with its length. Otherwise those of the call before;
--   2: the live runs after their length (4 bytes), each after a byte with its length. Otherwise those of the call before;
--   4: the usual call: seq, and of its only want, which is in fixed periods: id (12 bytes), limit, used, need, ahead, of
--   its mark version, slice and own, then period, start, end, and of its mark the changes of the run, all changes, stop
--   and sum. Without a mark the version is 0 and the slice -1;
--   otherwise: seq, the number of wants (none to drop the key), and for each want: id (12 bytes), way, limit, burst,
--   period, start, end, life, what else (1 to forget, 2 where a part is unknown;
--   they are added up), used, need, ahead, how many numbers its mark has,
--   and those numbers: version, slice, own, and what follows from the way.
-- Times are in microseconds: nanoseconds are beyond 2^53. Numbers travel as they are in memory: an engine would spend
-- more on reading and writing digits than on counting. It also spends more on an argument than on a few numbers.
--
-- The answer has a text for each call. It begins with what happened:
--   g  the usual call is granted: now, version, slice, own, changes of the run, all changes, stop, sum
--   o  now, granted, stale, failed, wait, the number of runs that must tell, those runs, each after its length, and for
--      each want: slice, total, others, left, how long, how many numbers its mark has, and those numbers
--   u  outside of the period: now
--   e  another engine: now, its identity
--   l  too many rules;  r  too many runs

local STEP = 2000000
local USUAL = 132 -- the length of what follows of a usual call
local call, pack, unpack, byte, sub = redis.call, struct.pack, struct.unpack, string.byte, string.sub
local min, max = math.min, math.max
local KEYS, calls = KEYS, ARGV[3]

local time = tonumber(ARGV[1])
if not time then
  local t = call('TIME')
  time = t[1] * 1000000 + t[2]
end
local engine = ARGV[2]
if engine == '' then engine = string.match(call('INFO', 'replication'), 'master_replid:(%x+)') end

-- Of the call that is answered. It begins at asked.
local run, live, usual, asked, now

-- The time does not run back by less than STEP: that would open a slice again that is over.
local function later(t)
  if t > now and t <= time + STEP then now = t end
end

-- A key with one limit in fixed periods, which is open, is kept flat: F, id, now, version, start, stop, sum, till,
-- changes, the number of runs, the engine after its length; and for each run its name after its length, seq, when it was
-- seen, and its slice (-1 if it has none), total, used and changes.
local FLAT, RUN = '<c1c12dddddddBBc0', '<Bc0dddddd'
local ONE = '<Bc12dddddddBBc0Bc0dddddd' -- both; F is a number

-- quick answers the usual call: some more of a limit that is kept flat, within its period, by a run that is known. For
-- all others it returns nil, and has changed nothing. Each call of a function costs as much as several lines of Lua, so
-- it has few.
local function quick(name, kept)
  if byte(kept) ~= 70 then return nil end -- F
  local seq, id, limit, has, need, ahead, told, slice = unpack('<dc12dddddd', calls, asked)
  local _, of, seen, ver, start, stop, sum, till, changes, runs, kin, who, last, _, part, total, _, mine, at =
    unpack(ONE, kept)
  if of ~= id or kin ~= engine then return nil end
  now = time
  if seen > now and seen <= time + STEP then now = seen end
  if slice > now and slice <= time + STEP then now = slice end
  if now >= stop or start - now > stop - start then return nil end
  local found = 1
  while who ~= run do
    if found == runs then return nil end
    found = found + 1
    who, last, _, part, total, _, mine, at = unpack(RUN, kept, at)
  end
  if seq <= last or part < 0 and told > 0 then return nil end
  local cur, used = 0, 0
  if part == start then cur = total end
  if slice == start then used = has end
  sum = sum + used - cur
  if sum < 0 then sum = 0 end
  local fits = limit - sum - need -- after what is needed
  if need > 0 and fits < 0 then return nil end
  if ahead > fits then ahead = fits end
  local n = need
  if ahead > 0 then n = n + ahead end
  if used + n ~= cur then mine, changes = mine + 1, changes + 1 end
  ver, cur, sum = ver + 1, used + n, sum + n
  if now > ver then ver = now end
  local text
  if runs == 1 then
    text = pack(ONE, 70, id, now, ver, start, stop, sum, till, changes, 1, #kin, kin, #run, run, seq, now, start, cur,
      used, mine)
  else
    text = pack('<Bc12dddddddB', 70, id, now, ver, start, stop, sum, till, changes, runs) .. sub(kept, 71, at - 49) ..
      pack('<dddddd', seq, now, start, cur, used, mine) .. sub(kept, at)
  end
  call('SET', name, text, 'KEEPTTL')
  return pack('<Bdddddddd', 103, now, ver, start, cur, mine, changes, stop, sum) -- g
end

-- thorough makes what answers all other calls. Most scripts do not need it.
local function thorough()
  local FIXED, SLIDING, STEADY = 0, 1, 2
  local SLACK = 60000000
  local MOST = 2 ^ 50
  local NEVER = -1
  local MAXRUNS, MAXRULES = 128, 256
  local YEAR = 366 * 24 * 3600 * 1000
  local tail = sub('        ' .. engine, -8)
  local UNKNOWN = pack('<Bc0', 1, '?') -- no node has this name

  local floor, ceil = math.floor, math.ceil
  local format, match, tonumber = string.format, string.match, tonumber

  -- Of the call that is answered.
  local key, birth

  -- want reads what is wanted of one rule. It returns where the next one begins.
  local function want(at)
    local w, also, numbers = { cur = 0, used = 0, ver = 0, slice = -1, own = 0 }, 0, 0
    w.id, w.way, w.limit, w.burst, w.period, w.start, w.stop, w.life, also, w.has, w.need, w.ahead, numbers, at =
      unpack('<c12dddddddddddd', calls, at)
    w.forget, w.unknown = also % 2 == 1, also >= 2
    if numbers > 0 then
      w.ver, w.slice, w.own, at = unpack('<ddd', calls, at)
      w.body = {}
      for i = 1, numbers - 3 do w.body[i], at = unpack('<d', calls, at) end
    end
    if w.way == FIXED then
      later(w.slice)
    elseif w.way == SLIDING then
      w.len = ceil(w.period / 16)
      later(w.slice * w.len)
    end
    return w, at
  end

  -- only reads the want of a usual call.
  local function only(at)
    local w = { cur = 0, used = 0, way = FIXED, burst = 0, life = 0, body = {} }
    local b = w.body
    w.id, w.limit, w.has, w.need, w.ahead, w.ver, w.slice, w.own, w.period, w.start, w.stop, b[1], b[2], b[3], b[4] =
      unpack('<c12dddddddddddddd', calls, at)
    later(w.slice)
    return w
  end

  -- read returns what is kept of a key.
  local function read(kept)
    if not kept then return { now = 0, runs = {}, rules = {} } end
    if byte(kept) ~= 70 then return cmsgpack.unpack(kept) end
    local r, k, _, id, runs, at = { own = {} }, { runs = {}, rules = {} }
    _, id, k.now, r.ver, r.start, r.stop, r.sum, r.till, r.changes, runs, r.engine, at = unpack(FLAT, kept)
    k.rules[id] = r
    for i = 1, runs do
      local name, seq, seen, part, total, used, changes
      name, seq, seen, part, total, used, changes, at = unpack(RUN, kept, at)
      k.runs[name] = { seq, seen }
      if part >= 0 then r.own[name] = { part, total, used, 0, 0, changes } end
    end
    return k
  end

  -- write is the other way round.
  local function write()
    local id, r = next(key.rules)
    if not r or next(key.rules, id) or not r.start or r.closing or r.engine == '' then return cmsgpack.pack(key) end
    local all, runs = { '' }, 0
    for name, known in pairs(key.runs) do
      local own = r.own[name] or { -1, 0, 0, 0, 0, 0 }
      runs = runs + 1
      all[runs + 1] = pack(RUN, #name, name, known[1], known[2], own[1], own[2], own[3], own[6])
    end
    all[1] = pack(FLAT, 'F', id, key.now, r.ver, r.start, r.stop, r.sum, r.till, r.changes, runs, #r.engine, r.engine)
    return table.concat(all)
  end

  -- born finds out since when the engine has this identity: who asks under it for the first time says so.
  local function born(name)
    local marker = call('GET', name)
    if marker then
      local of, since = match(marker, '^(%S+) (%d+)$')
      if of == engine then return tonumber(since) end
    end
    call('SET', name, engine .. ' ' .. format('%.0f', now), 'PX', YEAR)
    return now
  end

  -- How long n take up at the steady rate, rounded up to a part that adds up exactly.
  local function cost(w, n)
    if w.limit == 0 then return MOST end
    return min(MOST, ceil(n * w.period / w.limit * 1024) / 1024)
  end

  local function hold(r, life)
    if now < r.held then life = max(life, r.heldLife) end
    r.held, r.heldLife = max(r.held, now + life), life
  end

  -- counts returns whether what the run has by its mark is in the rule's window.
  local function counts(w, r)
    if w.way == FIXED then return w.slice == r.start end
    return w.way ~= SLIDING or w.slice >= r.bucket - 16
  end

  -- What the run has for certain by its mark.
  local function told(w, r)
    local had, changes = min(w.own, w.has), 0
    if w.way <= SLIDING and #w.body > 1 and counts(w, r) then changes = w.body[1] end
    return { w.slice, had, had, 0, 0, changes }
  end

  -- keepSaid forgets what runs have that have not said so themselves, and what is older than a mark by some slices.
  local function keepSaid(w, r, slices)
    r.changes = w.body[2]
    for name, own in pairs(r.own) do
      if not r.said[name] or own[1] < w.slice - slices or slices == 0 and own[1] ~= w.slice then r.own[name] = nil end
    end
  end

  -- adopt takes over what the node knows if it is newer than what is here. Of what the run has, only what it has used is
  -- certain to be in the sum. open says when all of it is.
  local function adopt(w, r)
    if r.closing ~= engine then r.said = {} end
    if w.ver == 0 or w.way > STEADY then return end
    if w.ver > r.ver then
      r.ver = w.ver
      local b = w.body
      if w.way == FIXED and #b == 4 then
        r.start, r.stop, r.sum = w.slice, b[3], b[4]
        keepSaid(w, r, 0)
      elseif w.way == SLIDING and #b == 19 then
        r.bucket, r.sums = w.slice, {}
        for i = 1, 17 do r.sums[i] = b[i + 2] end
        keepSaid(w, r, 16)
      elseif w.way == STEADY and #b == 1 then
        r.at, r.limit = now, w.limit
        r.owed = max(0, b[1] - now)
      end
    end
    if w.way == STEADY then hold(r, w.life) end
    if counts(w, r) then r.own[run], r.said[run] = told(w, r), w.own end
  end

  -- open opens the rule under this engine. If all changes are known to the runs that they concern, what each had by its
  -- mark is in the sum, and it gets back what it has not spent.
  local function open(r)
    local known = 0
    for _, own in pairs(r.own) do known = known + (own[6] or 0) end
    for name, own in pairs(r.own) do
      if known == r.changes and (own[6] or 0) > 0 then own[2] = max(own[2], r.said and r.said[name] or 0) end
    end
    r.engine, r.closing, r.told, r.said = engine, nil, nil, nil
  end

  -- roll brings the rule up to now. It returns whether now is inside of the want's period.
  local function roll(w, r)
    if w.way == FIXED then
      if r.stop > 0 and now < r.stop and r.start - now <= r.stop - r.start then return true end
      local start, stop = w.start, w.stop
      if w.period > 0 then
        start = floor(now / w.period) * w.period
        stop = start + w.period
      elseif now < start or now >= stop then
        return false
      end
      if r.stop > 0 and r.stop <= now then start = max(start, r.stop) end
      r.start, r.stop, r.sum, r.own, r.changes = start, stop, 0, {}, 0
    elseif w.way == SLIDING then
      local to = floor(now / w.len)
      local gone = to - r.bucket
      if gone > 16 or gone < -17 then
        if gone < -17 then r.own = {} end
        r.sums = { 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0 }
        r.bucket = to
      elseif gone > 0 then
        for i = 1, 17 do r.sums[i] = r.sums[i + gone] or 0 end
        r.bucket = to
      end
      for name, own in pairs(r.own) do
        if own[1] < r.bucket - 16 then r.own[name], r.changes = nil, max(0, r.changes - own[6]) end
      end
    elseif w.way == STEADY then
      if r.limit ~= w.limit and w.limit > 0 then
        if r.limit > 0 then r.owed = min(r.owed * r.limit / w.limit, MOST) end
        r.limit = w.limit
      end
      if now > r.at then r.owed = max(0, r.owed - (now - r.at)) end
      if now > r.at or r.at - now > STEP then r.at = now end
    else
      for name, own in pairs(r.own) do
        if own[5] <= now then r.own[name] = nil end
      end
    end
    return true
  end

  -- What was granted before the window's start does not count. The clock by which it is may be behind by STEP.
  local function windowStart(w, r)
    if w.way == FIXED then
      return r.start - STEP
    elseif w.way == SLIDING then
      return (r.bucket - 16) * w.len - STEP
    elseif w.way == STEADY then
      return time - floor(2 * cost(w, w.burst)) - STEP
    end
    return time - STEP
  end

  -- names calls f with each node in a list. Behind its name, a zero byte, may stand the end of an engine's identity, and
  -- since when the node has told that engine all that it knows.
  local function names(list, f)
    local at, entry = 1, nil
    while at <= #list do
      entry, at = unpack('<Bc0', list, at)
      local name = match(entry, '^%Z*')
      if #entry == #name + 17 then f(name, unpack('<c8d', entry, #name + 2)) else f(name) end
    end
  end

  -- untold puts the nodes that have not told what they know of a closed rule into a set. Who has told has said who else
  -- has to. Of those only the nodes count that the caller knows of.
  local function untold(r, set)
    local own = match(run, '^[^+]*')
    local function check(name, of, at)
      if not r.told[name] and not (of == tail and at >= birth) then set[name] = true end
    end
    names(live, function(name, of, at)
      check(name, of, at)
      if r.told[name] and name ~= own then names(r.told[name], check) end
    end)
    if r.told[own] then names(r.told[own], check) end
    return set
  end

  -- tell notes that this run has told what it knows, and opens the rule when all have. Where a node does not know what
  -- its earlier run was granted, that is when the window is over.
  local function tell(w, r)
    local can = windowStart(w, r) > birth
    if not can then
      if r.closing ~= engine then r.closing, r.told = engine, {} end
      local list = live
      if w.unknown then list = list .. UNKNOWN end
      r.told[match(run, '^[^+]*')] = list -- by the home of the run
      can = next(untold(r, {})) == nil
      r.till = max(r.till, now + STEP)
      if w.way > STEADY and w.has > 0 then r.own[run] = { 0, w.has, 0, 0, now + w.life } end
    end
    if can then open(r) end
  end

  -- What may be owed besides. What was taken ahead may be spent late, at the same time as what is taken then.
  local function room(w, r)
    local life = w.life
    if now < r.held then life = max(life, r.heldLife) end
    return cost(w, w.burst) - life - r.owed
  end

  local function steadyFits(w, left)
    if left <= 0 or w.limit == 0 then return 0 end
    local n = min(floor(left * w.limit / w.period), w.burst)
    while n > 0 and cost(w, n) > left do n = n - 1 end
    return n
  end

  -- settle works out what this run has and what fits. Unless it only looks, it replaces what the run has by what the run
  -- has used.
  local function settle(w, r, look)
    local own = r.own[run]
    local known = own ~= nil
    if not known and w.ver > 0 and w.way <= SLIDING then
      own = told(w, r) -- it was forgotten to make room
      if not look then r.changes = r.changes + own[6] end
    end
    own = own or { 0, 0, 0, 0, 0, 0 }
    w.old = own
    if w.way == FIXED then
      if own[1] == r.start then w.cur = own[2] end
      if w.slice == r.start then w.used = w.has end
      if not look then r.sum = max(0, r.sum + w.used - w.cur) end
      w.fits = w.limit - r.sum
    elseif w.way == SLIDING then
      if own[1] == r.bucket then w.cur = own[2] end
      if w.slice == r.bucket then w.used = w.has end
      if not look then
        if own[1] ~= r.bucket and own[1] >= r.bucket - 16 then
          local i = 17 + own[1] - r.bucket
          local used = own[3] -- the node does not know of this slice, or has heard of a later one
          if own[1] == w.slice then used = w.has end
          r.sums[i] = max(0, r.sums[i] + used - own[2])
        end
        r.sums[17] = max(0, r.sums[17] + w.used - w.cur)
      end
      w.fits = w.limit
      for i = 1, 17 do w.fits = w.fits - r.sums[i] end
    elseif w.way == STEADY then
      w.cur = own[2]
      w.mine = { own[1], own[2], 0, own[4] or 0, own[5] or 0 }
      local used = own[3]
      if not known then
        w.mine[1] = now
      elseif own[1] == w.slice then
        w.used, used = w.has, w.has
      end
      if not look and known then
        -- What has been paid off since it was granted is gone.
        local back = own[2] - used
        if back >= 0 then
          r.owed = max(0, r.owed - max(0, cost(w, back) - (now - w.mine[4])))
        else
          r.owed = min(MOST, r.owed + cost(w, -back))
        end
      end
      w.fits = steadyFits(w, room(w, r))
    else
      w.cur, w.used = own[2], w.has
      w.fits = w.limit - w.used
      for name, other in pairs(r.own) do
        if name ~= run then w.fits = w.fits - other[2] end
      end
    end
  end

  -- forget starts a limit anew. What runs have told counts no more: they are unknown, and their marks say how much that was.
  local function forget(w, r)
    r.own, w.used, w.cur, w.fits, w.old = {}, 0, 0, w.limit, { 0, 0, 0, 0, 0, 0 }
    r.changes = r.changes + 1 -- nobody knows of it
    if w.way == FIXED then
      r.sum = 0
    elseif w.way == SLIDING then
      for i = 1, 17 do r.sums[i] = 0 end
    else
      r.owed, w.mine = 0, { now, 0, 0, 0, 0 }
      w.fits = steadyFits(w, room(w, r))
    end
  end

  -- How long until what is needed fits, if nobody returns anything.
  local function waitFor(w, r)
    local whole = w.limit
    if w.way == STEADY then whole = steadyFits(w, cost(w, w.burst) - w.life) end
    if w.need > whole then return NEVER end
    if w.way == FIXED then
      return r.stop - now
    elseif w.way == SLIDING then
      local i, free = 1, w.fits + r.sums[1]
      while free < w.need and i < 17 do
        i = i + 1
        free = free + r.sums[i]
      end
      return (r.bucket + i) * w.len - now
    elseif w.way == STEADY then
      local wait = ceil(cost(w, w.need) - room(w, r))
      if cost(w, w.need) > room(w, r) + r.owed then wait = r.held - now end
      return max(1, wait)
    end
    local wait = STEP
    for name, own in pairs(r.own) do
      if name ~= run then wait = min(wait, own[5] - now) end
    end
    return wait
  end

  -- change returns what the run has in a slice, and counts if that is another than before.
  local function change(w, r, slice)
    local old, changes = w.old, w.old[6]
    if w.cur ~= old[2] or slice ~= old[1] and w.cur > 0 then changes, r.changes = changes + 1, r.changes + 1 end
    return { slice, w.cur, w.used, 0, 0, changes }
  end

  -- grant adds n to what this run has used.
  local function grant(w, r, n)
    r.ver = max(r.ver + 1, now)
    w.fits = w.fits - n
    w.cur = w.used + n
    if w.way == FIXED then
      r.sum = r.sum + n
      r.own[run] = change(w, r, r.start)
      r.till = r.stop
    elseif w.way == SLIDING then
      r.sums[17] = r.sums[17] + n
      r.own[run] = change(w, r, r.bucket)
      r.till = (r.bucket + 17) * w.len
    elseif w.way == STEADY then
      w.mine[2], w.mine[3] = w.cur, w.used
      if n > 0 then
        r.owed = min(MOST, r.owed + cost(w, n))
        w.mine[4], w.mine[5] = now, w.life
        hold(r, w.life)
      end
      r.own[run] = w.mine
      r.till = max(r.till, now + floor(r.owed) + STEP)
    elseif w.cur == 0 then
      r.own[run] = nil
    else
      r.own[run] = { 0, w.cur, w.used, 0, now + w.life }
      r.till = max(r.till, now + w.life)
    end
  end

  -- answer says what this run has now.
  local function answer(w, r, look)
    local slice, others, left, good, body = 0, 0, max(0, w.fits), 0, {}
    local own = r.own[run] or { -1, 0, 0, 0, 0, 0 }
    if w.way == FIXED then
      slice, others, good = r.start, r.sum - w.cur, r.stop - now
      body = { own[6], r.changes, r.stop, r.sum }
    elseif w.way == SLIDING then
      slice, good = r.bucket, (r.bucket + 1) * w.len - now
      others = -w.cur
      for i = 1, 17 do others = others + r.sums[i] end
      body = { own[6], r.changes }
      for i = 1, 17 do body[i + 2] = r.sums[i] end
    elseif w.way == STEADY then
      slice, good = w.mine[1], max(0, w.mine[4] + w.mine[5] - now)
      left = steadyFits(w, room(w, r))
      body = { r.at + ceil(r.owed) }
    else
      others, good = w.limit - w.fits - w.cur, w.life
      if look then
        others = w.limit - w.fits - w.used
        good = 0
        if r.own[run] then good = max(0, r.own[run][5] - now) end
      end
    end
    local had = w.cur
    if w.way <= SLIDING and own[1] == slice and r.said then had = max(had, r.said[run] or 0) end -- it is closed
    local out = { pack('<dddddBddd', slice, w.cur, others, left, good, 3 + #body, r.ver, slice, had) }
    for i, n in ipairs(body) do out[i + 1] = pack('<d', n) end
    return table.concat(out)
  end

  -- drop forgets what is kept for a key, unless another node has used it, or this one has since.
  local function drop(name, kept, seq)
    local granted = 1
    for other, known in pairs(key.runs) do
      if match(other, '^[^+]*') ~= match(run, '^[^+]*') or known[1] > seq then granted = 0 end
    end
    if kept and granted == 1 then call('SET', name, cmsgpack.pack({ now = 0, runs = {}, rules = {} }), 'PX', 1) end
    return pack('<c1dBBddB', 'o', now, granted, 0, -1, 0, 0)
  end

  -- The function answers a call.
  return function(name, marker, kept)
    local seq, at = unpack('<d', calls, asked)
    local count, wants = 1, {}
    now = time
    key = read(kept)
    later(key.now)
    if usual then
      wants[1] = only(at)
    else
      count, at = unpack('<d', calls, at)
      for i = 1, count do wants[i], at = want(at) end
    end
    key.now = now
    birth = born(marker)
    if count == 0 then return drop(name, kept, seq) end

    local known = key.runs[run]
    local stale = known ~= nil and seq <= known[1]
    if not known then
      -- The run that was seen least recently makes room. What it has still counts, and its mark has how much that is.
      local n, oldest = 0, nil
      for name, other in pairs(key.runs) do
        n = n + 1
        local o = oldest and key.runs[oldest]
        if not o or other[2] < o[2] or other[2] == o[2] and name < oldest then oldest = name end
      end
      if n >= MAXRUNS then
        key.runs[oldest] = nil
        for _, r in pairs(key.rules) do
          local own = r.own[oldest]
          if own and (own[5] or 0) <= now then r.own[oldest] = nil end -- a level is kept
        end
      end
    end
    key.runs[run] = { seq, now }

    local closed, waiting, wanted = false, {}, {}
    for _, w in ipairs(wants) do
      local r = key.rules[w.id]
      if not r then
        local n = 0
        for id, other in pairs(key.rules) do
          if other.till + STEP < now then key.rules[id] = nil else n = n + 1 end
        end
        if n >= MAXRULES then return 'l' end
        r = { engine = '', ver = 0, till = 0, own = {}, changes = 0 }
        if w.way == FIXED then
          r.start, r.stop, r.sum = 0, 0, 0
        elseif w.way == SLIDING then
          r.bucket = 0
        elseif w.way == STEADY then
          r.at, r.owed, r.limit, r.held, r.heldLife = now, 0, w.limit, 0, 0
        end
        key.rules[w.id] = r
      end
      w.rule, wanted[r] = r, true
      if r.engine ~= engine and not stale then adopt(w, r) end
      if not roll(w, r) then return pack('<c1d', 'u', now) end
      if r.engine ~= engine and not stale then tell(w, r) end
      if r.engine ~= engine then
        closed = closed or windowStart(w, r) <= birth
        if r.told then untold(r, waiting) end
      end
    end

    -- Of the other limits of the key the run knows nothing: it has told all that it knows.
    if not stale then
      for _, r in pairs(key.rules) do
        if r.closing == engine and not wanted[r] then r.told[match(run, '^[^+]*')] = live end
      end
    end

    local look = stale or closed
    local all, failed, wait = true, -1, 0
    for i, w in ipairs(wants) do
      local r = w.rule
      settle(w, r, look)
      if w.forget and not look then forget(w, r) end
      if w.way > STEADY and not r.own[run] then
        local n = 0
        for _ in pairs(r.own) do n = n + 1 end
        if n >= MAXRUNS then return 'r' end
      end
      if look then
        -- What was to be spent at once, or for a while, is not there when that is over.
        local over = w.way == STEADY and w.need > 0 and now > w.mine[4] + w.mine[5]
        all = all and w.cur - w.used >= w.need and not over and not closed
      elseif w.need > 0 and w.fits < w.need then
        all = false
        local t = waitFor(w, r)
        if failed < 0 or wait ~= NEVER and (t == NEVER or t > wait) then failed, wait = i - 1, t end
      end
    end

    local names = {}
    for name in pairs(waiting) do names[#names + 1] = name end
    table.sort(names)
    local out = { pack('<c1dBBddB', 'o', now, all and 1 or 0, stale and 1 or 0, failed, wait, #names) }
    for _, name in ipairs(names) do out[#out + 1] = pack('<Bc0', #name, name) end
    local till = now
    for _, w in ipairs(wants) do
      local n = 0
      if all then n = w.need + max(0, min(w.ahead, w.fits - w.need)) end
      if not look then grant(w, w.rule, n) end
      out[#out + 1] = answer(w, w.rule, look)
    end
    if not stale then
      for _, r in pairs(key.rules) do till = max(till, r.till) end
      call('SET', name, write(), 'PX', format('%.0f', ceil((till + SLACK - now) / 1000)))
    end
    return table.concat(out)
  end
end

local answers, slow, of, at = {}, nil, nil, 1
for i = 1, #KEYS / 2 do
  local what = byte(calls, at + 4)
  usual, asked = what >= 4, at + 5
  if what % 2 == 1 then run, of, asked = unpack('<Bc0Bc0', calls, asked) end
  if what % 4 >= 2 then live, asked = unpack('<I4c0', calls, asked) end
  if usual then
    at = asked + USUAL
  else
    at = at + unpack('<I4', calls, at)
  end
  if of ~= engine then
    answers[i] = pack('<c1dBc0', 'e', time, #engine, engine)
  else
    local name = KEYS[2 * i - 1]
    local kept = call('GET', name)
    local answer = usual and kept and quick(name, kept)
    if not answer then
      slow = slow or thorough()
      answer = slow(name, KEYS[2 * i], kept)
    end
    answers[i] = answer
  end
end
return answers
