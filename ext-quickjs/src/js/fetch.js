// fetch and what belongs to it. Bodies are whole, never streams.
(function ({ native, cancellable }) {
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

  // A body's bytes and the type it has by itself.
  function extract(body) {
    if (body === undefined || body === null) return [null, null];
    if (body instanceof URLSearchParams) {
      return [new TextEncoder().encode(body.toString()), "application/x-www-form-urlencoded;charset=UTF-8"];
    }
    if (ArrayBuffer.isView(body)) {
      return [new Uint8Array(body.buffer, body.byteOffset, body.byteLength).slice(), null];
    }
    if (body instanceof ArrayBuffer) return [new Uint8Array(body.slice(0)), null];
    return [new TextEncoder().encode(String(body)), "text/plain;charset=UTF-8"];
  }

  class Body {
    #bytes; #used = false;
    constructor(bytes) { this.#bytes = bytes; }
    get bodyUsed() { return this.#used; }
    _peek() {
      if (this.#used) throw new TypeError("the body was read already");
      return this.#bytes;
    }
    async bytes() {
      const bytes = this._peek();
      if (bytes !== null) this.#used = true;
      return bytes ?? new Uint8Array();
    }
    async arrayBuffer() { return (await this.bytes()).slice().buffer; }
    async text() { return new TextDecoder().decode(await this.bytes()); }
    async json() { return JSON.parse(await this.text()); }
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
      const [bytes, type] = given === null && from ? [from._peek(), null] : extract(given);
      super(bytes);
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
    clone() { return new Request(this); }
    get [Symbol.toStringTag]() { return "Request"; }
  }

  const NO_BODY = [101, 103, 204, 205, 304];

  class Response extends Body {
    constructor(body, init = {}) {
      const status = init.status === undefined ? 200 : Number(init.status);
      if (!(status >= 200 && status <= 599)) throw new RangeError("a response's status is 200 to 599");
      const [bytes, type] = extract(body);
      if (bytes !== null && NO_BODY.includes(status)) throw new TypeError("a response of status " + status + " has no body");
      super(bytes);
      this.status = status;
      this.statusText = String(init.statusText ?? "");
      this.headers = new Headers(init.headers);
      if (type !== null && !this.headers.has("content-type")) this.headers.set("content-type", type);
      this.url = "";
      this.redirected = false;
      this.type = "default";
    }
    get ok() { return this.status >= 200 && this.status <= 299; }
    clone() {
      const bytes = this._peek();
      return from(this, bytes === null ? null : bytes.slice());
    }
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

  function from(said, bytes) {
    const response = new Response(bytes);
    response.status = said.status;
    response.statusText = said.statusText;
    response.headers = new Headers(said.headers);
    response.url = said.url ?? "";
    response.redirected = said.redirected ?? false;
    response.type = said.type ?? "basic";
    return response;
  }

  async function send(request, timeout) {
    const { signal } = request;
    signal.throwIfAborted();
    const body = request._peek();
    if (body !== null) await request.bytes();
    const operation = native.fetch(JSON.stringify({
      url: request.url,
      method: request.method,
      headers: [...request.headers],
      redirect: request.redirect,
      timeout_ms: timeout,
    }), body ?? undefined);
    return cancellable(operation, signal);
  }

  async function fetch(input, init) {
    const [said, bytes] = await send(new Request(input, init));
    return from(said, bytes);
  }

  const net = {
    async fetch(url, { method, headers, body, timeout } = {}) {
      const request = new Request(url, { method, headers, body });
      const [said, bytes] = await send(request, timeout === undefined ? undefined : Math.ceil(Number(timeout)));
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
