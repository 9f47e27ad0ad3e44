// What a skill keeps: published state, a database, files.
(function ({ native }) {

  const state = {
    get: (key) => native.stateGet(String(key)),
    set: (key, value) => native.stateSet(String(key), value),
    setPartial(values) {
      if (values === null || typeof values !== "object") throw new TypeError("the values must be an object");
      for (const key of Object.keys(values)) native.stateSet(key, values[key]);
    },
    delete: (key) => native.stateSet(String(key), undefined),
    keys: () => native.stateKeys(),
  };

  let ready = false;
  function kv() {
    if (!ready) native.dbExec("CREATE TABLE IF NOT EXISTS __kv (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT", undefined);
    ready = true;
  }
  const db = {
    exec: (sql, parameters) => native.dbExec(String(sql), parameters),
    get: (sql, parameters) => native.dbGet(String(sql), parameters),
    all: (sql, parameters) => native.dbAll(String(sql), parameters),
    kvGet(key) {
      kv();
      const row = native.dbGet("SELECT value FROM __kv WHERE key = ?", [String(key)]);
      return row === null ? null : JSON.parse(row.value);
    },
    kvSet(key, value) {
      kv();
      const json = JSON.stringify(value);
      if (json === undefined) native.dbExec("DELETE FROM __kv WHERE key = ?", [String(key)]);
      else native.dbExec("INSERT INTO __kv VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", [String(key), json]);
    },
  };

  const data = {
    read: (path) => native.dataRead(String(path)) ?? null,
    write: (path, text) => native.dataWrite(String(path), String(text)),
  };

  const fs = {
    read: (path) => native.fsRead(String(path)),
    write: (path, text) => native.fsWrite(String(path), String(text)),
    list: (path) => native.fsList(String(path)),
  };

  return { state, db, data, fs };
})
