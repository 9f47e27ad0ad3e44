//! JSON text from values, and what it can't say.
//!
//! As `JSON.stringify` writes it, but several times as fast for what results are
//! made of: plain objects, arrays, texts and numbers are walked here, everything
//! else is left to the engine.

use std::io::Write as _;

use rquickjs::atom::PredefinedAtom;
use rquickjs::function::This;
use rquickjs::{Array, Ctx, Error, Exception, Object, Value};

use crate::thrown::text_from;

mod members;

use members::{Members, Name, Names};

/// How deep values are walked here; beyond, the engine sees to its stack.
const DEPTH: usize = 128;

/// A value as JSON text of at most so many bytes; nothing for what JSON has no
/// word for (`undefined`, functions, symbols).
///
/// # Errors
/// What a cycle, a getter or a `toJSON` throws; that it is too long.
pub(crate) fn stringify<'js>(
    ctx: &Ctx<'js>,
    value: &Value<'js>,
    limit: usize,
) -> rquickjs::Result<Option<String>> {
    let prototype = |name: &str| -> rquickjs::Result<Value<'js>> {
        let constructor: Object<'js> = ctx.globals().get(name)?;
        constructor.get(PredefinedAtom::Prototype)
    };
    let mut text = Text {
        ctx,
        plain: match value.is_object() {
            true => prototype("Object")?,
            false => Value::new_undefined(ctx.clone()),
        },
        path: Vec::new(),
        names: Names::new(ctx.clone()),
        out: Vec::new(),
        limit,
    };
    if !text.value(value.clone(), &Key::Whole)? {
        return Ok(None);
    }
    String::from_utf8(text.out)
        .map(Some)
        .map_err(|e| Error::Utf8(e.utf8_error()))
}

/// Where a value stands, as its `toJSON` is told.
enum Key {
    Whole,
    Name(Name),
    Index(usize),
}

struct Text<'c, 'js> {
    ctx: &'c Ctx<'js>,
    /// `Object.prototype`.
    plain: Value<'js>,
    /// The objects that are being written.
    path: Vec<Value<'js>>,
    names: Names<'js>,
    out: Vec<u8>,
    limit: usize,
}

impl<'js> Text<'_, 'js> {
    /// Writes a value; false, and nothing is written, if JSON has no word for it.
    fn value(&mut self, value: Value<'js>, key: &Key) -> rquickjs::Result<bool> {
        if self.out.len() > self.limit {
            let words = format!("the JSON has more than {} bytes", self.limit);
            return Err(Exception::throw_range(self.ctx, &words));
        }
        if let Some(text) = value.as_string() {
            let text = text_from(self.ctx, text)?;
            self.quote(&text);
        } else if let Some(int) = value.as_int() {
            // Writing to memory doesn't fail.
            serde_json::to_writer(&mut self.out, &int).ok();
        } else if let Some(truth) = value.as_bool() {
            self.put(if truth { "true" } else { "false" });
        } else if value.is_null() {
            self.put("null");
        } else if let Some(float) = value.as_float() {
            return self.float(float, value);
        } else if value.is_object() {
            return self.object(value, key);
        } else if value.is_big_int() {
            // It has a `toJSON` here, see `core.js`.
            return self.engine(value);
        } else {
            return Ok(false);
        }
        Ok(true)
    }

    fn put(&mut self, text: &str) {
        self.out.extend_from_slice(text.as_bytes());
    }

    fn quote(&mut self, text: &str) {
        let escaped = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
        // Not `any`, which looks at them one by one.
        if !text
            .bytes()
            .fold(false, |found, byte| found | escaped(byte))
        {
            self.out.reserve(text.len() + 2);
            self.out.push(b'"');
            self.put(text);
            self.out.push(b'"');
            return;
        }
        // As above; texts have no other errors.
        serde_json::to_writer(&mut self.out, text).ok();
    }

    fn float(&mut self, float: f64, value: Value<'js>) -> rquickjs::Result<bool> {
        let size = float.abs();
        // Where both languages write the shortest digits without an exponent.
        match float == 0.0 || (1e-6..1e21).contains(&size) {
            true if float == 0.0 => self.put("0"),
            // Writing to memory doesn't fail.
            true => drop(write!(self.out, "{float}")),
            false => return self.engine(value),
        }
        Ok(true)
    }

    /// What isn't walked here.
    fn engine(&mut self, value: Value<'js>) -> rquickjs::Result<bool> {
        let Some(text) = self.ctx.json_stringify(value)? else {
            return Ok(false);
        };
        let text = well_formed(text_from(self.ctx, &text)?);
        self.put(&text);
        Ok(true)
    }

    fn object(&mut self, value: Value<'js>, key: &Key) -> rquickjs::Result<bool> {
        let Some(object) = value.as_object() else {
            return Ok(false);
        };
        let own: Value<'js> = object.get(PredefinedAtom::ToJSON)?;
        if let Some(own) = own.as_function() {
            let key = match key {
                Key::Whole => String::new(),
                Key::Name(name) => self.names.text(*name)?,
                Key::Index(index) => index.to_string(),
            };
            let said: Value<'js> = own.call((This(value.clone()), key))?;
            // What it returns isn't asked again.
            return match said.as_object() {
                Some(object) => self.walk(&said, object),
                None => self.value(said, &Key::Whole),
            };
        }
        self.walk(&value, object)
    }

    fn walk(&mut self, value: &Value<'js>, object: &Object<'js>) -> rquickjs::Result<bool> {
        if value.is_function() {
            return Ok(false);
        }
        if self.path.len() >= DEPTH || value.is_proxy() {
            return self.engine(value.clone());
        }
        let list = value.as_array();
        let is_plain = || object.get_prototype().is_some_and(|of| *of == self.plain);
        if list.is_none() && !is_plain() {
            return self.engine(value.clone());
        }
        if self.path.contains(value) {
            return Err(Exception::throw_type(self.ctx, "circular reference"));
        }
        self.path.push(value.clone());
        match list {
            Some(list) => self.list(list)?,
            None => self.members(object)?,
        }
        self.path.pop();
        Ok(true)
    }

    fn list(&mut self, list: &Array<'js>) -> rquickjs::Result<()> {
        self.out.push(b'[');
        for at in 0..list.len() {
            if at > 0 {
                self.out.push(b',');
            }
            if !self.value(list.get(at)?, &Key::Index(at))? {
                self.put("null");
            }
        }
        self.out.push(b']');
        Ok(())
    }

    fn members(&mut self, object: &Object<'js>) -> rquickjs::Result<()> {
        self.out.push(b'{');
        let mut first = true;
        for member in Members::of(object)? {
            let (name, value) = member?;
            if value.is_undefined() {
                continue;
            }
            let before = self.out.len();
            if !first {
                self.out.push(b',');
            }
            self.names.write(name, &mut self.out)?;
            match self.value(value, &Key::Name(name))? {
                true => first = false,
                false => self.out.truncate(before),
            }
        }
        self.out.push(b'}');
        Ok(())
    }
}

