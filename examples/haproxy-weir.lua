-- HAProxy asks weir about each request. It needs HAProxy 2.5 or newer with Lua, as Debian has it, and nothing else.
--
--     lua-load /etc/haproxy/haproxy-weir.lua
--     http-request lua.weir http://127.0.0.1:9003/ closed
--     http-request deny deny_status 503 unless { var(txn.weir) -m found }
--
-- The first word is where weir listens, the second what happens while it is away: closed (503) or open (the request goes on). The second
-- rule is for the case that this script fails: HAProxy would go on.
-- docs/forward-auth.md explains it.

-- How long weir may take, in milliseconds: longer than its max_wait.
local patience = 10000

-- What is not handed on: it belongs to the connection or to the body, or is written anew below.
local left_out = {
    ["host"] = true, ["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["expect"] = true,
    ["te"] = true, ["trailer"] = true, ["upgrade"] = true, ["keep-alive"] = true, ["proxy-connection"] = true, ["accept-encoding"] = true,
    ["x-forwarded-method"] = true, ["x-forwarded-uri"] = true, ["x-forwarded-host"] = true, ["x-forwarded-proto"] = true,
    ["x-forwarded-for"] = true, ["x-original-uri"] = true, ["x-original-method"] = true, ["x-original-host"] = true,
}

-- What of weir's answer the client gets.
local handed_back = { "content-type", "retry-after", "ratelimit", "ratelimit-policy", "www-authenticate", "cache-control", "x-content-type-options" }

-- values returns all lines of a header as a list that begins at 1. HAProxy's begin at 0.
local function values(lines)
    local list, i = {}, 0
    while lines and lines[i] do
        list[#list + 1] = lines[i]
        i = i + 1
    end
    return list
end

local function question(txn)
    local headers = {}
    local came = txn.http:req_get_headers()
    for name, lines in pairs(came) do
        if not left_out[name] then
            headers[name] = values(lines)
        end
    end
    local from = values(came["x-forwarded-for"])
    from[#from + 1] = txn.f:src()
    headers["x-forwarded-for"] = { table.concat(from, ", ") }
    headers["x-forwarded-method"] = { txn.f:method() }
    headers["x-forwarded-uri"] = { txn.f:pathq() }
    headers["x-forwarded-host"] = { txn.f:req_hdr("host") or "" }
    headers["x-forwarded-proto"] = { txn.f:ssl_fc() == 1 and "https" or "http" }
    return headers
end

core.register_action("weir", { "http-req" }, function(txn, url, away)
    local answer = core.httpclient():get { url = url, headers = question(txn), timeout = patience }
    if answer and answer.status >= 200 and answer.status < 300 then
        txn:set_var("txn.weir", "admitted")
        for _, name in ipairs { "ratelimit", "ratelimit-policy" } do
            local line = values(answer.headers[name])[1]
            if line then
                txn:set_var("txn.weir_" .. name:gsub("-", "_"), line)
            end
        end
        return
    end
    local reply = txn:reply()
    if answer and answer.headers["x-weir-status"] then
        reply:set_status(answer.status)
        for _, name in ipairs(handed_back) do
            for _, line in ipairs(values(answer.headers[name])) do
                reply:add_header(name, line)
            end
        end
        reply:set_body(answer.body)
    elseif away == "open" then
        txn:set_var("txn.weir", "away")
        return
    else
        reply:set_status(503)
        reply:add_header("retry-after", "1")
    end
    txn:done(reply)
end, 2)
