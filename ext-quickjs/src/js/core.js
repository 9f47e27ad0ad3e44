// What every skill's runtime has from the start: calls, promises of the host's
// operations, timers, the console. `native` is the table of native functions.
(function (native) {
  const global = globalThis;
  const waiting = new Map(); // operation -> [resolve, reject]
  const listening = new Map(); // operation -> function of each thing it tells
  const timers = new Map(); // timer -> [callback, arguments]
  const controllers = new Map(); // call -> its AbortController, once asked for
  const NAMES = ["tools", "commands", "init", "start", "stop"].concat(native.hooks());
  let skill = {};

  function errorOf(name, message) {
    if (name === "Error") return new Error(message);
    if (name === "TypeError") return new TypeError(message);
    if (name === "RangeError") return new RangeError(message);
    return new DOMException(message, name);
  }

  // The promise of an operation that has begun.
  function promise(operation) {
    return new Promise((resolve, reject) => waiting.set(operation, [resolve, reject]));
  }

  // The same, given up if the signal says so.
  function cancellable(operation, signal) {
    const answered = promise(operation);
    if (signal === undefined || signal === null) return answered;
    return new Promise((resolve, reject) => {
      const stop = () => { native.abort(operation); waiting.delete(operation); reject(signal.reason); };
      signal.addEventListener("abort", stop, { once: true });
      answered.then(resolve, reject).finally(() => signal.removeEventListener("abort", stop));
    });
  }

  function settle(operation, value, bytes, name, message, last) {
    const error = name === undefined ? undefined : errorOf(name, message);
    const listener = listening.get(operation);
    if (listener !== undefined) {
      if (last) listening.delete(operation);
      listener(error, value, bytes);
      return;
    }
    const functions = waiting.get(operation);
    if (functions === undefined) return;
    waiting.delete(operation);
    if (error !== undefined) functions[1](error);
    else functions[0](bytes === undefined ? value : [value, bytes]);
  }

  function abort(call, operations, why) {
    const error = new DOMException(why, "AbortError");
    const controller = controllers.get(call);
    controllers.delete(call);
    if (controller !== undefined) controller.abort(error);
    for (const operation of operations) {
      const functions = waiting.get(operation);
      const listener = listening.get(operation);
      waiting.delete(operation);
      listening.delete(operation);
      if (functions !== undefined) functions[1](error);
      if (listener !== undefined) listener(error);
    }
  }

  // Answers a call with a value, now or once it is settled.
  function answer(call, value) {
    if (value !== null && (typeof value === "object" || typeof value === "function")) {
      if (typeof value.then === "function") {
        Promise.resolve(value).then(
          (value) => native.done(call, value),
          (error) => native.failed(call, error),
        );
        return;
      }
    }
    native.done(call, value);
  }

  const known = new WeakMap(); // Call -> what it was told of itself

  class Call {
    #number;
    constructor(number) { this.#number = number; }
    get #all() {
      let facts = known.get(this);
      if (facts === undefined) known.set(this, facts = JSON.parse(native.facts(this.#number)));
      return facts;
    }
    get callId() { return this.#all.callId; }
    get tool() { return this.#all.tool; }
    get thread() { return this.#all.thread; }
    get turn() { return this.#all.turn; }
    get deadline() { return this.#all.deadline; }
    get signal() {
      let controller = controllers.get(this.#number);
      if (controller === undefined) {
        controller = new AbortController();
        if (native.isLive(this.#number)) controllers.set(this.#number, controller);
        else controller.abort(new DOMException("the call has ended", "AbortError"));
      }
      return controller.signal;
    }
    progress(text) { native.progress(this.#number, String(text)); }
  }

  function named(list, what, name) {
    if (Array.isArray(list)) {
      for (let i = 0; i < list.length; i++) {
        if (list[i] !== null && typeof list[i] === "object" && list[i].name === name) return list[i];
      }
    }
    throw new Error("the skill has no " + what + " `" + name + "`");
  }

  function tool(call, name, args) {
    const found = named(skill.tools, "tool", name);
    if (typeof found.execute !== "function") {
      throw new TypeError("the tool `" + name + "` has no function `execute`");
    }
    return found.execute.call(skill, args, new Call(call));
  }

  function command(call, name, text) {
    const found = named(skill.commands, "command", name);
    if (typeof found.execute !== "function") {
      throw new TypeError("the command `" + name + "` has no function `execute`");
    }
    answer(call, found.execute.call(skill, text, new Call(call)));
  }

  function hook(call, name, args) {
    const found = skill[name];
    if (found === undefined || found === null) return false;
    if (typeof found !== "function") throw new TypeError("`" + name + "` is no function");
    answer(call, found.apply(skill, args));
    return true;
  }

  // What one entry of a list says of itself; an entry that throws costs itself.
  function entry(one, at, fields) {
    try {
      if (one === null || typeof one !== "object") throw new TypeError("it is no object");
      const said = {};
      for (const field of fields) if (one[field] !== undefined) said[field] = one[field];
      if (typeof one.execute !== "function") throw new TypeError("it has no function `execute`");
      return JSON.stringify(said);
    } catch (error) {
      let why = "it can't be read";
      try { why = String(error.message ?? error); } catch { /* told as it is */ }
      let name;
      try { name = String(one.name); } catch { /* told by its place */ }
      return JSON.stringify({ at, name, problem: why });
    }
  }

  const TOOL = ["name", "description", "inputSchema", "input_schema", "effects", "timeout_ms"];

  function listed() {
    const read = (list, what, fields) => {
      if (list === undefined || list === null) return "[]";
      if (!Array.isArray(list)) throw new TypeError("`" + what + "` must be an array");
      const entries = [];
      for (let at = 0; at < list.length; at++) entries.push(entry(list[at], at, fields));
      return "[" + entries.join(",") + "]";
    };
    const tools = read(skill.tools, "tools", TOOL);
    const commands = read(skill.commands, "commands", ["name", "description"]);
    return '"tools":' + tools + ',"commands":' + commands;
  }

  function lists(call) {
    native.lists(call, "{" + listed() + "}");
  }

  // What there is once the script was read; `init` may change all of it.
  function found(call) {
    const hooks = NAMES.filter((name) => {
      try { return skill[name] !== undefined && skill[name] !== null; } catch { return true; }
    });
    let said = "";
    try { said = listed() + ","; } catch { /* told when they are read again */ }
    native.lists(call, "{" + said + '"hooks":' + JSON.stringify(hooks) + "}");
  }

  // Names that a script declares at its top level, which are no properties of
  // the global object.
  function bare() {
    const found = {};
    for (const name of NAMES) {
      const read = new Function("return typeof " + name + " === 'undefined' ? undefined : " + name);
      Object.defineProperty(found, name, { get: read, enumerable: true });
    }
    return found;
  }

  function isSkill(value) {
    return value !== null && typeof value === "object" && NAMES.some((name) => value[name] !== undefined);
  }

  // Finds the skill in what a script left behind, or a module exports.
  function adopt(call, exported) {
    const left = global.__skill;
    const said = left?.default ?? left ?? exported?.default;
    if (said !== undefined && said !== null) {
      if (typeof said !== "object") throw new TypeError("the skill must be an object");
      skill = said;
    } else {
      skill = isSkill(exported) ? exported : bare();
    }
    if (!isSkill(skill)) {
      throw new Error("the script has neither tools nor hooks (export default { tools: […] })");
    }
    found(call);
  }

  function loaded(call, evaluated, exported) {
    evaluated.then(() => adopt(call, exported))
      .catch((error) => native.failed(call, error));
  }

  // Timers.

  function setTimer(callback, ms, args, repeats) {
    if (typeof callback !== "function") {
      throw new TypeError("the first argument must be a function, got " + typeof callback);
    }
    const timer = native.setTimer(Number(ms) || 0, repeats);
    timers.set(timer, [callback, args]);
    return timer;
  }

  function clear(timer) {
    if (typeof timer === "number" && timers.delete(timer)) native.clearTimer(timer);
  }

  function fire(timer, again) {
    const set = timers.get(timer);
    if (set === undefined) return;
    if (!again) timers.delete(timer);
    set[0].apply(undefined, set[1]);
  }

  function shown(value) {
    if (typeof value === "string") return value;
    if (value instanceof Error) return value.stack ? String(value) + "\n" + value.stack : String(value);
    if (typeof value === "object" && value !== null) {
      try { return JSON.stringify(value) ?? String(value); } catch { return Object.prototype.toString.call(value); }
    }
    return typeof value === "bigint" ? value + "n" : String(value);
  }

  function say(level) {
    return (...values) => native.log(level, values.map(shown).join(" "));
  }

  function define(name, value) {
    Object.defineProperty(global, name, { value, writable: true, configurable: true, enumerable: false });
  }

  define("console", {
    debug: say("debug"), trace: say("debug"), log: say("info"), info: say("info"),
    warn: say("warn"), error: say("error"),
    assert: (fine, ...values) => { if (!fine) say("error")("assertion failed:", ...values); },
  });
  define("setTimeout", (callback, ms, ...args) => setTimer(callback, ms, args, false));
  define("setInterval", (callback, ms, ...args) => setTimer(callback, ms, args, true));
  define("clearTimeout", clear);
  define("clearInterval", clear);
  if (global.queueMicrotask === undefined) {
    define("queueMicrotask", (callback) => {
      if (typeof callback !== "function") throw new TypeError("the first argument must be a function");
      Promise.resolve().then(callback);
    });
  }

  // JSON has no word for these.
  const json = (type, toJSON) =>
    Object.defineProperty(type.prototype, "toJSON", { value: toJSON, writable: true, configurable: true });
  json(BigInt, function () { return this.toString(); });
  json(Set, function () { return Array.from(this); });
  json(Map, function () {
    for (const key of this.keys()) if (typeof key !== "string") return Array.from(this);
    return Object.fromEntries(this);
  });

  // Everything else is made when it is first touched.
  const pieces = new Map(); // piece -> what it made
  function piece(name) {
    let made = pieces.get(name);
    if (made === undefined) pieces.set(name, made = native.piece(name)(host));
    return made;
  }

  const host = { promise, cancellable, listening, native, piece };
  // There are many: each keeps a number, not its texts.
  native.globals().forEach(([name], at) => {
    Object.defineProperty(global, name, {
      configurable: true,
      enumerable: false,
      get: () => made(at),
      set: (value) => define(native.globals()[at][0], value),
    });
  });
  function made(at) {
    const [name, from] = native.globals()[at];
    const value = piece(from)[name];
    define(name, value);
    return value;
  }

  return { tool, answer, command, hook, lists, adopt, loaded, settle, abort, fire };
})
