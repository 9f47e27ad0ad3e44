// WebSocket (websockets.spec.whatwg.org), and the headers that servers outside
// of browsers ask for.
(function ({ native, listening, piece }) {
  const { EventTarget, Event, MessageEvent, ErrorEvent, CloseEvent, handler } = piece("events");
  const TOKEN = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]+$/;
  const [CONNECTING, OPEN, CLOSING, CLOSED] = [0, 1, 2, 3];

  function place(given) {
    let url;
    try { url = new URL(given); } catch { throw new DOMException("`" + given + "` is no URL", "SyntaxError"); }
    if (url.protocol === "http:") url.protocol = "ws:";
    if (url.protocol === "https:") url.protocol = "wss:";
    if (url.protocol !== "ws:" && url.protocol !== "wss:") {
      throw new DOMException("a WebSocket's URL begins with ws: or wss:", "SyntaxError");
    }
    if (url.hash !== "" || String(given).includes("#")) {
      throw new DOMException("a WebSocket's URL has no fragment", "SyntaxError");
    }
    return url;
  }

  class WebSocket extends EventTarget {
    #url; #line; #state = CONNECTING; #protocol = ""; #type = "blob"; #queued = 0;

    constructor(url, options = []) {
      super();
      const isList = typeof options === "string" || typeof options?.[Symbol.iterator] === "function";
      const said = isList ? { protocols: options } : options ?? {};
      const protocols = typeof said.protocols === "string" ? [said.protocols] : [...said.protocols ?? []].map(String);
      this.#url = place(url);
      for (const one of protocols) {
        if (!TOKEN.test(one)) throw new DOMException("`" + one + "` is no protocol", "SyntaxError");
      }
      if (new Set(protocols.map((one) => one.toLowerCase())).size !== protocols.length) {
        throw new DOMException("a protocol is named twice", "SyntaxError");
      }
      const headers = [...new Headers(said.headers)];
      this.#line = native.socketOpen(JSON.stringify({ url: this.#url.href, protocols, headers }));
      listening.set(this.#line, (error, told, bytes) => this.#hear(error, told, bytes));
    }

    #hear(error, told, bytes) {
      if (error !== undefined) { this.#end({ code: 1006, reason: "", wasClean: false, error: error.message }); return; }
      if (told.is === "close") { this.#end(told); return; }
      if (told.is === "open") {
        this.#protocol = told.protocol;
        if (this.#state !== CONNECTING) return;
        this.#state = OPEN;
        this.dispatchEvent(new Event("open"));
        return;
      }
      if (this.#state !== OPEN) return;
      let data = told.data;
      if (bytes !== undefined) data = this.#type === "blob" ? new Blob([bytes]) : bytes.buffer;
      this.dispatchEvent(new MessageEvent("message", { data, origin: this.#url.origin }));
    }

    #end({ code, reason, wasClean, error }) {
      if (this.#state === CLOSED) return;
      this.#state = CLOSED;
      this.#queued += native.socketBuffered(this.#line);
      listening.delete(this.#line);
      native.socketForget(this.#line);
      if (error) this.dispatchEvent(new ErrorEvent("error", { message: error }));
      this.dispatchEvent(new CloseEvent("close", { code, reason, wasClean }));
    }

    get url() { return this.#url.href; }
    get readyState() { return this.#state; }
    get protocol() { return this.#protocol; }
    get extensions() { return ""; }
    get bufferedAmount() { return this.#state === CLOSED ? this.#queued : this.#queued + native.socketBuffered(this.#line); }
    get binaryType() { return this.#type; }
    set binaryType(type) { if (type === "blob" || type === "arraybuffer") this.#type = type; }

    send(data) {
      if (this.#state === CONNECTING) throw new DOMException("the WebSocket isn't open yet", "InvalidStateError");
      let bytes;
      if (ArrayBuffer.isView(data)) bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
      else if (data instanceof ArrayBuffer) bytes = new Uint8Array(data);
      else if (data instanceof piece("blob").Blob) bytes = piece("blob").bytesOf(data);
      const text = bytes === undefined ? String(data).toWellFormed() : undefined;
      if (this.#state !== OPEN) {
        // As the standard has it: it counts, and goes nowhere.
        this.#queued += bytes === undefined ? new TextEncoder().encode(text).length : bytes.length;
        return;
      }
      if (bytes === undefined) native.socketText(this.#line, text);
      else native.socketBytes(this.#line, bytes);
    }

    close(code, reason = "") {
      if (code !== undefined) {
        code = Math.trunc(Number(code));
        if (code !== 1000 && !(code >= 3000 && code <= 4999)) {
          throw new DOMException("a script's code is 1000 or 3000 to 4999", "InvalidAccessError");
        }
      }
      const text = String(reason).toWellFormed();
      if (new TextEncoder().encode(text).length > 123) throw new DOMException("the reason is longer than 123 bytes", "SyntaxError");
      if (this.#state === CLOSING || this.#state === CLOSED) return;
      if (this.#state === CONNECTING) {
        this.#state = CLOSING;
        native.abort(this.#line);
        const error = "the WebSocket was closed before it was open";
        queueMicrotask(() => this.#end({ code: 1006, reason: "", wasClean: false, error }));
        return;
      }
      this.#state = CLOSING;
      native.socketClose(this.#line, code ?? (text === "" ? undefined : 1000), text);
    }

    get [Symbol.toStringTag]() { return "WebSocket"; }
  }

  for (const [name, value] of Object.entries({ CONNECTING, OPEN, CLOSING, CLOSED })) {
    Object.defineProperty(WebSocket, name, { value, enumerable: true });
    Object.defineProperty(WebSocket.prototype, name, { value, enumerable: true });
  }
  for (const name of ["open", "message", "error", "close"]) handler(WebSocket, name);

  return { WebSocket };
})
