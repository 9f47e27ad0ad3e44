use super::*;

/// `id|index|name|arguments`, a dash for what isn't there.
fn fragment(text: &str) -> Fragment<'_> {
    let mut fields = text
        .splitn(4, '|')
        .map(|field| (field != "-").then_some(field));
    Fragment {
        id: fields.next().unwrap().map(Cow::Borrowed),
        index: fields.next().unwrap().map(|index| index.parse().unwrap()),
        name: fields.next().unwrap().map(Cow::Borrowed),
        arguments: fields.next().unwrap().map(Cow::Borrowed),
        state: None,
    }
}

#[test]
fn calls_are_put_together_by_id_then_index_then_order() {
    let check = |fragments: &[&str], expected: &[&str]| {
        let mut calls = Calls::default();
        let mut shown: Vec<(String, String)> = Vec::new();
        for text in fragments {
            if let Some(added) = calls.add(fragment(text)) {
                let index = added.index as usize;
                if shown.len() <= index {
                    shown.resize_with(index + 1, Default::default);
                }
                shown[index].0.push_str(added.name.unwrap_or_default());
                shown[index].1.push_str(added.arguments);
            }
        }
        let calls: Vec<_> = calls.take();
        let seen: Vec<_> = calls
            .iter()
            .map(|c| {
                format!(
                    "{}|{}|{}",
                    c.id.as_deref().unwrap_or("-"),
                    c.name,
                    c.arguments
                )
            })
            .collect();
        assert_eq!(seen, expected, "{fragments:?}");
        // What is shown is what is called, but where a placeholder was replaced.
        let replaced = |(shown, call): (&(String, String), &Call)| {
            shown.0 == call.name && shown.1.ends_with(&call.arguments)
        };
        assert!(shown.iter().zip(&calls).all(replaced), "{shown:?}");
    };
    // As OpenAI sends them.
    check(
        &[
            "a|0|read|",
            "-|0|-|{\"p\":",
            "-|0|-|1}",
            "b|1|write|",
            "-|1|-|{}",
        ],
        &["a|read|{\"p\":1}", "b|write|{}"],
    );
    // Pieces of two calls in turn.
    check(
        &["a|0|f|{", "b|1|g|{", "-|0|-|}", "-|1|-|}"],
        &["a|f|{}", "b|g|{}"],
    );
    // Whole calls, all at index 0.
    check(
        &["a|0|f|{\"x\":1}", "b|0|g|{\"y\":2}"],
        &["a|f|{\"x\":1}", "b|g|{\"y\":2}"],
    );
    // ... and in pieces: without an id the latest at the index is meant.
    check(
        &["a|0|f|{", "-|0|-|}", "b|0|g|{\"y\":", "-|0|-|2}"],
        &["a|f|{}", "b|g|{\"y\":2}"],
    );
    // The id with every piece, the index wrong or missing.
    check(
        &["a|0|f|{", "b|0|g|[", "a|0|-|}", "b|-|-|]"],
        &["a|f|{}", "b|g|[]"],
    );
    // Empty ids, names that are repeated or null.
    check(&["|0|f|", "|0||{", "|0|f|}"], &["-|f|{}"]);
    // No index at all.
    check(&["a|-|f|{", "-|-|-|}"], &["a|f|{}"]);
    // Arguments before the name, the id last.
    check(&["-|0|-|{\"x\"", "-|0|f|:1", "a|0|-|}"], &["a|f|{\"x\":1}"]);
    // Whole calls without ids, at one index or none.
    check(
        &["-|0|f|{\"x\":1}", "-|0|g|{\"y\":2}", "-|0|g|{\"y\":3}"],
        &["-|f|{\"x\":1}", "-|g|{\"y\":2}", "-|g|{\"y\":3}"],
    );
    check(
        &["-|-|f|{\"x\":1}", "-|-|g|{}", "c|-|h|{}"],
        &["-|f|{\"x\":1}", "-|g|{}", "c|h|{}"],
    );
    // One id for two calls.
    check(
        &["a|0|f|{\"x\":1}", "a|1|f|{\"x\":2}"],
        &["a|f|{\"x\":1}", "a|f|{\"x\":2}"],
    );
    // The name once more at the end isn't a second call.
    check(&["a|0|f|{}", "-|0|f|"], &["a|f|{}"]);
    // Arguments once more as a whole, and a placeholder before them.
    check(&["a|0|f|{\"x\":1}", "a|0|f|{\"x\":1}"], &["a|f|{\"x\":1}"]);
    check(
        &["a|0|f|{}", "-|0|-|{\"x\"", "-|0|-|:1}"],
        &["a|f|{\"x\":1}"],
    );
    // Braces within strings close nothing.
    check(
        &["a|0|f|{\"x\":\"}", "-|0|f|\\\"}", "-|0|f|\"}"],
        &["a|f|{\"x\":\"}\\\"}\"}"],
    );
    // No arguments.
    check(&["a|0|f|-"], &["a|f|"]);
    check(&["a|0|f|"], &["a|f|"]);
    // Nothing at all.
    check(&["-|0|-|-", "|0||"], &[]);
    // A call without a name is one for the runtime to answer.
    check(&["a|0|-|{}"], &["a||{}"]);
}

#[test]
fn arguments_that_end_too_early_mean_that_the_answer_was_cut_off() {
    let check = |arguments: &str, expected: bool| {
        let mut calls = Calls::default();
        let text = format!("a|0|f|{arguments}");
        calls.add(fragment(&text));
        assert_eq!(calls.cut_off(), expected, "{arguments:?}");
    };
    for cut in [
        "{",
        "{\"a\"",
        "{\"a\":",
        "{\"a\":1",
        "{\"a\":\"x",
        "[1,",
        "{\"a\":tr",
    ] {
        check(cut, true);
    }
    // Whole, or wrong in a way that more text doesn't mend.
    for whole in [
        "",
        "  ",
        "{}",
        "{\"a\":1}",
        "{a:1}",
        "{\"a\":1}}",
        "no json",
    ] {
        check(whole, false);
    }
}
