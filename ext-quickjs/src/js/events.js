// DOM events, without a tree to bubble in, and abort signals.
(function ({ native }) {

  class Event {
    #type; #cancelable; #prevented = false;
    _target = null; _stopped = false; _passive = false;
    timeStamp = performance.now();
    constructor(type, init = {}) {
      if (arguments.length === 0) throw new TypeError("an event has a type");
      this.#type = String(type);
      this.#cancelable = Boolean(init?.cancelable);
    }
    get type() { return this.#type; }
    get target() { return this._target; }
    get currentTarget() { return this._target; }
    get cancelable() { return this.#cancelable; }
    get bubbles() { return false; }
    get composed() { return false; }
    get isTrusted() { return false; }
    get defaultPrevented() { return this.#prevented; }
    preventDefault() { if (this.#cancelable && !this._passive) this.#prevented = true; }
    stopPropagation() {}
    stopImmediatePropagation() { this._stopped = true; }
  }

  class CustomEvent extends Event {
    #detail;
    constructor(type, init = {}) { super(type, init); this.#detail = init?.detail ?? null; }
    get detail() { return this.#detail; }
  }

  class MessageEvent extends Event {
    constructor(type, init = {}) { super(type, init); this.data = init?.data ?? null; this.origin = init?.origin ?? ""; }
  }

  class ErrorEvent extends Event {
    constructor(type, init = {}) { super(type, init); this.message = init?.message ?? ""; this.error = init?.error; }
  }

  class CloseEvent extends Event {
    constructor(type, init = {}) {
      super(type, init);
      this.wasClean = Boolean(init?.wasClean);
      this.code = Number(init?.code ?? 0);
      this.reason = String(init?.reason ?? "");
    }
  }

  class EventTarget {
    #listeners = new Map();
    addEventListener(type, callback, options) {
      if (callback === null || callback === undefined) return;
      const said = typeof options === "object" && options !== null ? options : { capture: options };
      const { signal } = said;
      if (signal?.aborted) return;
      const list = this.#listeners.get(String(type)) ?? [];
      const capture = Boolean(said.capture);
      if (list.some((one) => one.callback === callback && one.capture === capture)) return;
      const one = { callback, capture, once: Boolean(said.once), passive: Boolean(said.passive), removed: false };
      this.#listeners.set(String(type), [...list, one]);
      signal?.addEventListener("abort", () => this.removeEventListener(type, callback, capture), { once: true });
    }
    removeEventListener(type, callback, options) {
      const capture = Boolean(typeof options === "object" && options !== null ? options.capture : options);
      const list = this.#listeners.get(String(type)) ?? [];
      const kept = list.filter((one) => {
        const same = one.callback === callback && one.capture === capture;
        if (same) one.removed = true;
        return !same;
      });
      this.#listeners.set(String(type), kept);
    }
    dispatchEvent(event) {
      if (!(event instanceof Event)) throw new TypeError("the first argument must be an Event");
      event._target = this;
      event._stopped = false;
      for (const one of this.#listeners.get(event.type) ?? []) {
        if (one.removed) continue;
        if (one.once) this.removeEventListener(event.type, one.callback, one.capture);
        event._passive = one.passive;
        try {
          if (typeof one.callback === "function") one.callback.call(this, event);
          else one.callback.handleEvent(event);
        } catch (error) {
          // As an error that nobody caught; the other listeners have their turn.
          Promise.reject(error);
        }
        event._passive = false;
        if (event._stopped) break;
      }
      return !event.defaultPrevented;
    }
  }

  // `onabort` and the like: a property that is a listener.
  function handler(type, name) {
    const slot = Symbol(name);
    Object.defineProperty(type.prototype, "on" + name, {
      configurable: true, enumerable: true,
      get() { return this[slot]?.given ?? null; },
      set(given) {
        if (this[slot]) this.removeEventListener(name, this[slot].listener);
        this[slot] = undefined;
        if (typeof given === "function") {
          const listener = (event) => given.call(this, event);
          this[slot] = { given, listener };
          this.addEventListener(name, listener);
        }
      },
    });
  }

  const INSIDE = Symbol("inside");

  class AbortSignal extends EventTarget {
    #aborted = false; #reason;
    constructor(key) {
      if (key !== INSIDE) throw new TypeError("Illegal constructor");
      super();
    }
    get aborted() { return this.#aborted; }
    get reason() { return this.#reason; }
    throwIfAborted() { if (this.#aborted) throw this.#reason; }
    [INSIDE](reason) {
      if (this.#aborted) return;
      this.#aborted = true;
      this.#reason = reason === undefined ? new DOMException("The operation was aborted", "AbortError") : reason;
      this.dispatchEvent(new Event("abort"));
    }
    static abort(reason) {
      const signal = new AbortSignal(INSIDE);
      signal[INSIDE](reason);
      return signal;
    }
    static timeout(ms) {
      const signal = new AbortSignal(INSIDE);
      setTimeout(() => signal[INSIDE](new DOMException("The operation timed out", "TimeoutError")), ms);
      return signal;
    }
    static any(signals) {
      const signal = new AbortSignal(INSIDE);
      for (const one of signals) {
        if (one.aborted) { signal[INSIDE](one.reason); break; }
        one.addEventListener("abort", () => signal[INSIDE](one.reason), { once: true });
      }
      return signal;
    }
  }
  handler(AbortSignal, "abort");

  class AbortController {
    #signal = new AbortSignal(INSIDE);
    get signal() { return this.#signal; }
    abort(reason) { this.#signal[INSIDE](reason); }
  }

  return { Event, CustomEvent, MessageEvent, ErrorEvent, CloseEvent, EventTarget, AbortSignal, AbortController, handler };
})