/// JavaScript writes half a surrogate pair as an escape that other readers of
/// JSON refuse; it becomes U+FFFD.
fn well_formed(json: String) -> String {
    if !json.contains("\\ud") {
        return json;
    }
    let bytes = json.as_bytes();
    let mut out = String::with_capacity(json.len());
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = json[at..].find('\\') {
        let escape = at + found;
        if bytes.get(escape + 1) != Some(&b'u') {
            at = escape + 2;
            continue;
        }
        let unit = |from: usize| {
            let digits = json.get(from + 2..from + 6)?;
            json[from..].starts_with("\\u").then_some(())?;
            u16::from_str_radix(digits, 16).ok()
        };
        match unit(escape) {
            Some(0xD800..=0xDBFF) if matches!(unit(escape + 6), Some(0xDC00..=0xDFFF)) => {
                at = escape + 12;
            }
            Some(0xD800..=0xDFFF) => {
                out.push_str(&json[copied..escape]);
                out.push_str("\\ufffd");
                at = escape + 6;
                copied = at;
            }
            _ => at = escape + 6,
        }
    }
    out.push_str(&json[copied..]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is written, or the error's name.
    fn written(ctx: &Ctx<'_>, source: &str) -> Result<Option<String>, String> {
        let value: Value<'_> = ctx.eval(format!("({source})")).unwrap();
        stringify(ctx, &value, 1 << 20).map_err(|error| crate::thrown::caught(ctx, &error).message)
    }

    #[test]
    fn it_writes_what_the_engine_writes() {
        let runtime = rquickjs::Runtime::new().unwrap();
        let context = rquickjs::Context::full(&runtime).unwrap();
        context.with(|ctx| {
            for source in [
                "undefined",
                "() => 1",
                "Symbol('a')",
                "null",
                "-0",
                "[1, -1, 0.1, 1.5, -2.25e-6, 9.99e-7, 1e21, 1e20, 123456789012345680000, NaN, -Infinity]",
                "[2 ** 31, -(2 ** 31), 2 ** 53, 2 ** 53 + 2, Number.MAX_VALUE, Number.MIN_VALUE]",
                r#"['', 'a"\\\n\u0000\u001f\u007f\u2028é😀', 'x'.repeat(300)]"#,
                r"{ b: 1, a: 2, 10: 'x', 2: 'y', '': 0, 'é\n': [] }",
                "[undefined, () => 1, Symbol(), , null]",
                "{ a: undefined, b: () => 1, c: Symbol(), [Symbol('d')]: 1, e: {} }",
                "[new Date(0), new Map([[1, 2]]), new Set([1]), /x/, new Error('e'), new Uint8Array(2)]",
                "[new Number(1), new String('s'), new Boolean(false), Object(Symbol())]",
                "{ get a() { return this.b }, b: 3 }",
                "new (class { constructor() { this.x = 1 } get y() { return 2 } })()",
                "Object.assign(Object.create(null), { a: 1 })",
                "Object.assign(Object.create({ inherited: 1 }), { own: 1 })",
                "{ toJSON(key) { return ['as', key] }, hidden: 1 }",
                "[{ toJSON(key) { return key } }, { a: { toJSON(key) { return key } } }]",
                "{ a: { toJSON() { return undefined } }, b: { toJSON() { return () => 1 } } }",
                "{ toJSON: 5, a: 1 }",
                "{ toJSON() { return { toJSON() { return 1 }, a: 2 } } }",
                "new Proxy({ a: 1, b: [2] }, {})",
                "new Proxy([1, { a: 2 }], {})",
                "(function () { return arguments })(1, 2)",
                "{ __proto__: null, a: 1 }",
                "JSON.parse('{\"__proto__\": {\"a\": 1}}')",
                "Array.from({ length: 300 }).reduce((inner) => [inner], 1)",
                "(() => { const shared = { a: 1 }; return [shared, shared, { shared }] })()",
                "Object.defineProperty({ a: 1 }, 'hidden', { value: 2, enumerable: false })",
            ] {
                let engine: Option<String> = ctx
                    .eval(format!("JSON.stringify({source})"))
                    .unwrap();
                assert_eq!(written(&ctx, source), Ok(engine), "{source}");
            }
        });
    }

    #[test]
    fn numbers_are_as_short_as_the_engine_writes_them() {
        let runtime = rquickjs::Runtime::new().unwrap();
        let context = rquickjs::Context::full(&runtime).unwrap();
        context.with(|ctx| {
            // Numbers of all sizes, the same in each run.
            let mut bits: u64 = 0x9E37_79B9_7F4A_7C15;
            for _ in 0..20_000 {
                bits = bits.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let sizes = [
                    f64::from_bits(bits),
                    (bits >> 11) as f64 / 1e9,
                    (bits >> 40) as f64 / 1e3,
                ];
                for number in sizes {
                    let value = Value::new_number(ctx.clone(), number);
                    let engine = ctx.json_stringify(value.clone()).unwrap().unwrap();
                    let engine = engine.to_string().unwrap();
                    let own = stringify(&ctx, &value, 100).unwrap().unwrap();
                    // Of two shortest texts of one number either will do.
                    let read = |text: &str| text.parse::<f64>().ok();
                    assert_eq!(read(&own), read(&engine), "{number:e}");
                    assert_eq!(own.len(), engine.len(), "{own} {engine}");
                }
            }
        });
    }

    #[test]
    fn what_cant_be_written_is_an_error() {
        let runtime = rquickjs::Runtime::new().unwrap();
        let context = rquickjs::Context::full(&runtime).unwrap();
        context.with(|ctx| {
            for (source, expected) in [
                ("(() => { const a = {}; a.a = a; return a })()", "circular"),
                (
                    "(() => { const a = [[[]]]; a[0][0][0] = a; return a })()",
                    "circular",
                ),
                (
                    "{ get a() { throw new RangeError('own') } }",
                    "RangeError: own",
                ),
                (
                    "{ toJSON() { throw new RangeError('own') } }",
                    "RangeError: own",
                ),
                ("[1n]", "BigInt"),
                (
                    "(() => { let a = 1; for (let i = 0; i < 40; i++) a = [a, a]; return a })()",
                    "more than 1048576 bytes",
                ),
                (
                    "(() => { let a = 1; for (let i = 0; i < 1e5; i++) a = [a]; return a })()",
                    "tack",
                ),
            ] {
                let error = written(&ctx, source).unwrap_err();
                assert!(error.contains(expected), "{source}: {error}");
            }
            assert_eq!(
                written(&ctx, "'a\\ud800'"),
                Ok(Some("\"a\u{fffd}\"".to_owned()))
            );
            assert_eq!(
                written(&ctx, "[{ '\\ud800': '\\udc00' }]"),
                Ok(Some("[{\"\u{fffd}\":\"\u{fffd}\"}]".to_owned()))
            );
        });
    }

    #[test]
    fn halves_of_pairs_are_replaced_and_nothing_else() {
        for (text, expected) in [
            (r#""a\ud800b""#, r#""a\ufffdb""#),
            (r#""\udc00\ud800""#, r#""\ufffd\ufffd""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\\ud800""#, r#""\\ud800""#),
            (r#""\u0001\n\\\ud801""#, r#""\u0001\n\\\ufffd""#),
            (r#""plain""#, r#""plain""#),
        ] {
            assert_eq!(well_formed(text.to_owned()), expected);
        }
    }
}
