// Text from bytes and back.
(function ({ native }) {

  // Any view of bytes, as a view of bytes.
  function view(data) {
    if (data === undefined) return new Uint8Array();
    if (ArrayBuffer.isView(data)) return new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
    if (data instanceof ArrayBuffer) return new Uint8Array(data);
    throw new TypeError("the data must be an ArrayBuffer or a view of one");
  }

  class TextEncoder {
    get encoding() { return "utf-8"; }
    encode(text = "") { return native.encode(String(text)); }
    encodeInto(text, into) {
      if (!(into instanceof Uint8Array)) throw new TypeError("the second argument must be a Uint8Array");
      let read = 0, written = 0;
      for (const character of String(text)) {
        const bytes = native.encode(character);
        if (written + bytes.length > into.length) break;
        into.set(bytes, written);
        written += bytes.length;
        read += character.length;
      }
      return { read, written };
    }
  }

  class TextDecoder {
    #encoding; #fatal; #ignoreBOM; #rest = new Uint8Array(); #begun = false;
    constructor(label = "utf-8", options = {}) {
      const encoding = native.label(String(label));
      if (encoding === undefined || encoding === null) throw new RangeError("there is no encoding `" + label + "`");
      this.#encoding = encoding;
      this.#fatal = Boolean(options?.fatal);
      this.#ignoreBOM = Boolean(options?.ignoreBOM);
    }
    get encoding() { return this.#encoding; }
    get fatal() { return this.#fatal; }
    get ignoreBOM() { return this.#ignoreBOM; }
    decode(data, options = {}) {
      let bytes = view(data);
      if (this.#rest.length > 0) {
        const joined = new Uint8Array(this.#rest.length + bytes.length);
        joined.set(this.#rest);
        joined.set(bytes, this.#rest.length);
        bytes = joined;
        this.#rest = new Uint8Array();
      }
      const stream = Boolean(options?.stream);
      if (stream) {
        const whole = bytes.length - unfinished(bytes, this.#encoding);
        this.#rest = bytes.slice(whole);
        bytes = bytes.subarray(0, whole);
      }
      const keepMark = this.#ignoreBOM || this.#begun;
      if (bytes.length > 0) this.#begun = true;
      try {
        return native.decode(this.#encoding, bytes, this.#fatal, keepMark);
      } finally {
        if (!stream) this.#begun = false;
      }
    }
  }

  // How many bytes at the end are the beginning of a character.
  function unfinished(bytes, encoding) {
    if (encoding.startsWith("utf-16")) {
      const odd = bytes.length % 2;
      const at = bytes.length - odd - 2;
      if (at < 0) return odd;
      const high = bytes[encoding === "utf-16le" ? at + 1 : at];
      return high >= 0xd8 && high < 0xdc ? odd + 2 : odd;
    }
    if (encoding !== "utf-8") return 0;
    for (let back = 1; back <= Math.min(3, bytes.length); back++) {
      const byte = bytes[bytes.length - back];
      if (byte < 0x80) return 0;
      if (byte >= 0xc0) {
        const length = byte >= 0xf0 ? 4 : byte >= 0xe0 ? 3 : 2;
        return length > back ? back : 0;
      }
    }
    return 0;
  }

  const atob = (text) => native.fromBase64(String(text));
  const btoa = (text) => native.toBase64(String(text));
  return { TextEncoder, TextDecoder, atob, btoa };
})
