-- HAProxy asks weir about each request. This needs only an HAProxy with Lua, such as Debian's.
--
--     lua-load /etc/haproxy/haproxy-weir.lua
--     http-request lua.weir 127.0.0.1:9003 closed
--     http-request deny deny_status 503 unless { var(txn.weir) -m found }
--
-- The first word is where weir listens (unix@/run/weir/auth for a socket). The second word says what happens while weir cannot be
-- reached: closed (503) or open (the request goes on). The last rule is needed if this script fails: otherwise HAProxy would let the request go on.
-- docs/forward-auth.md explains it.

-- How long weir may take, in seconds: longer than its max_wait.
local patience = 10

-- Headers that are not forwarded: they belong to the connection or to the body, or are written below.
local left_out = {
    ["host"] = true, ["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["expect"] = true, ["te"] = true,
    ["trailer"] = true, ["upgrade"] = true, ["keep-alive"] = true, ["proxy-connection"] = true,
    ["x-forwarded-method"] = true, ["x-forwarded-uri"] = true, ["x-forwarded-host"] = true, ["x-forwarded-proto"] = true,
    ["x-forwarded-for"] = true, ["x-original-uri"] = true, ["x-original-method"] = true, ["x-original-host"] = true,
}

-- The parts of weir's answer that the client gets.
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

-- question writes the request to weir.
local function question(txn)
    local lines = { "GET / HTTP/1.1", "host: weir", "connection: close" }
    local function add(name, value)
        lines[#lines + 1] = name .. ": " .. value:gsub("[\r\n%z]", " ")
    end
    local came = txn.http:req_get_headers()
    for name, all in pairs(came) do
        if not left_out[name] then
            for _, value in ipairs(values(all)) do
                add(name, value)
            end
        end
    end
    local from = values(came["x-forwarded-for"])
    from[#from + 1] = txn.f:src()
    add("x-forwarded-for", table.concat(from, ", "))
    add("x-forwarded-method", txn.f:method())
    add("x-forwarded-uri", txn.f:pathq())
    add("x-forwarded-host", values(came["host"])[1] or "")
    add("x-forwarded-proto", txn.f:ssl_fc() == 1 and "https" or "http")
    return table.concat(lines, "\r\n") .. "\r\n\r\n"
end

-- ask returns the status, the headers and the body of weir's answer, or nothing while weir cannot be reached.
local function ask(txn, address)
    local socket = core.tcp()
    socket:settimeout(patience)
    local answer
    if socket:connect(address) and socket:send(question(txn)) then
        answer = socket:receive("*a")
    end
    socket:close()
    local status, head, body = (answer or ""):match("^HTTP/1%.%d (%d%d%d)[^\r\n]*\r\n(.-\r\n)\r\n(.*)$")
    if not status then
        return nil
    end
    local headers = {}
    for name, value in head:gmatch("([^:\r\n]+):[ \t]*([^\r\n]*)\r\n") do
        name = name:lower()
        headers[name] = headers[name] or {}
        table.insert(headers[name], value)
    end
    return tonumber(status), headers, body
end

core.register_action("weir", { "http-req" }, function(txn, address, away)
    local status, headers, body = ask(txn, address)
    if status and status >= 200 and status < 300 then
        txn:set_var("txn.weir", "admitted")
        txn:set_var("txn.weir_ratelimit", (headers["ratelimit"] or {})[1])
        txn:set_var("txn.weir_ratelimit_policy", (headers["ratelimit-policy"] or {})[1])
        return
    end
    if not status and away == "open" then
        txn:set_var("txn.weir", "away")
        return
    end
    local reply = txn:reply()
    if status and headers["x-weir-status"] then
        reply:set_status(status)
        for _, name in ipairs(handed_back) do
            for _, value in ipairs(headers[name] or {}) do
                reply:add_header(name, value)
            end
        end
        reply:set_body(body)
    else
        reply:set_status(503)
        reply:add_header("retry-after", "1")
    end
    txn:done(reply)
end, 2)
