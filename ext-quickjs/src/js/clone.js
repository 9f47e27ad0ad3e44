// structuredClone, for what there is here to clone.
(function () {

  const refuse = (value) => {
    const kind = typeof value === "object" ? value.constructor?.name ?? "object" : typeof value;
    throw new DOMException("a value of type " + kind + " can't be cloned", "DataCloneError");
  };
  const ERRORS = { Error, EvalError, RangeError, ReferenceError, SyntaxError, TypeError, URIError };

  function copy(value, seen) {
    if (typeof value === "symbol" || typeof value === "function") refuse(value);
    if (value === null || typeof value !== "object") return value;
    if (seen.has(value)) return seen.get(value);
    const keep = (made) => { seen.set(value, made); return made; };
    if (value instanceof Boolean || value instanceof Number || value instanceof String) {
      return keep(Object(value.valueOf()));
    }
    if (value instanceof Date) return keep(new Date(value.getTime()));
    if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
    if (value instanceof ArrayBuffer) return keep(value.slice(0));
    if (ArrayBuffer.isView(value)) {
      const buffer = copy(value.buffer, seen);
      const length = value instanceof DataView ? value.byteLength : value.length;
      return keep(new value.constructor(buffer, value.byteOffset, length));
    }
    if (value instanceof Map) {
      const made = keep(new Map());
      for (const [k, v] of [...value]) made.set(copy(k, seen), copy(v, seen));
      return made;
    }
    if (value instanceof Set) {
      const made = keep(new Set());
      for (const v of [...value]) made.add(copy(v, seen));
      return made;
    }
    if (value instanceof Error) {
      const made = keep(new (ERRORS[value.name] ?? Error)(value.message));
      if ("cause" in value) Object.defineProperty(made, "cause", { value: copy(value.cause, seen), configurable: true, writable: true });
      Object.defineProperty(made, "stack", { value: value.stack, configurable: true, writable: true });
      return made;
    }
    const tag = Object.prototype.toString.call(value);
    if (tag !== "[object Object]" && tag !== "[object Array]" && tag !== "[object Arguments]") refuse(value);
    const made = keep(Array.isArray(value) ? new Array(value.length) : {});
    for (const key of Object.keys(value)) {
      const copied = copy(value[key], seen);
      Object.defineProperty(made, key, { value: copied, configurable: true, enumerable: true, writable: true });
    }
    return made;
  }

  function structuredClone(value, options) {
    if (arguments.length === 0) throw new TypeError("there is nothing to clone");
    const transfer = options?.transfer ?? [];
    const made = copy(value, new Map());
    for (const one of transfer) {
      if (!(one instanceof ArrayBuffer)) refuse(one);
      one.transfer();
    }
    return made;
  }

  return { structuredClone };
})
