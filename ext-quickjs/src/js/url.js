// URL and URLSearchParams.
(function ({ native }) {
  const PARTS = ["href", "origin", "protocol", "username", "password", "host", "hostname", "port",
    "pathname", "search", "hash"];
  const refresh = Symbol("refresh");
  const owner = Symbol("owner");
  const text = (value) => String(value).toWellFormed();

  class URLSearchParams {
    #pairs = [];
    constructor(init = "") {
      if (typeof init === "object" && init !== null) {
        if (typeof init[Symbol.iterator] === "function") {
          for (const pair of init) {
            const [name, value, ...more] = [...pair];
            if (value === undefined || more.length > 0) throw new TypeError("a pair has a name and a value");
            this.#pairs.push([text(name), text(value)]);
          }
        } else {
          for (const name of Object.keys(init)) this.#pairs.push([text(name), text(init[name])]);
        }
      } else {
        this[refresh](text(init));
      }
    }
    [refresh](query) {
      this.#pairs = native.formRead(query.startsWith("?") ? query.slice(1) : query);
    }
    #changed() { this[owner]?.(this.toString()); }
    get size() { return this.#pairs.length; }
    append(name, value) { this.#pairs.push([text(name), text(value)]); this.#changed(); }
    delete(name, value) {
      this.#pairs = this.#pairs.filter(([n, v]) => n !== text(name) || (value !== undefined && v !== text(value)));
      this.#changed();
    }
    get(name) { return this.#pairs.find(([n]) => n === text(name))?.[1] ?? null; }
    getAll(name) { return this.#pairs.filter(([n]) => n === text(name)).map(([, v]) => v); }
    has(name, value) {
      return this.#pairs.some(([n, v]) => n === text(name) && (value === undefined || v === text(value)));
    }
    set(name, value) {
      const at = this.#pairs.findIndex(([n]) => n === text(name));
      if (at < 0) this.#pairs.push([text(name), text(value)]);
      else {
        this.#pairs[at] = [text(name), text(value)];
        this.#pairs = this.#pairs.filter(([n], i) => i <= at || n !== text(name));
      }
      this.#changed();
    }
    sort() { this.#pairs.sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)); this.#changed(); }
    forEach(callback, self) { for (const [name, value] of this) callback.call(self, value, name, this); }
    *entries() { for (let i = 0; i < this.#pairs.length; i++) yield [...this.#pairs[i]]; }
    *keys() { for (const [name] of this.entries()) yield name; }
    *values() { for (const [, value] of this.entries()) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return native.formWrite(this.#pairs); }
    get [Symbol.toStringTag]() { return "URLSearchParams"; }
  }

  class URL {
    #parts; #params;
    constructor(href, base) {
      if (arguments.length === 0) throw new TypeError("a URL has a text");
      const parts = native.urlParse(text(href), base === undefined ? undefined : text(base));
      if (!parts) throw new TypeError("Invalid URL: " + text(href));
      this.#parts = parts;
    }
    static canParse(href, base) {
      return Boolean(native.urlParse(text(href), base === undefined ? undefined : text(base)));
    }
    static parse(href, base) { return URL.canParse(href, base) ? new URL(href, base) : null; }
    get searchParams() {
      if (this.#params === undefined) {
        this.#params = new URLSearchParams(this.search);
        this.#params[owner] = (query) => this._set("search", query, false);
      }
      return this.#params;
    }
    _get(at) { return this.#parts[at]; }
    _set(part, value, refreshed) {
      const parts = native.urlSet(this.#parts[0], part, text(value));
      if (!parts) {
        if (part === "href") throw new TypeError("Invalid URL: " + text(value));
        return;
      }
      this.#parts = parts;
      if (refreshed) this.#params?.[refresh](this.search);
    }
    toString() { return this.href; }
    toJSON() { return this.href; }
    get [Symbol.toStringTag]() { return "URL"; }
  }
  PARTS.forEach((name, at) => {
    Object.defineProperty(URL.prototype, name, {
      configurable: true, enumerable: true,
      get() { return this._get(at); },
      set: name === "origin" ? undefined : function (value) { this._set(name, value, true); },
    });
  });

  return { URL, URLSearchParams };
})
