use mlua::{Lua, Value};

use super::{Limits, Marks};

fn state() -> Lua {
    let lua = Lua::new();
    let marks = Marks::install(&lua).unwrap();
    lua.globals().set("ARRAY", &marks.array).unwrap();
    lua.globals().set("OBJECT", &marks.object).unwrap();
    lua.globals().set("null", Value::NULL).unwrap();
    lua
}

fn decode(lua: &Lua, text: &str) -> Result<Value, String> {
    let marks = Marks::of(lua)?;
    super::decode(lua, &marks, text)
}

fn encode(lua: &Lua, value: &Value, limits: &Limits) -> Result<String, String> {
    let marks = Marks::of(lua)?;
    super::encode(&marks, value, limits).map(|json| json.get().to_owned())
}

#[test]
fn large_tables_keep_every_element() {
    let lua = state();
    let numbers: Vec<_> = (0..1000).map(|n| n.to_string()).collect();
    let array = format!("[{}]", numbers.join(","));
    let mut keys: Vec<_> = numbers.iter().map(|n| format!("\"k{n}\":{n}")).collect();
    keys.sort();
    let object = format!("{{{}}}", keys.join(","));
    for n in [0, 1, 127, 128, 129, 256, 1000] {
        let some = format!("[{}]", numbers[..n].join(","));
        let value = decode(&lua, &some).unwrap();
        assert_eq!(encode(&lua, &value, &Limits::default()).unwrap(), some);
    }
    for text in [array, object] {
        let value = decode(&lua, &text).unwrap();
        let again = encode(&lua, &value, &Limits::default()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(
            serde_json::from_str::<serde_json::Value>(&again).unwrap(),
            value
        );
    }
}

#[test]
fn what_is_decoded_is_encoded_as_it_was() {
    let lua = state();
    let check = |text: &str| {
        let value = decode(&lua, text).unwrap();
        assert_eq!(encode(&lua, &value, &Limits::default()).unwrap(), text);
    };
    check("null");
    check("true");
    check("{}");
    check("[]");
    check(r#"{"a":[],"b":{},"c":[[],{}],"d":[{"e":[]}]}"#);
    check("[1,null,3]");
    check(r#"{"a":null}"#);
    check("[9007199254740993,-9223372036854775808,9223372036854775807]");
    check("[1.0,1,0.1,1e+300,-0.0]");
    check(r#"["","ü\u0000\n\"\\/"]"#);
    check(&format!("{}1{}", "[".repeat(127), "]".repeat(127)));
}

#[test]
fn what_json_cannot_say_is_refused_with_its_place() {
    let lua = state();
    let check = |chunk: &str, words: &str| {
        let value: Value = lua.load(chunk).eval().unwrap();
        let said = encode(&lua, &value, &Limits { bytes: 1000 }).unwrap_err();
        assert!(said.contains(words), "{chunk}: {said}");
    };
    check("{ a = { 1, 0/0 } }", "`a[2]` is ");
    check("{ a = 1/0 }", "`a` is inf");
    check("{ 1, nil, 3, nil, nil, 6 }", "list with holes");
    check("{ [1] = 1, [9] = 2 }", "list with holes");
    check("{ 1, x = 2 }", "numbers and strings as keys");
    check("{ x = print }", "`x` is a function");
    check("{ [true] = 1 }", "a key that is a boolean");
    check(
        "{ a = '\\xff' }",
        "`a` is a string that isn't UTF-8 (at byte 1)",
    );
    check("{ ['\\xff'] = 1 }", "a key that isn't UTF-8");
    check(
        "(function() local t = {} t.t = t return t end)()",
        "`t` is a cycle",
    );
    check("('x'):rep(2000)", "larger than 1000 bytes");
    check(
        "setmetatable({ x = 1 }, ARRAY)",
        "array with holes or other keys",
    );
    check(
        "setmetatable({ [1] = 1, ['1'] = 2 }, OBJECT)",
        "as a number and as a string",
    );
    check(
        "(function() local t = {} for _ = 1, 10000 do t = { t } end return t end)()",
        "deeper than 128",
    );
}

#[test]
fn choices_can_be_made() {
    let lua = state();
    let check = |chunk: &str, text: &str| {
        let value: Value = lua.load(chunk).eval().unwrap();
        assert_eq!(encode(&lua, &value, &Limits::default()).unwrap(), text);
    };
    check("{}", "{}");
    check("setmetatable({}, ARRAY)", "[]");
    check(
        "setmetatable({ [1] = 'a', [9007199254740993] = 'b' }, OBJECT)",
        r#"{"1":"a","9007199254740993":"b"}"#,
    );
    check("{ b = 1, a = 2, c = { 3 } }", r#"{"a":2,"b":1,"c":[3]}"#);
    check(
        "(function() local t = {} for i = 10, 1, -1 do t[i] = i end return t end)()",
        "[1,2,3,4,5,6,7,8,9,10]",
    );
    check("{ null, 1 }", "[null,1]");
}

#[test]
fn bad_texts_are_refused_with_their_position() {
    let lua = state();
    let check = |text: &str, words: &str| {
        let said = decode(&lua, text).unwrap_err();
        assert!(said.contains(words), "{said}");
    };
    check("", "EOF");
    check("{\"a\":}", "line 1 column 6");
    check("[1] x", "trailing");
    check("18446744073709551615", "doesn't fit in 64 bits");
    check(&"[".repeat(10_000), "nested deeper than 128");
}
