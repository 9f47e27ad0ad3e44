//! A mebibyte of JSON into a script and out of it.

use haft_bench::{Pair, Result, Sample};

use super::{Host, tool};

const ITEM: &str = r#"{"id":12345,"name":"some name here","ok":true,"tags":["a","b"]}"#;
const SIZE: usize = 1024 * 1024;

fn text() -> String {
    let items = vec![ITEM; SIZE / (ITEM.len() + 1)];
    format!("{{\"list\":[{}]}}", items.join(","))
}

/// As a call's arguments; the floor reads it into serde_json's values.
pub(crate) fn input() -> Result<Pair> {
    let host = Host::new(&tool("take", "assert(#args.list > 1000)"))?;
    let text = text();
    let floor = text.clone();
    Ok(Pair::of_samples(
        move || {
            let calls = Host::calls("take", &text, 1)?;
            Sample::take(1, || host.run(calls))
        },
        move || {
            Sample::take(1, || {
                let value: serde_json::Value = serde_json::from_str(&floor)?;
                drop(std::hint::black_box(value));
                Ok(())
            })
        },
    ))
}

/// As a call's result; the floor writes serde_json's values.
pub(crate) fn output() -> Result<Pair> {
    let text = text();
    let script = format!("local big = haft.json.decode([==[{text}]==])\n");
    let host = Host::new(&(script + &tool("give", "return big")))?;
    let value: serde_json::Value = serde_json::from_str(&text)?;
    Ok(Pair::of_samples(
        move || {
            let calls = Host::calls("give", "{}", 1)?;
            Sample::take(1, || host.run(calls))
        },
        move || {
            Sample::take(1, || {
                drop(std::hint::black_box(serde_json::to_string(&value)?));
                Ok(())
            })
        },
    ))
}
