-- The module `luv` (`uv`) in terms of what the host offers.
local host = ...
local uv = {}
local unpack = table.unpack

local function class(name)
  local methods = {}
  methods.__index = methods
  methods.__name = "uv_" .. name .. "_t"
  return methods
end

local Handle = class("handle")
function Handle:is_closing() return self.closing == true end
function Handle:is_active() return self.active == true end
function Handle:ref() return self end
function Handle:unref() return self end
function Handle:has_ref() return true end
function Handle:get_type() return self.kind end
function Handle:close(callback)
  if self.closing then error("the handle is closing already", 2) end
  self.closing, self.active = true, false
  if self.stop_all then self:stop_all() end
  if callback then host.soon("a close callback", callback) end
end

local function kind(name)
  local methods = setmetatable(class(name), { __index = Handle })
  methods.__index = methods
  return methods
end

local function new(methods, name)
  return setmetatable({ kind = name }, methods)
end

-- `uv.timer_start(timer, …)` beside `timer:start(…)`.
local function export(prefix, methods, names)
  for _, name in ipairs(names) do
    uv[prefix .. name] = function(handle, ...) return methods[name](handle, ...) end
  end
end

-- Timers.
local Timer = kind("timer")
function Timer:start(timeout, interval, callback)
  if self.closing then return nil, "EINVAL: the timer is closed", "EINVAL" end
  self:stop()
  self.interval, self.callback, self.active = interval, callback, true
  self.running = host.timer(timeout, interval, function()
    if (self.interval or 0) == 0 then self.active, self.running = false, nil end
    callback()
  end)
  return 0
end
function Timer:stop()
  if self.running then host.stop(self.running) end
  self.running, self.active = nil, false
  return 0
end
Timer.stop_all = Timer.stop
function Timer:again()
  if not self.callback then return nil, "EINVAL: the timer was never started", "EINVAL" end
  if (self.interval or 0) > 0 then return self:start(self.interval, self.interval, self.callback) end
  return 0
end
function Timer:set_repeat(interval) self.interval = interval end
function Timer:get_repeat() return self.interval or 0 end
function uv.new_timer() return new(Timer, "timer") end
export("timer_", Timer, { "start", "stop", "again", "set_repeat", "get_repeat" })

-- Wake-ups.
local Async = kind("async")
function Async:send(...)
  host.soon("an async callback", self.callback, ...)
  return 0
end
function uv.new_async(callback)
  local handle = new(Async, "async")
  handle.callback = callback
  return handle
end
uv.async_send = function(handle, ...) return handle:send(...) end

-- Streams.
local Stream = kind("stream")
local function streaming(stream)
  if not stream.inner then return nil, "ENOTCONN: the stream isn't connected", "ENOTCONN" end
  return stream.inner
end
function Stream:read_start(callback)
  local inner, message, code = streaming(self)
  if not inner then return nil, message, code end
  self.active = true
  host.read_start(inner, callback)
  return 0
end
function Stream:read_stop()
  if self.inner then host.read_stop(self.inner) end
  self.active = false
  return 0
end
function Stream:write(data, callback)
  local inner, message, code = streaming(self)
  if not inner then return nil, message, code end
  if type(data) == "table" then data = table.concat(data) end
  host.write(inner, data, callback)
  return {}
end
Stream.try_write = function(self, data)
  local ok, message, code = self:write(data)
  if not ok then return nil, message, code end
  return #data
end
function Stream:shutdown(callback)
  local inner, message, code = streaming(self)
  if not inner then return nil, message, code end
  host.shutdown(inner, callback)
  return {}
end
function Stream:stop_all()
  if self.inner then host.close_stream(self.inner) end
  self.inner = nil
end
function Stream:is_readable() return self.inner ~= nil end
function Stream:is_writable() return self.inner ~= nil end
uv.read_start = function(s, ...) return s:read_start(...) end
uv.read_stop = function(s) return s:read_stop() end
uv.write = function(s, ...) return s:write(...) end
uv.try_write = function(s, ...) return s:try_write(...) end
uv.shutdown = function(s, ...) return s:shutdown(...) end
uv.is_readable = function(s) return s:is_readable() end
uv.is_writable = function(s) return s:is_writable() end

local Pipe = setmetatable(class("pipe"), { __index = Stream })
Pipe.__index = Pipe
function uv.new_pipe() return new(Pipe, "pipe") end

local Tcp = setmetatable(class("tcp"), { __index = Stream })
Tcp.__index = Tcp
function Tcp:connect(address, port, callback)
  host.connect(address, port, function(err, inner)
    self.inner = inner
    if callback then callback(err) end
  end)
  return {}
