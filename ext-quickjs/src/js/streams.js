// Streams (streams.spec.whatwg.org): readable, writable, and what lies between.
// Readable streams of bytes are read as any other; there are no readers that
// bring their own buffer.
(function () {
  const nothing = () => {};

  // A promise and its functions. Nobody has to look at it.
  function promised() {
    const made = {};
    made.promise = new Promise((resolve, reject) => { made.resolve = resolve; made.reject = reject; });
    made.promise.catch(nothing);
    return made;
  }

  function method(of, name) {
    const found = of[name];
    if (found === undefined || found === null) return undefined;
    if (typeof found !== "function") throw new TypeError("`" + name + "` is no function");
    return found.bind(of);
  }

  // How much a queue may hold, and how large a chunk is.
  function strategy(given, fallback) {
    const most = given?.highWaterMark === undefined ? fallback : Number(given.highWaterMark);
    if (!(most >= 0)) throw new RangeError("`highWaterMark` must be a number that isn't negative");
    return [most, given?.size === undefined ? () => 1 : method(given, "size")];
  }

  function sized(size, chunk) {
    const length = Number(size(chunk));
    if (!(length >= 0 && length < Infinity)) throw new RangeError("a chunk's size must be finite and not negative");
    return length;
  }

  // Calls what may throw, and answers with a promise either way.
  const attempt = (call, ...args) => new Promise((resolve) => resolve(call?.(...args)));

  // Readable streams.

  let reading; // what is inside of a ReadableStream

  // Whether somebody waits for a chunk, or there is room for one.
  const wants = (r) => r.reader?.requests.length > 0 || r.most > r.queued;

  function pull(r) {
    if (r.state !== "readable" || !r.started || r.closing || !wants(r)) return;
    if (r.pulling) { r.again = true; return; }
    r.pulling = true;
    attempt(r.pull, r.controller).then(() => {
      r.pulling = false;
      if (r.again) { r.again = false; pull(r); }
    }, (error) => fail(r, error));
  }

  function enqueue(r, chunk) {
    if (r.closing || r.state !== "readable") throw new TypeError("the stream takes no more chunks");
    if (r.reader?.requests.length > 0) {
      r.reader.requests.shift().resolve({ value: chunk, done: false });
    } else {
      let length;
      try { length = sized(r.size, chunk); } catch (error) { fail(r, error); throw error; }
      r.queue.push([chunk, length]);
      r.queued += length;
    }
    pull(r);
  }

  function end(r, state) {
    r.state = state;
    r.pull = r.cancel = undefined;
    r.queue = [];
    r.queued = 0;
  }

  function finish(r) {
    end(r, "closed");
    const requests = r.reader?.requests.splice(0) ?? [];
    for (const request of requests) request.resolve({ value: undefined, done: true });
    r.reader?.closed.resolve();
  }

  function fail(r, error) {
    if (r.state !== "readable") return;
    end(r, "errored");
    r.error = error;
    const requests = r.reader?.requests.splice(0) ?? [];
    for (const request of requests) request.reject(error);
    r.reader?.closed.reject(error);
  }

  function close(r) {
    if (r.closing || r.state !== "readable") throw new TypeError("the stream has ended already");
    r.closing = true;
    if (r.queue.length === 0) finish(r);
  }

  function read(r) {
    r.disturbed = true;
    if (r.state === "closed") return Promise.resolve({ value: undefined, done: true });
    if (r.state === "errored") return Promise.reject(r.error);
    if (r.queue.length > 0) {
      const [value, length] = r.queue.shift();
      r.queued -= length;
      if (r.closing && r.queue.length === 0) finish(r);
      else pull(r);
      return Promise.resolve({ value, done: false });
    }
    const request = promised();
    r.reader.requests.push(request);
    pull(r);
    return request.promise;
  }

  function cancel(r, reason) {
    r.disturbed = true;
    if (r.state === "closed") return Promise.resolve();
    if (r.state === "errored") return Promise.reject(r.error);
    const told = r.cancel;
    finish(r);
    return attempt(told, reason).then(nothing);
  }

  class ReadableStreamDefaultController {
    #of;
    constructor(of) {
      if (of?.state === undefined) throw new TypeError("Illegal constructor");
      this.#of = of;
    }
    get desiredSize() {
      const r = this.#of;
      return r.state === "errored" ? null : r.state === "closed" ? 0 : r.most - r.queued;
    }
    get byobRequest() { return null; }
    enqueue(chunk) {
      const r = this.#of;
      if (r.bytes && !ArrayBuffer.isView(chunk)) throw new TypeError("a stream of bytes takes views of buffers");
      enqueue(r, chunk);
    }
    close() { close(this.#of); }
    error(reason) { fail(this.#of, reason); }
  }

  class ReadableStreamDefaultReader {
    #of; #own;
    constructor(stream) {
      const r = reading(stream);
      if (r.reader) throw new TypeError("the stream has a reader already");
      this.#of = r;
      this.#own = r.reader = { requests: [], closed: promised() };
      if (r.state === "closed") this.#own.closed.resolve();
      if (r.state === "errored") this.#own.closed.reject(r.error);
    }
    get closed() { return this.#own.closed.promise; }
    #stream() {
      if (this.#of.reader !== this.#own) throw new TypeError("the reader was let go");
      return this.#of;
    }
    async read() { return read(this.#stream()); }
    async cancel(reason) { return cancel(this.#stream(), reason); }
    releaseLock() {
      if (this.#of.reader !== this.#own) return;
      this.#of.reader = null;
      const error = new TypeError("the reader was let go");
      for (const request of this.#own.requests.splice(0)) request.reject(error);
      if (this.#of.state === "readable") {
        this.#own.closed.reject(error);
      } else {
        this.#own.closed = promised();
        this.#own.closed.reject(error);
      }
    }
  }

  class ReadableStream {
    #of;
    static { reading = (stream) => {
      if (!(#of in stream)) throw new TypeError("this is no ReadableStream");
      return stream.#of;
    }; }
    constructor(source = {}, given = {}) {
      if (source === null) throw new TypeError("the source must be an object");
      const bytes = source.type === "bytes";
      if (source.type !== undefined && !bytes) throw new RangeError("`" + source.type + "` is no type of a stream");
      const [most, size] = strategy(given, bytes ? 0 : 1);
      const r = this.#of = {
        state: "readable", error: undefined, reader: null, disturbed: false, bytes,
        queue: [], queued: 0, most, size: bytes ? (chunk) => chunk.byteLength : size,
        pull: method(source, "pull"), cancel: method(source, "cancel"),
        started: false, pulling: false, again: false, closing: false, controller: null,
      };
      r.controller = new ReadableStreamDefaultController(r);
      const begun = method(source, "start")?.(r.controller);
      Promise.resolve(begun).then(() => { r.started = true; pull(r); }, (error) => fail(r, error));
    }
    static from(iterable) {
      const iterator = iterable[Symbol.asyncIterator]?.() ?? iterable[Symbol.iterator]?.();
      if (iterator === undefined) throw new TypeError("it can't be iterated");
      return new ReadableStream({
        async pull(controller) {
          const { value, done } = await iterator.next();
          if (done) controller.close();
          else controller.enqueue(await value);
        },
        async cancel(reason) { await iterator.return?.(reason); },
      }, { highWaterMark: 0 });
    }
    get locked() { return reading(this).reader !== null; }
    getReader(options) {
      if (options?.mode !== undefined) throw new TypeError("readers with their own buffer aren't supported");
      return new ReadableStreamDefaultReader(this);
    }
    async cancel(reason) {
      if (this.locked) throw new TypeError("the stream has a reader");
      return cancel(reading(this), reason);
    }
    tee() {
      const reader = this.getReader();
      const gone = [undefined, undefined], ended = promised();
      let pulling = false, again = false;
      const branches = [];
      const both = (tell) => branches.forEach((branch, at) => { if (!gone[at]) tell(branch); });
      const source = (at) => ({
        start(controller) { branches[at] = controller; },
        async pull() {
          if (pulling) { again = true; return; }
          pulling = true;
          do {
            again = false;
            const { value, done } = await reader.read();
            if (done) { both((branch) => branch.close()); ended.resolve(); return; }
            both((branch) => branch.enqueue(value));
          } while (again);
          pulling = false;
        },
        async cancel(reason) {
          gone[at] = [reason];
          if (gone[0] && gone[1]) reader.cancel([gone[0][0], gone[1][0]]).then(ended.resolve, ended.reject);
          return ended.promise;
        },
      });
      const made = [new ReadableStream(source(0)), new ReadableStream(source(1))];
      reader.closed.catch((error) => { both((branch) => branch.error(error)); ended.resolve(); });
      return made;
    }
    async pipeTo(target, { preventClose, preventAbort, preventCancel, signal } = {}) {
      if (this.locked || target.locked) throw new TypeError("the stream is locked");
      const reader = this.getReader(), writer = target.getWriter();
      // What ends it from outside. A race with promises that live as long as the
      // pipe would leave something behind for each chunk.
      let ended, interrupt = nothing;
      const end = (error) => { ended ??= [error]; interrupt(error); };
      const either = (promise) => new Promise((resolve, reject) => {
        interrupt = reject;
        if (ended) reject(ended[0]);
        else promise.then(resolve, reject);
      });
      writer.closed.then(() => end(new TypeError("the target was closed")), end);
      const onAbort = () => end(signal.reason);
      if (signal?.aborted) onAbort();
      signal?.addEventListener("abort", onAbort, { once: true });
      const r = reading(this);
      let last;
      try {
        for (;;) {
          await either(writer.ready);
          const { value, done } = await either(reader.read());
          if (done) break;
          last = writer.write(value);
          last.catch(nothing);
        }
        await last;
        if (!preventClose) await writer.close();
      } catch (error) {
        // What came before is written before the end is told.
        if (r.state === "errored" && !signal?.aborted) await last?.catch(nothing);
        if (!preventAbort && (r.state === "errored" || signal?.aborted)) await writer.abort(error).catch(nothing);
        if (!preventCancel && r.state === "readable") await cancel(r, error).catch(nothing);
        throw error;
      } finally {
        signal?.removeEventListener("abort", onAbort);
        reader.releaseLock();
        writer.releaseLock();
      }
    }
    pipeThrough({ readable, writable }, options) {
      this.pipeTo(writable, options).catch(nothing);
      return readable;
    }
    async *#values(preventCancel) {
      const reader = this.getReader();
      let ended = false;
      try {
        for (;;) {
          let got;
          try { got = await reader.read(); } catch (error) { ended = true; throw error; }
          if (got.done) { ended = true; return; }
          yield got.value;
        }
      } finally {
        if (!ended && !preventCancel) await reader.cancel();
        reader.releaseLock();
      }
    }
    values(options) { return this.#values(Boolean(options?.preventCancel)); }
    [Symbol.asyncIterator]() { return this.#values(false); }
    get [Symbol.toStringTag]() { return "ReadableStream"; }
  }

  // Writable streams.

  let writing; // what is inside of a WritableStream

  // Tells the writer whether there is room.
  function room(w) {
    const full = w.state === "writable" && !w.closing && w.queued >= w.most;
    if (full === w.full) return;
    w.full = full;
    if (full) w.ready = promised();
    else w.ready.resolve();
  }

  function breaks(w, error) {
    if (w.state !== "writable") return;
    w.state = "errored";
    w.error = error;
    w.abortion.abort(error);
    for (const waits of w.queue.splice(0)) waits.done.reject(error);
    w.queued = 0;
    if (w.full) w.ready.reject(error);
    w.ready = promised();
    w.ready.reject(error);
    w.closed.reject(error);
  }

  // Writes what waits, one after another.
  async function drain(w) {
    if (w.busy || !w.started) return;
    w.busy = true;
    while (w.queue.length > 0 && w.state === "writable") {
      const first = w.queue[0];
      try {
        if (first.last) await w.close?.();
        else await w.write?.(first.chunk, w.controller);
      } catch (error) {
        if (w.queue[0] === first) w.queue.shift();
        first.done.reject(error);
        breaks(w, error);
        break;
      }
      first.done.resolve();
      if (w.queue[0] !== first) break;
      w.queue.shift();
      w.queued -= first.length;
      if (first.last) { w.state = "closed"; w.closed.resolve(); }
      room(w);
    }
    w.busy = false;
    w.idle?.resolve();
  }

  function write(w, chunk) {
    if (w.state === "errored") return Promise.reject(w.error);
    if (w.closing || w.state === "closed") return Promise.reject(new TypeError("the stream takes no more chunks"));
    let length;
    try { length = sized(w.size, chunk); } catch (error) { breaks(w, error); return Promise.reject(error); }
    const done = promised();
    w.queue.push({ chunk, length, done, last: false });
    w.queued += length;
    room(w);
    drain(w);
    return done.promise;
  }

  function shut(w) {
    if (w.state === "errored") return Promise.reject(w.error);
    if (w.closing || w.state === "closed") return Promise.reject(new TypeError("the stream has ended already"));
    w.closing = true;
    const done = promised();
    w.queue.push({ chunk: undefined, length: 0, done, last: true });
    room(w);
    drain(w);
    return done.promise;
  }

  async function abort(w, reason) {
    if (w.state !== "writable") return;
    breaks(w, reason);
    if (w.busy) { w.idle = promised(); await w.idle.promise; }
    await w.abort?.(reason);
  }

  class WritableStreamDefaultController {
    #of;
    constructor(of) {
      if (of?.state === undefined) throw new TypeError("Illegal constructor");
      this.#of = of;
    }
    get signal() { return this.#of.abortion.signal; }
    error(reason) { breaks(this.#of, reason); }
  }

  class WritableStreamDefaultWriter {
    #of; #released = null;
    constructor(stream) {
      const w = writing(stream);
      if (w.writer) throw new TypeError("the stream has a writer already");
      w.writer = this;
      this.#of = w;
    }
    #stream() {
      if (this.#released) throw new TypeError("the writer was let go");
      return this.#of;
    }
    get closed() { return this.#released ?? this.#of.closed.promise; }
    get ready() { return this.#released ?? this.#of.ready.promise; }
    get desiredSize() {
      const w = this.#stream();
      return w.state === "errored" ? null : w.state === "closed" ? 0 : w.most - w.queued;
    }
    async write(chunk) { return write(this.#stream(), chunk); }
    async close() { return shut(this.#stream()); }
    async abort(reason) { return abort(this.#stream(), reason); }
    releaseLock() {
      if (this.#released) return;
      this.#of.writer = null;
      this.#released = Promise.reject(new TypeError("the writer was let go"));
      this.#released.catch(nothing);
    }
  }

  class WritableStream {
    #of;
    static { writing = (stream) => {
      if (!(#of in stream)) throw new TypeError("this is no WritableStream");
      return stream.#of;
    }; }
    constructor(sink = {}, given = {}) {
      if (sink === null) throw new TypeError("the sink must be an object");
      if (sink.type !== undefined) throw new RangeError("there are no types of writable streams");
      const [most, size] = strategy(given, 1);
      const w = this.#of = {
        state: "writable", error: undefined, writer: null, queue: [], queued: 0, most, size,
        write: method(sink, "write"), close: method(sink, "close"), abort: method(sink, "abort"),
        started: false, busy: false, closing: false, full: false, idle: null,
        ready: promised(), closed: promised(), abortion: new AbortController(), controller: null,
      };
      w.controller = new WritableStreamDefaultController(w);
      w.ready.resolve();
      room(w);
      const begun = method(sink, "start")?.(w.controller);
      Promise.resolve(begun).then(() => { w.started = true; drain(w); }, (error) => breaks(w, error));
    }
    get locked() { return writing(this).writer !== null; }
    getWriter() { return new WritableStreamDefaultWriter(this); }
    async close() {
      if (this.locked) throw new TypeError("the stream has a writer");
      return shut(writing(this));
    }
    async abort(reason) {
      if (this.locked) throw new TypeError("the stream has a writer");
      return abort(writing(this), reason);
    }
    get [Symbol.toStringTag]() { return "WritableStream"; }
  }

  // What lies between.

  class TransformStreamDefaultController {
    #of;
    constructor(of) {
      if (of?.enqueue === undefined) throw new TypeError("Illegal constructor");
      this.#of = of;
    }
    get desiredSize() { return this.#of.output.desiredSize; }
    enqueue(chunk) { this.#of.enqueue(chunk); }
    error(reason) { this.#of.error(reason); }
    terminate() { this.#of.terminate(); }
  }

  class TransformStream {
    #readable; #writable;
    constructor(transformer = {}, writableStrategy = {}, readableStrategy = {}) {
      const given = transformer ?? {};
      const transform = method(given, "transform") ?? ((chunk, controller) => controller.enqueue(chunk));
      const [flush, cancelled] = [method(given, "flush"), method(given, "cancel")];
      let output, input, wanted = promised();
      const inside = {
        get output() { return output; },
        enqueue(chunk) {
          output.enqueue(chunk);
          if (!wants(reading(readable))) wanted = promised();
        },
        error(reason) { output.error(reason); input.error(reason); wanted.resolve(); },
        terminate() { output.close(); input.error(new TypeError("the stream was terminated")); wanted.resolve(); },
      };
      const controller = new TransformStreamDefaultController(inside);
      const begun = promised();
      const readable = this.#readable = new ReadableStream({
        start(made) { output = made; return begun.promise; },
        pull() { wanted.resolve(); },
        async cancel(reason) {
          input.error(reason);
          wanted.resolve();
          await cancelled?.(reason);
        },
      }, { highWaterMark: readableStrategy?.highWaterMark ?? 0, size: readableStrategy?.size });
      this.#writable = new WritableStream({
        start(made) { input = made; return begun.promise; },
        async write(chunk) {
          await wanted.promise;
          try { await transform(chunk, controller); } catch (error) { inside.error(error); throw error; }
        },
        async close() {
          try { await flush?.(controller); } catch (error) { inside.error(error); throw error; }
          try { output.close(); } catch { /* it was closed before */ }
        },
        async abort(reason) { output.error(reason); await cancelled?.(reason); },
      }, writableStrategy);
      attempt(method(given, "start"), controller).then(begun.resolve, (error) => {
        inside.error(error);
        begun.reject(error);
      });
    }
    get readable() { return this.#readable; }
    get writable() { return this.#writable; }
    get [Symbol.toStringTag]() { return "TransformStream"; }
  }

  class CountQueuingStrategy {
    #most;
    constructor({ highWaterMark }) { this.#most = Number(highWaterMark); }
    get highWaterMark() { return this.#most; }
    get size() { return () => 1; }
  }

  class ByteLengthQueuingStrategy {
    #most;
    constructor({ highWaterMark }) { this.#most = Number(highWaterMark); }
    get highWaterMark() { return this.#most; }
    get size() { return (chunk) => chunk.byteLength; }
  }

  class TextDecoderStream extends TransformStream {
    #decoder;
    constructor(label = "utf-8", options = {}) {
      const decoder = new TextDecoder(label, options);
      const pass = (text, controller) => { if (text !== "") controller.enqueue(text); };
      super({
        transform(chunk, controller) { pass(decoder.decode(chunk, { stream: true }), controller); },
        flush(controller) { pass(decoder.decode(), controller); },
      });
      this.#decoder = decoder;
    }
    get encoding() { return this.#decoder.encoding; }
    get fatal() { return this.#decoder.fatal; }
    get ignoreBOM() { return this.#decoder.ignoreBOM; }
  }

  class TextEncoderStream extends TransformStream {
    constructor() {
      const encoder = new TextEncoder();
      let half = ""; // a surrogate that waits for its other half
      super({
        transform(chunk, controller) {
          let text = half + String(chunk);
          half = /[\ud800-\udbff]$/.test(text) ? text.slice(-1) : "";
          text = text.slice(0, text.length - half.length);
          if (text !== "") controller.enqueue(encoder.encode(text));
        },
        flush(controller) { if (half !== "") controller.enqueue(encoder.encode(half)); },
      });
    }
    get encoding() { return "utf-8"; }
  }

  const isDisturbed = (stream) => reading(stream).disturbed;
  return {
    ReadableStream, ReadableStreamDefaultReader, ReadableStreamDefaultController,
    WritableStream, WritableStreamDefaultWriter, WritableStreamDefaultController,
    TransformStream, TransformStreamDefaultController,
    CountQueuingStrategy, ByteLengthQueuingStrategy, TextDecoderStream, TextEncoderStream, isDisturbed,
  };
})
