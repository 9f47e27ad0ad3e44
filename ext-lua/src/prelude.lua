-- Runs once in a state, before any script, with the untouched libraries as its
-- globals. Takes what the host offers and returns what scripts are given.
local host = ...
local AWAIT, PREEMPT = host.await, host.preempt

local co_create, co_resume, co_yield = coroutine.create, coroutine.resume, coroutine.yield
local co_close, co_status, co_isyieldable = coroutine.close, coroutine.status, coroutine.isyieldable
local co_running = coroutine.running
local raw_pcall, raw_xpcall, raw_setmetatable, raw_load = pcall, xpcall, setmetatable, load
local error, type, select, rawget, tostring, pairs = error, type, select, rawget, tostring, pairs
local pack, unpack = table.pack, table.unpack

-- Host functions answer with true and their results, or false and a message.
local function check(ok, ...)
  if ok then return ... end
  error((...), 3)
end

-- A host function that answers at once.
local function immediate(f)
  return function(...)
    return check(f(...))
  end
end

-- A host function whose answer comes later: `start` begins the operation for
-- the coroutine that runs, and the scheduler resumes it with the answer.
local function awaiting(name, start)
  local function finish(ok, ...)
    if not ok then error((...), 3) end
    return check(co_yield(AWAIT))
  end
  return function(...)
    if not co_isyieldable() then error(host.cannot_wait(name), 2) end
    return finish(start(...))
  end
end

-- The coroutines that the scheduler owns, as weak keys.
local managed = raw_setmetatable({}, { __mode = "k" })

local CLOSER = {
  __close = function(guard)
    local co = guard[1]
    if co and co_status(co) == "suspended" then co_close(co) end
  end,
}

-- `co` waits for the host, or its time slice is over: so does whoever resumed
-- it. Returns what `resume` would, once `co` yields or ends.
local function pass(co, what)
  local guard <close> = raw_setmetatable({ co }, CLOSER)
  while true do
    local r
    if co_isyieldable() then
      r = pack(co_yield(what))
    elseif what == PREEMPT then
      if host.doomed() then error(host.doom_text(), 0) end
      r = { n = 0 }
    else
      host.abandon_operation()
      error(host.cannot_wait("waiting in a coroutine"), 0)
    end
    r = pack(co_resume(co, unpack(r, 1, r.n)))
    if r[1] and r.n == 2 and r[2] == AWAIT then
      what = AWAIT
    elseif r[1] and r.n == 2 and r[2] == PREEMPT then
      what = PREEMPT
    elseif r[1] and r.n == 1 and host.hook_yielded(co) then
      what = PREEMPT
    else
      guard[1] = nil
      return unpack(r, 1, r.n)
    end
  end
end

local function after(co, ok, ...)
  if ok then
    local n = select("#", ...)
    if n == 1 then
      local first = ...
      if first == AWAIT or first == PREEMPT then return pass(co, first) end
    elseif n == 0 and host.hook_yielded(co) then
      return pass(co, PREEMPT)
    end
  end
  return ok, ...
end

local function resume(co, ...)
  if managed[co] then return host.resume(co, ...) end
  return after(co, co_resume(co, ...))
end

local function unwrap(co, ok, ...)
  if ok then return ... end
  if co_status(co) ~= "dead" then error((...), 0) end
  co_close(co)
  error((...), 0)
end

local function wrap(f)
  local co = co_create(f)
  return function(...)
    return unwrap(co, resume(co, ...))
  end
end

-- What a script has a reference to isn't used for another call.
local function running()
  local co, is_main = co_running()
  if managed[co] then host.expose() end
  return co, is_main
end

local function close(co)
  if managed[co] then error("this coroutine is the host's own; only the host closes it", 2) end
  return co_close(co)
end

-- A handler that loops must not outlive a kill.
local function guarded_xpcall(f, handler, ...)
  if type(handler) ~= "function" then return raw_xpcall(f, handler, ...) end
  return raw_xpcall(f, function(...)
    if host.doomed() then return (...) end
    return handler(...)
  end, ...)
