// fetch and what belongs to it.
(function ({ native, cancellable, piece }) {
  const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;

  function name(value) {
    const text = String(value);
    if (!TOKEN.test(text)) throw new TypeError("`" + text + "` is no header's name");
    return text.toLowerCase();
  }

  function content(value) {
    const text = String(value).replace(/^[\t\n\r ]+|[\t\n\r ]+$/g, "");
    if (/[\0\r\n]/.test(text)) throw new TypeError("a header's value has no line ends");
    return text;
  }

  class Headers {
    #map = new Map();
    constructor(init) {
      if (init === undefined || init === null) return;
      if (typeof init !== "object") throw new TypeError("headers are an object or a list of pairs");
      if (typeof init[Symbol.iterator] === "function") {
        for (const pair of init) {
          const both = [...pair];
          if (both.length !== 2) throw new TypeError("a header has a name and a value");
          this.append(both[0], both[1]);
        }
      } else {
        for (const key of Object.keys(init)) this.append(key, init[key]);
      }
    }
    append(key, value) {
      const list = this.#map.get(name(key));
      if (list) list.push(content(value));
      else this.#map.set(name(key), [content(value)]);
    }
    delete(key) { this.#map.delete(name(key)); }
    get(key) { return this.#map.get(name(key))?.join(", ") ?? null; }
    getSetCookie() { return [...(this.#map.get("set-cookie") ?? [])]; }
    has(key) { return this.#map.has(name(key)); }
    set(key, value) { this.#map.set(name(key), [content(value)]); }
    forEach(callback, self) { for (const [key, value] of this) callback.call(self, value, key, this); }
    *entries() {
      for (const key of [...this.#map.keys()].sort()) {
        const list = this.#map.get(key) ?? [];
        if (key === "set-cookie") for (const one of list) yield [key, one];
        else yield [key, list.join(", ")];
      }
    }
    *keys() { for (const [key] of this.entries()) yield key; }
    *values() { for (const [, value] of this.entries()) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    get [Symbol.toStringTag]() { return "Headers"; }
  }

  // Tells the host when nobody can read an answer any more.
  const forgotten = new FinalizationRegistry((number) => native.bodyDrop(number));

  // What a body is made of, and the type it has by itself.
  function extract(body) {
    if (body === undefined || body === null) return [null, null];
    if (body instanceof URLSearchParams) {
      return [{ bytes: new TextEncoder().encode(body.toString()) }, "application/x-www-form-urlencoded;charset=UTF-8"];
    }
    if (ArrayBuffer.isView(body)) {
      return [{ bytes: new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice() }, null];
    }
    if (body instanceof ArrayBuffer) return [{ bytes: new Uint8Array(body.slice(0)) }, null];
    if (typeof body === "object") {
      const { Blob, FormData, bytesOf, multipart } = piece("blob");
      if (body instanceof Blob) return [{ bytes: bytesOf(body).slice() }, body.type || null];
      if (body instanceof FormData) {
        const [bytes, type] = multipart(body);
        return [{ bytes }, type];
      }
      const { ReadableStream, isDisturbed } = piece("streams");
      if (body instanceof ReadableStream) {
        if (body.locked || isDisturbed(body)) throw new TypeError("the stream is being read already");
        return [{ stream: body }, null];
      }
    }
    return [{ bytes: new TextEncoder().encode(String(body)) }, "text/plain;charset=UTF-8"];
  }

  // The pieces of an answer as they come.
  function streamOf(remote, signal) {
    const { ReadableStream } = piece("streams");
    const stop = () => native.bodyDrop(remote.number);
    return new ReadableStream({
      type: "bytes",
      async pull(controller) {
        try {
          signal?.throwIfAborted();
          const got = await cancellable(native.bodyPiece(remote.number), signal);
          if (got !== null) { controller.enqueue(got[1]); return; }
        } catch (error) {
          stop();
          throw error;
        }
        stop();
        controller.close();
      },
      cancel: stop,
    });
  }

  function bytesStream(bytes) {
    const { ReadableStream } = piece("streams");
    return new ReadableStream({
      type: "bytes",
      start(controller) {
        if (bytes.length > 0) controller.enqueue(bytes);
        controller.close();
      },
    });
  }

  async function gathered(stream) {
    const pieces = [];
    let length = 0;
    for await (const chunk of stream) {
      if (!(chunk instanceof Uint8Array)) throw new TypeError("a body's stream brings Uint8Arrays");
      pieces.push(chunk);
      length += chunk.length;
    }
    const whole = new Uint8Array(length);
    let at = 0;
    for (const chunk of pieces) { whole.set(chunk, at); at += chunk.length; }
    return whole;
  }

  // A body is nothing, or one of: bytes; an answer that the host reads; a
  // stream.
  class Body {
    #of; #used = false;
    constructor(of) { this.#of = of; }
    get _isEmpty() { return this.#of === null; }
    get bodyUsed() {
      const stream = this.#of?.stream;
      return this.#used || (stream !== undefined && piece("streams").isDisturbed(stream));
    }
    get body() {
      const of = this.#of;
      if (of === null) return null;
      if (of.stream === undefined) {
        of.stream = of.remote ? streamOf(of.remote, of.signal) : bytesStream(of.bytes);
        // Whoever had the body before has a stream that was read.
        if (this.#used) of.stream.cancel();
        of.bytes = of.remote = undefined;
      }
      return of.stream;
    }
    // Takes what is there, to be read elsewhere.
    _take() {
      const of = this.#of;
      if (this.bodyUsed || of?.stream?.locked) throw new TypeError("the body was read already");
      if (of !== null) this.#used = true;
      return of;
    }
    // Two bodies of one.
    _fork() {
      const of = this.#of;
      if (this.bodyUsed || of?.stream?.locked) throw new TypeError("the body was read already");
      if (of === null) return null;
      if (of.bytes !== undefined) return { bytes: of.bytes.slice() };
      const [mine, other] = this.body.tee();
      of.stream = mine;
      return { stream: other };
    }
    async bytes() {
      const of = this._take();
      if (of === null) return new Uint8Array();
      if (of.stream !== undefined) return gathered(of.stream);
      if (of.remote === undefined) return of.bytes;
      const { remote, signal } = of;
      signal?.throwIfAborted();
      try {
        return (await cancellable(native.bodyWhole(remote.number), signal))[1];
      } finally {
        native.bodyDrop(remote.number);
      }
    }
    async arrayBuffer() { return (await this.bytes()).slice().buffer; }
    async text() { return new TextDecoder().decode(await this.bytes()); }
    async json() { return JSON.parse(await this.text()); }
    async blob() {
      const { Blob } = piece("blob");
      return new Blob([await this.bytes()], { type: this.headers.get("content-type") ?? "" });
    }
    async formData() {
      const type = this.headers.get("content-type") ?? "";
      return piece("blob").parsed(await this.bytes(), type);
    }
  }

  const METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "POST", "PUT"];

  class Request extends Body {
    constructor(input, init = {}) {
      const from = input instanceof Request ? input : null;
      const url = from ? from.url : new URL(input).href;
      if (!from) {
        const parsed = new URL(url);
        if (parsed.username || parsed.password) throw new TypeError("a request's URL has no credentials");
      }
      let method = String(init.method ?? from?.method ?? "GET");
      if (!TOKEN.test(method)) throw new TypeError("`" + method + "` is no method");
      if (METHODS.includes(method.toUpperCase())) method = method.toUpperCase();
      if (["CONNECT", "TRACE", "TRACK"].includes(method.toUpperCase())) {
        throw new TypeError("the method " + method + " isn't allowed");
      }
      const given = init.body ?? null;
      if (given !== null && (method === "GET" || method === "HEAD")) {
        throw new TypeError("a " + method + " request has no body");
      }
      const [of, type] = given === null && from ? [from._take(), null] : extract(given);
      super(of);
      this.method = method;
      this.url = url;
      this.headers = new Headers(init.headers ?? from?.headers);
      if (type !== null && !this.headers.has("content-type")) this.headers.set("content-type", type);
      this.redirect = String(init.redirect ?? from?.redirect ?? "follow");
      if (!["follow", "error", "manual"].includes(this.redirect)) {
        throw new TypeError("`" + this.redirect + "` is no way to treat a redirect");
      }
      this.signal = init.signal ?? from?.signal ?? new AbortController().signal;
    }
    clone() {
      const body = this._fork();
      const { url, method, headers, redirect, signal } = this;
      return new Request(url, { method, headers, redirect, signal, body: body && (body.stream ?? body.bytes) });
    }
    get [Symbol.toStringTag]() { return "Request"; }
  }

  // What a response is made of, told from what scripts may give.
  class Inside {
    constructor(of) { this.of = of; }
  }

  const NO_BODY = [101, 103, 204, 205, 304];

  class Response extends Body {
    constructor(body, init = {}) {
      const status = init.status === undefined ? 200 : Number(init.status);
      if (!(status >= 200 && status <= 599)) throw new RangeError("a response's status is 200 to 599");
      const [of, type] = body instanceof Inside ? [body.of, null] : extract(body);
      if (of !== null && NO_BODY.includes(status)) throw new TypeError("a response of status " + status + " has no body");
      super(of);
      this.status = status;
      this.statusText = String(init.statusText ?? "");
      this.headers = new Headers(init.headers);
      if (type !== null && !this.headers.has("content-type")) this.headers.set("content-type", type);
      this.url = "";
      this.redirected = false;
      this.type = "default";
    }
    get ok() { return this.status >= 200 && this.status <= 299; }
    clone() { return from(this, this._fork()); }
    static json(data, init = {}) {
      const text = JSON.stringify(data);
      if (text === undefined) throw new TypeError("JSON can't say it");
      const headers = new Headers(init.headers);
      if (!headers.has("content-type")) headers.set("content-type", "application/json");
      return new Response(text, { ...init, headers });
    }
    static error() { return from({ status: 0, statusText: "", headers: [], type: "error" }, null); }
    static redirect(url, status = 302) {
      if (![301, 302, 303, 307, 308].includes(status)) throw new RangeError(status + " is no redirect");
      return new Response(null, { status, headers: { location: new URL(url).href } });
    }
    get [Symbol.toStringTag]() { return "Response"; }
  }

  function from(said, of) {
    const response = new Response(new Inside(of));
    response.status = said.status;
    response.statusText = said.statusText;
    response.headers = new Headers(said.headers);
    response.url = said.url ?? "";
    response.redirected = said.redirected ?? false;
    response.type = said.type ?? "basic";
    return response;
  }

  // Sends a request; its answer's body is at the number, or comes along.
  async function send(request, more) {
    const { signal } = request;
    signal.throwIfAborted();
    // What is sent goes whole.
    const body = request._isEmpty ? undefined : await request.bytes();
    const operation = native.fetch(JSON.stringify({
      url: request.url,
      method: request.method,
      headers: [...request.headers],
      redirect: request.redirect,
      ...more,
    }), body);
    return cancellable(operation, signal);
  }

  async function fetch(input, init) {
    const request = new Request(input, init);
    const remote = { number: native.bodyPlace() };
    let said;
    try {
      said = await send(request, { body: remote.number });
    } catch (error) {
      native.bodyDrop(remote.number);
      throw error;
    }
    if (!said.hasBody) {
      native.bodyDrop(remote.number);
      return from(said, null);
    }
    // Without a token: the engine would hold on to it.
    forgotten.register(remote, remote.number);
    return from(said, { remote, signal: request.signal });
  }

  const net = {
    async fetch(url, { method, headers, body, timeout } = {}) {
      const request = new Request(url, { method, headers, body });
      const [said, bytes] = await send(request, timeout === undefined ? {} : { timeout_ms: Math.ceil(Number(timeout)) });
      return {
        status: said.status,
        statusText: said.statusText,
        headers: Object.fromEntries(new Headers(said.headers)),
        body: new TextDecoder().decode(bytes),
      };
    },
  };

  return { fetch, Headers, Request, Response, net };
})
