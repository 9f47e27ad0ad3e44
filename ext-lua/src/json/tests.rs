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
fn nothing_is_lost_of_a_list_whose_last_index_stands_after_other_keys() {
    let lua = state();
    // A table made with room for other keys keeps index 17 among them; which of
    // them comes last depends on their names.
    for n in 0..50 {
        let chunk = format!(
            "local t = {{ 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, \
             a{n} = 1, b{n} = 2, c{n} = 3, d{n} = nil }} t[17] = 17 return t"
        );
        let value: Value = lua.load(chunk).eval().unwrap();
        let said = encode(&lua, &value, &Limits::default()).unwrap_err();
        assert!(said.contains("numbers and strings as keys"), "{n}: {said}");
    }
}

#[test]
fn of_several_mistakes_the_first_by_its_key_is_told() {
    let lua = state();
    let check = |chunk: &str, words: &str| {
        let value: Value = lua.load(chunk).eval().unwrap();
        let said = encode(&lua, &value, &Limits::default()).unwrap_err();
        assert!(said.contains(words), "{chunk}: {said}");
    };
    check("{ c = print, a = 1, b = 0/0, d = print }", "`b` is ");
    check("{ 1, print, 0/0 }", "`[2]` is a function");
    check(
        "(function() local t = {} for i = 9, 1, -1 do t[i] = print end return t end)()",
        "`[1]` is a function",
    );
    check(
        "{ x = { y = { 1, { z = print } } } }",
        "`x.y[2].z` is a function",
    );
    // A table's own mistake comes before those inside.
    check("{ print, x = 1 }", "numbers and strings as keys");
    check("{ print, [true] = 1 }", "a key that is a boolean");
    check("{ a = print, ['\\xff'] = 1 }", "a key that isn't UTF-8");
    check("{ a = print, [7] = 1 }", "numbers and strings as keys");
    check("{ [0] = 1, 2 }", "list with holes");
    check("{ 1, 2, [-1] = 3 }", "list with holes");
    check("setmetatable({ 1, nil, 3 }, ARRAY)", "array with holes");
    check("{ [1.5] = 1 }", "a key that is a number");
}

#[test]
fn shared_tables_are_written_each_time_up_to_the_limit() {
    let lua = state();
    let value: Value = lua
        .load("(function() local t = { 1 } return { a = t, b = t } end)()")
        .eval()
        .unwrap();
    let text = encode(&lua, &value, &Limits::default()).unwrap();
    assert_eq!(text, r#"{"a":[1],"b":[1]}"#);
    // Whether they can be written or not: 2 to the power of 100 are never visited.
    for leaf in ["1", "print"] {
        let chunk = format!(
            "(function() local t = {{ {leaf} }} for _ = 1, 100 do t = {{ b = t, a = t }} end return t end)()"
        );
        let value: Value = lua.load(chunk).eval().unwrap();
        encode(&lua, &value, &Limits { bytes: 100_000 }).unwrap_err();
    }
}

#[test]
fn keys_of_every_kind_are_in_order() {
    let lua = state();
    let keys = ["", "\n", "\"", "a", "a\n", "aa", "ab", "b", "\u{fc}", "z"];
    let mut assignments: Vec<_> = keys
        .iter()
        .map(|key| format!("[{key:?}] = {{ {key:?} }}").replace("\\u{fc}", "\u{fc}"))
        .collect();
    assignments.reverse();
    let value: Value = lua
        .load(format!("{{ {} }}", assignments.join(", ")))
        .eval()
        .unwrap();
    let text = encode(&lua, &value, &Limits::default()).unwrap();
    let expected: std::collections::BTreeMap<_, _> =
        keys.iter().map(|key| (*key, [*key])).collect();
    assert_eq!(text, serde_json::to_string(&expected).unwrap());
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