end

-- The collector runs finalizers where nothing can stop them.
local function guarded_setmetatable(t, mt)
  if type(mt) == "table" and rawget(mt, "__gc") ~= nil then
    error("`__gc` isn't available to scripts; use a to-be-closed variable (`local x <close> = ...`)", 2)
  end
  return raw_setmetatable(t, mt)
end

local function guarded_collectgarbage(what, ...)
  what = what or "collect"
  if what == "count" then return collectgarbage("count") end
  if what == "collect" or what == "step" then
    collectgarbage("step")
    host.collect()
    return 0
  end
  if what == "isrunning" then return true end
  error("collectgarbage: only `count`, `collect` and `step` are available to scripts", 2)
end

local function copy(library)
  local t = {}
  for k, v in pairs(library) do t[k] = v end
  return t
end

-- Methods of strings come from a table that no script can reach.
local strings = getmetatable("")
strings.__index = copy(string)
strings.__index.dump = nil
strings.__metatable = false

local BASE = {
  "assert", "error", "getmetatable", "ipairs", "next", "pairs", "pcall", "rawequal", "rawget",
  "rawlen", "rawset", "select", "tonumber", "tostring", "type", "_VERSION",
}

-- A script's own globals, none of them shared with another's.
local function environment(own)
  local env = {}
  for _, name in ipairs(BASE) do env[name] = _G[name] end
  env._G = env
  env.xpcall, env.setmetatable = guarded_xpcall, guarded_setmetatable
  env.collectgarbage = guarded_collectgarbage
  env.string, env.table, env.math, env.utf8 = copy(string), copy(table), copy(math), copy(utf8)
  env.string.dump = nil
  env.coroutine = {
    create = co_create, resume = resume, yield = co_yield, wrap = wrap, status = co_status,
    isyieldable = co_isyieldable, running = running, close = close,
  }
  env.load = function(chunk, name, mode, ...)
    if mode ~= nil and not tostring(mode):find("t", 1, true) then
      return nil, "attempt to load a binary chunk: only text is loaded"
    end
    local scope = env
    if select("#", ...) > 0 then scope = (...) end
    return raw_load(chunk, name or "=(load)", "t", scope)
  end
  local function gone(name, instead)
    return function() error(name .. " isn't available to scripts; " .. instead, 2) end
  end
  env.dofile = gone("dofile", "use require")
  env.loadfile = gone("loadfile", "use require")
  env.print = function(...)
    local t = pack(...)
    for i = 1, t.n do t[i] = tostring(t[i]) end
    own.log("info", table.concat(t, "\t"))
  end
  env.warn = function(...) own.log("warn", table.concat({ ... })) end
  env.os = {
    time = os.time, clock = os.clock, date = os.date, difftime = os.difftime,
    getenv = own.getenv, remove = own.remove, rename = own.rename, tmpname = own.tmpname,
    exit = gone("os.exit", "a script can't end the host; return from the handler"),
    execute = gone("os.execute", "use haft.process"),
    setlocale = function() return "C" end,
  }
  local open = io.open
  local function io_open(path, mode)
    local place, why = own.open_path(path, mode or "r")
    if not place then return nil, why, 13 end
    local file, message, code = open(place, mode or "r")
    if not file then return nil, (message:gsub("^.-: ", path .. ": ", 1)), code end
    return file
  end
  local function written(...)
    local t = { ... }
    for i = 1, #t do t[i] = tostring(t[i]) end
    own.log("info", table.concat(t))
  end
  local out = {}
  out.write = function(self, ...) written(...) return self end
  out.close, out.flush, out.setvbuf = function() return true end, function() return true end, function() return true end
  env.io = {
    open = io_open, type = io.type,
    write = function(...) written(...) return out end,
    stdout = out, stderr = out,
    lines = function(path, ...)
      local file, why = io_open(path, "r")
      if not file then error(why, 2) end
      local lines = file:lines(...)
      return function(...)
        local line = lines(...)
        if line == nil then file:close() end
        return line
      end, nil, nil, file
    end,
    read = function() return nil end,
    popen = gone("io.popen", "use haft.process"),
    tmpfile = gone("io.tmpfile", "use haft.fs"),
  }
  env.debug = {
    traceback = host.traceback,
    getinfo = host.getinfo,
    getmetatable = getmetatable,
    setmetatable = guarded_setmetatable,
    gethook = function() return nil end,
    sethook = gone("debug.sethook", "the host's own hook keeps the limits"),
  }

  local package = { path = own.path, cpath = own.cpath, loaded = {}, preload = {}, config = "/\n;\n?\n!\n-\n" }
  env.package = package
  for _, name in ipairs({ "string", "table", "math", "utf8", "coroutine", "os", "io", "debug" }) do
    package.loaded[name] = env[name]
  end
  package.loaded._G = env
  local function find(exists, name, path, sep, rep)
    local tried = {}
    name = name:gsub("%" .. (sep or "."), ((rep or "/"):gsub("%%", "%%%%")))
    for template in path:gmatch("[^;]+") do
      local file = template:gsub("?", (name:gsub("%%", "%%%%")))
      if exists(file) then return file end
      tried[#tried + 1] = "\n\tno file '" .. file .. "'"
    end
    return nil, table.concat(tried)
  end
  function package.searchpath(...) return find(own.module_exists, ...) end
  local loading = {}
  local function preloaded(name)
    local f = package.preload[name]
    if f then return f, ":preload:" end
    return "\n\tno field package.preload['" .. name .. "']"
  end
  local function from_file(name)
    local file, tried = package.searchpath(name, package.path)
    if not file then return tried end
    local text, why = own.read_module(file)
    if not text then error(why, 0) end
    local f, message = raw_load(text, "@" .. own.chunk_name(file), "t", env)
    if not f then error("error loading module '" .. name .. "' from file '" .. file .. "':\n\t" .. message, 0) end
    return f, file
  end
  -- A C module runs outside of all limits: it takes a grant of its own.
  local function from_library(name)
    if not host.loadlib then return "\n\t" .. host.no_libraries end
    local file, tried = find(own.library_exists, name, package.cpath)
    if not file then return tried end
    local allowed, why = own.may_load_library(name)
    if not allowed then return "\n\t" .. why end
    local f, message = host.loadlib(file, "luaopen_" .. name:gsub("^.*%-", ""):gsub("%.", "_"))
    if not f then
      error("error loading module '" .. name .. "' from file '" .. file .. "':\n\t" .. message, 0)
    end
    return f, file
  end
  package.searchers = { preloaded, from_file, from_library }
  function env.require(name)
    if type(name) ~= "string" then error("require: a module's name must be a string", 2) end
    local loaded = package.loaded[name]
    if loaded ~= nil then return loaded end
    if loading[name] then error("require: loop or previous error loading module '" .. name .. "'", 2) end
    local tried = {}
    for _, search in ipairs(package.searchers) do
      local loader, where = search(name)
      if type(loader) == "function" then
        loading[name] = true
        local unmark <close> = raw_setmetatable({}, { __close = function() loading[name] = nil end })
        local value = loader(name, where)
        if value ~= nil then
          package.loaded[name] = value
        elseif package.loaded[name] == nil then
          package.loaded[name] = true
        end
        return package.loaded[name], where
      elseif type(loader) == "string" then
        tried[#tried + 1] = loader
      end
    end
    error("module '" .. name .. "' not found:" .. table.concat(tried), 2)
  end
  return env
end

return {
  managed = managed,
  environment = environment,
  immediate = immediate,
  awaiting = awaiting,
  xpcall = raw_xpcall,
  on_error = function(e)
    if host.doomed() then return e end
    return { value = e, trace = host.trace() }
  end,
}
