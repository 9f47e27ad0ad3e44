use haft_api::{
    CallId, Effects, Part, ThreadId, ToolCall, ToolName, ToolSpec, TurnId, join_text, raw_json,
};

use super::*;

fn spec(name: &str, description: &str, schema: &str, effects: Effects) -> ToolSpec {
    let spec = ToolSpec::new(ToolName::new(name).unwrap(), description);
    spec.schema(schema).unwrap().effects(effects)
}

fn coding_tools() -> Vec<ToolSpec> {
    let path = r#"{"type":"object","properties":{"path":{"type":"string"},"limit":{"type":"integer"}},"required":["path"]}"#;
    let write = r#"{"type":"object","properties":{"content":{"type":"string"},"path":{"type":"string"}},"required":["path","content"]}"#;
    let pattern =
        r#"{"type":"object","properties":{"pattern":{"type":"string"}},"required":["pattern"]}"#;
    let command =
        r#"{"type":"object","properties":{"command":{"type":"string"}},"required":["command"]}"#;
    let edit = r#"{"type":"object","properties":{"path":{"type":"string"},"old":{"type":"string"},"new":{"type":"string"}},"required":["path","old","new"]}"#;
    vec![
        spec("edit", "Replace text.", edit, Effects::WRITES),
        spec(
            "list",
            "List the files. Hidden ones too.",
            "{}",
            Effects::READS,
        ),
        spec("read", "Read a file.", path, Effects::READS),
        spec("run", "Run a command.", command, Effects::COMMANDS),
        spec("search", "Search for a word.", pattern, Effects::READS),
        spec("write", "Write a file.", write, Effects::WRITES),
    ]
}

/// A history written as text: `u` user, `a` assistant, `c` call, `r` result,
/// `e` error result.
fn history(script: &[(&str, &str)]) -> History {
    let mut items = Vec::new();
    let mut calls = 0;
    for (kind, text) in script {
        let call_id = |n: usize| CallId::new(format!("c{n}")).unwrap();
        items.push(Arc::new(match *kind {
            "u" => Item::user(*text),
            "a" => Item::assistant(*text),
            "c" => {
                calls += 1;
                let (name, arguments) = text.split_once(' ').unwrap();
                Item::ToolCall(ToolCall {
                    id: call_id(calls),
                    name: name.to_owned(),
                    arguments: raw_json(arguments).unwrap(),
                    state: None,
                })
            }
            "r" | "e" => Item::ToolResult(ToolResult {
                call_id: call_id(calls),
                name: String::new(),
                is_error: *kind == "e",
                parts: vec![Part::text(*text)],
            }),
            other => panic!("{other}"),
        }));
    }
    History::new(7, items)
}

fn request(script: &[(&str, &str)]) -> EngineRequest {
    let thread = ThreadId::new("thread").unwrap();
    let mut request = EngineRequest::new(thread, TurnId::new("turn").unwrap(), history(script));
    request.tools = coding_tools().into();
    request.instructions = Arc::from("You are a coding agent with many rules.");
    request
}

fn last_said(plan: &Plan) -> String {
    match &**plan.request.history.items().last().unwrap() {
        Item::UserMessage { parts } => join_text(parts),
        other => panic!("{other:?}"),
    }
}

/// The tools a grammar allows, and whether it allows a value.
fn allows(plan: &Plan) -> Vec<&'static str> {
    let grammar = plan.grammar.as_deref().unwrap_or_default();
    ["edit", "list", "read", "run", "search", "write"]
        .into_iter()
        .filter(|name| grammar.contains(&format!("\\\"tool\\\": \\\"{name}\\\"")))
        .collect()
}

