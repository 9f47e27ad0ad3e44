// The few words that the files beside this one are written in.
const results = [];
const pending = [];
function test(name, run) {
  try { run(); results.push([name, null]); } catch (error) { results.push([name, String(error)]); }
}
function promise_test(name, run) {
  pending.push((async () => {
    try { await run(); results.push([name, null]); } catch (error) { results.push([name, String(error)]); }
  })());
}
function same(actual, expected) {
  const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (a !== b) throw new Error("expected " + b + ", got " + a);
}
function throws(name, run) {
  try { run(); } catch (error) {
    if (error.name !== name) throw new Error("expected " + name + ", got " + error);
    return;
  }
  throw new Error("expected " + name + ", got nothing");
}
async function rejects(name, promise) {
  try { await promise; } catch (error) {
    if (error.name !== name) throw new Error("expected " + name + ", got " + error);
    return;
  }
  throw new Error("expected " + name + ", got nothing");
}
const sleep = (ms) => new Promise((done) => setTimeout(done, ms));
