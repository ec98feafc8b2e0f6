-- Asks Anteroom about a request, and tells it of visits that the site has ended.
local CHECK = "http://127.0.0.1:8080/check/forward/shop"
local VISITS = "http://127.0.0.1:8081/rooms/shop/visits/"
local KEY = os.getenv("ANTEROOM_ORIGIN_KEY") or ""             -- anteroom key create shop --role origin
local SECRET = os.getenv("ANTEROOM_CHECK_SECRET")              -- with `check_secret_file` in anteroom.toml
local OPEN_WHEN_DOWN = false                                   -- true: everybody comes in while Anteroom does not answer
local CLOSED = "<!doctype html><title>Closed</title><p>This site cannot let anybody in at the moment. Please try again in a minute."
-- These belong to one connection, or are written anew. A compressed page would be cut at its first zero byte.
local NOT_COPIED = { ["connection"] = true, ["content-length"] = true, ["transfer-encoding"] = true, ["upgrade"] = true,
  ["expect"] = true, ["keep-alive"] = true, ["accept-encoding"] = true, ["te"] = true, ["trailer"] = true, ["http2-settings"] = true }

-- HAProxy's HTTP client crashes above `tune.http.maxhdr`, which is 101 by default, its own fields included.
local FIELDS_MAX = 90

local function count(headers)
  local fields = 0
  for _, values in pairs(headers) do
    for _ in pairs(values) do fields = fields + 1 end
  end
  return fields
end

local function copied(headers)
  local copy = {}
  for name, values in pairs(headers) do
    if not NOT_COPIED[name] then copy[name] = values end
  end
  return copy
end

core.register_action("anteroom_check", { "http-req" }, function(txn)
  local headers = copied(txn.http:req_get_headers())
  headers["x-forwarded-method"] = { txn.f:method() }
  headers["x-forwarded-uri"] = { txn.f:pathq() }
  if SECRET then headers["anteroom-check-secret"] = { SECRET } end
  if count(headers) > FIELDS_MAX then return txn:done(txn:reply{ status = 431 }) end
  local answer = core.httpclient():get{ url = CHECK, headers = headers, timeout = 5000 }
  if answer.status == 200 then
    for _, name in ipairs({ "anteroom-room", "anteroom-visit" }) do
      local values = answer.headers[name]
      if values then txn.http:req_set_header(name, values[0]) end
    end
    local visit, cookie = answer.headers["anteroom-visit"], answer.headers["set-cookie"]
    if visit then txn:set_var("txn.anteroom_visit", visit[0]) end
    if cookie then txn:set_var("txn.anteroom_cookie", cookie[0]) end
    return
  end
  -- HAProxy's own word for no answer. Anteroom says 503, too, where its `max_connections` are taken, but when to come back.
  local is_down = not answer.status or (answer.status >= 500 and not answer.headers["retry-after"])
  if is_down and OPEN_WHEN_DOWN then return end
  local reply = txn:reply{ status = is_down and 503 or answer.status }
  if is_down then
    reply:add_header("content-type", "text/html")
    reply:add_header("retry-after", "10")
    reply:add_header("cache-control", "no-store")
  else
    for name, values in pairs(copied(answer.headers)) do
      for _, value in pairs(values) do reply:add_header(name, value) end
    end
  end
  reply:set_body(is_down and CLOSED or answer.body)
  txn:done(reply)
end)

core.register_action("anteroom_session", { "http-res" }, function(txn)
  local command, visit = txn.f:res_hdr("Anteroom-Session"), txn:get_var("txn.anteroom_visit")
  txn.http:res_del_header("Anteroom-Session")
  if visit and command:match("^%a+$") then
    local headers = { ["authorization"] = { "Bearer " .. KEY }, ["content-type"] = { "application/json" } }
    core.httpclient():post{ url = VISITS .. visit, headers = headers, timeout = 5000,
      body = '{"command":"' .. command:lower() .. '"}' }
  end
end)