end
function Tcp:nodelay() return 0 end
function Tcp:keepalive() return 0 end
function uv.new_tcp() return new(Tcp, "tcp") end
uv.tcp_connect = function(t, ...) return t:connect(...) end
uv.tcp_nodelay = function() return 0 end
uv.tcp_keepalive = function() return 0 end
function uv.getaddrinfo(name, service, hints, callback)
  if not callback then error("getaddrinfo: only with a callback", 2) end
  host.getaddrinfo(name, service, callback)
  return {}
end

-- Processes.
local Process = kind("process")
local SIGNALS = { sigint = 2, sigterm = 15, sigkill = 9, sighup = 1, sigquit = 3 }
local function signal_number(signal)
  if type(signal) == "number" then return signal end
  return SIGNALS[tostring(signal or "sigterm"):lower()] or 15
end
function Process:kill(signal)
  if not self.inner then return nil, "ESRCH: no such process", "ESRCH" end
  return host.kill(self.inner, signal_number(signal))
end
function Process:get_pid() return self.pid end
function Process:stop_all() self.inner = nil end
function uv.spawn(path, options, on_exit)
  options = options or {}
  local stdio = options.stdio or {}
  local process = new(Process, "process")
  local inner, pid_or_why, streams = host.spawn({
    path = path, args = options.args or {}, cwd = options.cwd, env = options.env,
    stdin = stdio[1] ~= nil, stdout = stdio[2] ~= nil, stderr = stdio[3] ~= nil,
  }, function(code, signal)
    process.active, process.inner = false, nil
    if on_exit then on_exit(code, signal) end
  end)
  if not inner then return nil, pid_or_why, (pid_or_why:match("^(E%u+)")) end
  process.inner, process.pid, process.active = inner, pid_or_why, true
  for index = 1, 3 do
    if type(stdio[index]) == "table" then stdio[index].inner = streams[index] end
  end
  return process, pid_or_why
end
uv.process_kill = function(p, signal) return p:kill(signal) end
uv.process_get_pid = function(p) return p.pid end

-- Files: at once, or with a callback as the last argument.
local ARGUMENTS = {
  open = 3, close = 1, read = 3, write = 3, stat = 1, lstat = 1, fstat = 1, unlink = 1, mkdir = 2,
  rmdir = 1, rename = 2, scandir = 1, realpath = 1, access = 2, copyfile = 2,
}
local function shaped(name, ok, value, ...)
  if ok and name == "scandir" then
    return { entries = value, next = 0 }
  end
  return value
end
for name, most in pairs(ARGUMENTS) do
  uv["fs_" .. name] = function(...)
    local arguments = { ... }
    local n = select("#", ...)
    local callback
    if type(arguments[n]) == "function" then
      callback = arguments[n]
      arguments[n] = nil
    end
    if callback then
      host.fs_later(name, function(ok, value, message)
        if ok then callback(nil, shaped(name, ok, value)) else callback(message) end
      end, unpack(arguments, 1, most))
      return {}
    end
    local ok, value, message = host.fs_now(name, unpack(arguments, 1, most))
    if ok then return shaped(name, ok, value) end
    return nil, message, (message:match("^(E%u+)"))
  end
end
function uv.fs_scandir_next(listing)
  listing.next = listing.next + 1
  local entry = listing.entries[listing.next]
  if not entry then return nil end
  return entry.name, entry.type
end

-- The rest.
uv.hrtime, uv.now, uv.cwd, uv.getpid, uv.os_getpid = host.hrtime, host.now, host.cwd, host.pid, host.pid
uv.os_getenv = host.getenv
uv.os_homedir = function() return host.getenv("HOME") end
uv.os_tmpdir = host.tmpdir
uv.os_gethostname = host.hostname
uv.os_uname = host.uname
uv.sleep = host.sleep
uv.update_time = function() end
uv.version = function() return 0x013000 end
uv.version_string = function() return "1.48.0" end
uv.close = function(handle, ...) return handle:close(...) end
for _, name in ipairs({ "is_closing", "is_active", "ref", "unref", "has_ref" }) do
  uv[name] = function(handle) return handle[name](handle) end
end
uv.handle_get_type = function(handle) return handle.kind end
-- The loop runs by itself: to run it is to wait until nothing is open.
function uv.run(mode)
  if mode == nil or mode == "default" then host.run() end
  return false
end
uv.stop = function() end
uv.loop_alive = host.alive
uv.loop_close = function() return 0 end
uv.walk = function() end
uv.chdir = function() return nil, "EPERM: a script can't change the host's folder", "EPERM" end
uv.os_setenv = function() error("EPERM: a script can't change the host's environment", 2) end
uv.constants = {
  O_RDONLY = 0, O_WRONLY = 1, O_RDWR = 2, SIGINT = 2, SIGTERM = 15, SIGKILL = 9, SIGHUP = 1,
}
return uv