#[test]
fn which_tools_fit_which_request() {
    let check = |script: &[(&str, &str)], tools: &[&str], has: &[&str], hasnt: &[&str]| {
        let plan = plan(&request(script)).unwrap();
        assert_eq!(allows(&plan), tools, "{script:?}");
        let grammar = plan.grammar.unwrap_or_default();
        for value in has {
            assert!(
                grammar.contains(&format!("\"\\\"{value}\\\"\"")),
                "{value}: {grammar}"
            );
        }
        for value in hasnt {
            assert!(
                !grammar.contains(&format!("\"\\\"{value}\\\"\"")),
                "{value}: {grammar}"
            );
        }
    };
    let listed = [
        ("u", "List the files"),
        ("c", "list {}"),
        ("r", "Makefile\nnotes.txt"),
        ("a", "Two."),
    ];
    let then = |text| [&listed[..], &[("u", text)]].concat();

    // A file is named: something is done with it, and with no other.
    check(
        &[("u", "What does notes.txt say?")],
        &["read", "write"],
        &["notes.txt"],
        &["todo.md"],
    );
    // None is named: nothing that needs a file.
    check(
        &[("u", "How many files are here?")],
        &["list", "search"],
        &[],
        &["files"],
    );
    check(&[("u", "run ls")], &["list", "run", "search"], &["ls"], &[]);
    check(
        &[("u", "Write hello to greeting.txt")],
        &["read", "write"],
        &["greeting.txt", "hello"],
        &[],
    );
    // Names that were listed are known, and may be pointed back at.
    check(
        &then("Read the Makefile"),
        &["read", "write"],
        &["Makefile"],
        &["notes.txt"],
    );
    check(&then("Read it"), &["read"], &["Makefile", "notes.txt"], &[]);
    check(
        &then("How many files are here?"),
        &["list", "search"],
        &[],
        &["notes.txt"],
    );
    // After a call: text, unless the request names a file that no call has used.
    let read = ("c", r#"read {"path": "a.txt"}"#);
    check(&[("u", "Read a.txt"), read, ("r", "hello")], &[], &[], &[]);
    check(
        &[("u", "Read a.txt and b.txt"), read, ("r", "hello")],
        &["read"],
        &["b.txt"],
        &["a.txt"],
    );
    // But not after a failure, and not a third time.
    check(
        &[("u", "Read a.txt and b.txt"), read, ("e", "no")],
        &[],
        &[],
        &[],
    );
    let both = [
        ("u", "Read a.txt, b.txt and c.txt"),
        read,
        ("r", "x"),
        ("c", r#"read {"path": "b.txt"}"#),
    ];
    check(&[&both[..], &[("r", "y")]].concat(), &[], &[], &[]);
}

#[test]
fn tool_choice_is_honoured() {
    let check = |choice: ToolChoice, script: &[(&str, &str)], tools: &[&str]| {
        let mut request = request(script);
        request.tool_choice = choice;
        assert_eq!(allows(&plan(&request).unwrap()), tools);
    };
    let asked = [("u", "List the files")];
    let called = [("u", "List the files"), ("c", "list {}"), ("r", "a.txt")];
    check(ToolChoice::None, &asked, &[]);
    check(ToolChoice::Named("search".to_owned()), &asked, &[]);
    check(
        ToolChoice::Named("search".to_owned()),
        &[("u", "Find apple")],
        &["search"],
    );
    check(ToolChoice::Auto, &called, &[]);
    // Required goes on, but never with the same call.
    check(
        ToolChoice::Required,
        &[("u", "List the big files"), called[1], called[2]],
        &["search"],
    );
}

#[test]
fn the_prompt_of_a_call_is_short_and_replaces_everything() {
    let mut asked = request(&[
        ("u", "Hi"),
        ("a", "Hello!"),
        ("u", "What does notes.txt say?"),
    ]);
    asked.options.temperature = Some(0.9);
    asked.options.max_output_tokens = Some(100_000);
    asked.output_schema = Some(raw_json("{}").unwrap().into());
    let plan = plan(&asked).unwrap();
    let expected = r#"Choose the tool for the request.

Tools:
list(): List the files.
read(path): Read a file.
search(pattern): Search for a word.
write(path, content): Write a file.

Examples:
Request: What does readme.txt say?
Answer: {"tool": "read", "path": "readme.txt"}
Request: Which files are here?
Answer: {"tool": "list"}
Request: Write good morning to day.txt
Answer: {"tool": "write", "path": "day.txt", "content": "good morning"}
Request: Show me plan.md
Answer: {"tool": "read", "path": "plan.md"}
Request: Find apple in the files
Answer: {"tool": "search", "pattern": "apple"}
Request: Create a file named answer.txt with the text 42
Answer: {"tool": "write", "path": "answer.txt", "content": "42"}"#;
    assert_eq!(&*plan.request.instructions, expected);
    assert_eq!(
        last_said(&plan),
        "Request: What does notes.txt say?\nAnswer:"
    );
    assert_eq!(plan.request.history.items().len(), 1);
    assert!(plan.request.tools.is_empty());
    assert_eq!(plan.request.tool_choice, ToolChoice::Auto);
    assert_eq!(plan.request.options.temperature, Some(0.0));
    assert_eq!(plan.request.options.max_output_tokens, Some(CALL_TOKENS));
    assert!(plan.request.output_schema.is_none());
}

#[test]
fn an_answer_is_made_from_the_results_with_examples_of_the_same_tool() {
    let check = |script: &[(&str, &str)], first_example: &str, last: &str| {
        let plan = plan(&request(script)).unwrap();
        assert_eq!(plan.grammar, None);
        let Item::UserMessage { parts } = &**plan.request.history.items().first().unwrap() else {
            panic!("an example begins with a request");
        };
        assert!(join_text(parts).starts_with(first_example), "{parts:?}");
        assert_eq!(last_said(&plan), last);
    };
    check(
        &[
            ("u", "What does a.txt say?"),
            ("c", r#"read {"path": "a.txt"}"#),
            ("r", "hello\n"),
        ],
        "What does readme.txt say?",
        "What does a.txt say?\n\nResult: hello",
    );
    check(
        &[("u", "List the files"), ("c", "list {}"), ("r", "a.txt")],
        "Which files are here?",
        "List the files\n\nResult: a.txt",
    );
    check(
        &[
            ("u", "Read a.txt"),
            ("c", r#"read {"path": "a.txt"}"#),
            ("e", "no such file"),
        ],
        "Show me lost.txt",
        "Read a.txt\n\nResult: error: no such file",
    );
    check(
        &[("u", "Weather"), ("c", "weather {}"), ("r", "sunny")],
        "Use weather",
        "Weather\n\nResult: sunny",
    );
}

#[test]
fn a_long_result_and_a_long_conversation_are_cut_to_what_the_model_can_hold() {
    let long = "x".repeat(100_000);
    let read = ("c", r#"read {"path": "a.txt"}"#);
    let answer = plan(&request(&[("u", "Read a.txt"), read, ("r", &long)])).unwrap();
    assert!(last_said(&answer).len() < RESULT_CHARS + 100);

    let mut talk = request(&[
        ("u", "old"),
        ("a", &long),
        ("u", "Hi"),
        ("a", "Hello!"),
        ("u", "Bye"),
    ]);
    talk.tools = Arc::from([]);
    let plan = plan(&talk).unwrap();
    let kinds: Vec<_> = plan
        .request
        .history
        .items()
        .iter()
        .map(|i| i.type_name())
        .collect();
    assert_eq!(kinds, ["user_message", "assistant_message", "user_message"]);
}

#[test]
fn a_call_is_read_back() {
    let check = |text, name: &str, arguments: &str| {
        let call = call(text).unwrap();
        assert_eq!(
            (call.name.as_str(), call.arguments.as_str()),
            (name, arguments)
        );
    };
    check(r#"{"tool": "list"}"#, "list", "{}");
    check(
        r#" {"tool": "read", "path": "a \"b\".txt"}"#,
        "read",
        r#"{"path":"a \"b\".txt"}"#,
    );
    for text in ["", "{\"tool\": \"re", "{}", "[1]"] {
        assert_eq!(call(text).unwrap_err().kind(), ErrorKind::Corrupt, "{text}");
    }
}

#[test]
fn nothing_said_is_an_error() {
    assert_eq!(
        plan(&request(&[])).unwrap_err().kind(),
        ErrorKind::InvalidInput
    );
}

#[test]
fn the_same_request_is_the_same_plan() {
    let asked = request(&[("u", "What does notes.txt say?")]);
    let (one, two) = (plan(&asked).unwrap(), plan(&asked).unwrap());
    assert_eq!(one.grammar, two.grammar);
    assert_eq!(one.request.instructions, two.request.instructions);
}

#[test]
fn numbered_lines_are_read_without_their_numbers() {
    let check = |text: &str, expected: &str| assert_eq!(unnumbered(text), expected, "{text:?}");
    check("     1\tmilk\n     2\teggs\n", "milk\neggs");
    check("    12\t\ta\n\n    13\t", "\ta\n");
    check("1 milk\n2 eggs", "1 milk\n2 eggs");
    check("     1\tmilk\nand more", "     1\tmilk\nand more");
    check("total\t3", "total\t3");
    check("", "");
}
