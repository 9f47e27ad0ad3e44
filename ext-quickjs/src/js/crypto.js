// Random numbers and digests.
(function ({ native }) {
  const INTEGERS = ["Int8Array", "Uint8Array", "Uint8ClampedArray", "Int16Array", "Uint16Array",
    "Int32Array", "Uint32Array", "BigInt64Array", "BigUint64Array"];

  const crypto = {
    getRandomValues(array) {
      if (!ArrayBuffer.isView(array) || !INTEGERS.includes(array[Symbol.toStringTag])) {
        throw new DOMException("the argument must be an array of integers", "TypeMismatchError");
      }
      if (array.byteLength > 65536) {
        throw new DOMException("at most 65536 bytes at once", "QuotaExceededError");
      }
      new Uint8Array(array.buffer, array.byteOffset, array.byteLength).set(native.random(array.byteLength));
      return array;
    },
    randomUUID: () => native.uuid(),
    subtle: {
      async digest(algorithm, data) {
        const name = String(typeof algorithm === "object" ? algorithm.name : algorithm).toUpperCase();
        let bytes;
        if (ArrayBuffer.isView(data)) bytes = new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
        else if (data instanceof ArrayBuffer) bytes = new Uint8Array(data);
        else throw new TypeError("the data must be an ArrayBuffer or a view of one");
        return native.digest(name, bytes).buffer;
      },
    },
  };
  return { crypto };
})
