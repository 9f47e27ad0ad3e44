// Blobs, files and forms.
(function () {
  let bytesOf; // the bytes of a Blob

  // A kind of content, as far as it is one.
  const kind = (type) => {
    const text = String(type ?? "");
    return /^[\x20-\x7e]*$/.test(text) ? text.toLowerCase() : "";
  };

  function joined(parts) {
    const pieces = [];
    for (const part of parts) {
      if (part instanceof Blob) pieces.push(bytesOf(part));
      else if (ArrayBuffer.isView(part)) pieces.push(new Uint8Array(part.buffer, part.byteOffset, part.byteLength));
      else if (part instanceof ArrayBuffer) pieces.push(new Uint8Array(part));
      else pieces.push(new TextEncoder().encode(String(part)));
    }
    const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of pieces) { whole.set(piece, at); at += piece.length; }
    return whole;
  }

  class Blob {
    #bytes; #type;
    static { bytesOf = (blob) => blob.#bytes; }
    constructor(parts = [], options = {}) {
      if (parts === null || typeof parts !== "object" || typeof parts[Symbol.iterator] !== "function") {
        throw new TypeError("a blob's parts are a list");
      }
      this.#bytes = joined(parts);
      this.#type = kind(options?.type);
    }
    get size() { return this.#bytes.length; }
    get type() { return this.#type; }
    async bytes() { return this.#bytes.slice(); }
    async arrayBuffer() { return this.#bytes.slice().buffer; }
    async text() { return new TextDecoder().decode(this.#bytes); }
    slice(start = 0, end = this.size, type = "") {
      return new Blob([this.#bytes.slice(start, end)], { type });
    }
    stream() {
      const bytes = this.#bytes;
      let at = 0;
      return new ReadableStream({
        type: "bytes",
        pull(controller) {
          if (at < bytes.length) controller.enqueue(bytes.slice(at, at += 65536));
          if (at >= bytes.length) controller.close();
        },
      });
    }
    get [Symbol.toStringTag]() { return "Blob"; }
  }

  class File extends Blob {
    #name; #modified;
    constructor(parts, name, options = {}) {
      if (arguments.length < 2) throw new TypeError("a file has parts and a name");
      super(parts, options);
      this.#name = String(name);
      this.#modified = options?.lastModified === undefined ? Date.now() : Math.trunc(Number(options.lastModified)) || 0;
    }
    get name() { return this.#name; }
    get lastModified() { return this.#modified; }
    get [Symbol.toStringTag]() { return "File"; }
  }

  class FormData {
    #list = [];
    constructor(form) { if (form !== undefined) throw new TypeError("there are no forms of pages here"); }
    #entry(name, value, filename) {
      if (value instanceof Blob) {
        const named = value instanceof File && filename === undefined;
        value = named ? value : new File([value], filename ?? "blob", { type: value.type });
      } else {
        if (filename !== undefined) throw new TypeError("only a blob has a file's name");
        value = String(value).toWellFormed();
      }
      return [String(name).toWellFormed(), value];
    }
    append(name, value, filename) { this.#list.push(this.#entry(name, value, filename)); }
    set(name, value, filename) {
      const entry = this.#entry(name, value, filename);
      const at = this.#list.findIndex((one) => one[0] === entry[0]);
      if (at < 0) { this.#list.push(entry); return; }
      this.#list = this.#list.filter((one, index) => index <= at || one[0] !== entry[0]);
      this.#list[at] = entry;
    }
    delete(name) { this.#list = this.#list.filter((one) => one[0] !== String(name)); }
    get(name) { return this.#list.find((one) => one[0] === String(name))?.[1] ?? null; }
    getAll(name) { return this.#list.filter((one) => one[0] === String(name)).map((one) => one[1]); }
    has(name) { return this.#list.some((one) => one[0] === String(name)); }
    forEach(callback, self) { for (const [name, value] of this) callback.call(self, value, name, this); }
    *entries() { for (const [name, value] of this.#list) yield [name, value]; }
    *keys() { for (const [name] of this.#list) yield name; }
    *values() { for (const [, value] of this.#list) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    get [Symbol.toStringTag]() { return "FormData"; }
  }

  // A form as the body of a request (RFC 7578): its bytes and their type.
  function multipart(form) {
    const boundary = "----haft-" + crypto.randomUUID();
    const quoted = (text) => text.replace(/\r\n|\r|\n/g, "\r\n").replace(/[\r\n"]/g, (one) =>
      ({ "\r": "%0D", "\n": "%0A", '"': "%22" })[one]);
    const parts = [];
    for (const [name, value] of form) {
      parts.push("--" + boundary + '\r\ncontent-disposition: form-data; name="' + quoted(name) + '"');
      if (typeof value === "string") {
        parts.push("\r\n\r\n", value.replace(/\r\n|\r|\n/g, "\r\n"), "\r\n");
      } else {
        parts.push('; filename="' + quoted(value.name) + '"\r\ncontent-type: ', value.type || "application/octet-stream");
        parts.push("\r\n\r\n", value, "\r\n");
      }
    }
    parts.push("--" + boundary + "--\r\n");
    return [joined(parts), "multipart/form-data; boundary=" + boundary];
  }

  // A body of such a type as a form.
  function parsed(bytes, type) {
    const form = new FormData();
    const essence = type.split(";")[0].trim().toLowerCase();
    if (essence === "application/x-www-form-urlencoded") {
      for (const [name, value] of new URLSearchParams(new TextDecoder().decode(bytes))) form.append(name, value);
      return form;
    }
    const said = /boundary=(?:"([^"]+)"|([^;\s]+))/i.exec(type);
    if (essence !== "multipart/form-data" || said === null) throw new TypeError("`" + type + "` is no form");
    // One character a byte, so that places in the text are places in the bytes.
    let text = "";
    for (let at = 0; at < bytes.length; at += 8192) text += String.fromCharCode(...bytes.subarray(at, at + 8192));
    const line = "\r\n--" + (said[1] ?? said[2]);
    text = "\r\n" + text;
    const utf8 = (from, to) => new TextDecoder().decode(bytes.subarray(from - 2, to - 2));
    let at = text.indexOf(line);
    while (at >= 0 && !text.startsWith("--", at + line.length)) {
      const head = at + line.length + 2, body = text.indexOf("\r\n\r\n", head - 2) + 4, next = text.indexOf(line, body - 2);
      if (body < 4 || next < body - 2) break;
      const header = utf8(head, body - 2);
      const field = (name) => new RegExp("[;\\s]" + name + '="([^"]*)"', "i").exec(header)?.[1]
        .replace(/%0D/g, "\r").replace(/%0A/g, "\n").replace(/%22/g, '"');
      const [name, filename] = [field("name"), field("filename")];
      if (name === undefined) break;
      if (filename === undefined) {
        form.append(name, utf8(body, next));
      } else {
        const of = /^content-type:\s*(.*?)\s*$/im.exec(header)?.[1] ?? "text/plain";
        form.append(name, new File([bytes.subarray(body - 2, next - 2)], filename, { type: of }));
      }
      at = next;
    }
    if (at < 0 || !text.startsWith("--", at + line.length)) throw new TypeError("the form's end is missing");
    return form;
  }

  return { Blob, File, FormData, bytesOf: (blob) => bytesOf(blob), multipart, parsed };
})
