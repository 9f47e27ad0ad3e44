//! What is read of other agents' sessions, and what is named as lost.

use haft_api::{Part, Usage};
use haft_core::Piece;
use haft_import::{Format, Imported, read};

/// Pieces in short: `u` user, `a` assistant, `r` reasoning, `c` call, `s` result,
/// `#` tokens, `m` model, `S` summary.
fn show(piece: &Piece) -> String {
    let text = |parts: &[Part]| {
        let parts = parts.iter().map(|part| match part {
            Part::Text { text } => text.clone(),
            Part::Image { media_type, data } => format!("<{media_type} {data}>"),
            _ => "<?>".to_owned(),
        });
        parts.collect::<Vec<_>>().join("+")
    };
    match piece {
        Piece::Model(model) => format!("m:{model}"),
        Piece::User(parts) => format!("u:{}", text(parts)),
        Piece::Assistant(text) => format!("a:{text}"),
        Piece::Reasoning(text) => format!("r:{text}"),
        Piece::Call {
            id,
            name,
            arguments,
        } => format!("c:{id} {name} {arguments}"),
        Piece::Result {
            call_id,
            is_error,
            parts,
        } => format!(
            "s:{call_id} {}{}",
            if *is_error { "!" } else { "" },
            text(parts)
        ),
        Piece::Usage(Usage { input, output, .. }) => {
            format!("#:{}/{}", input.unwrap_or(0), output.unwrap_or(0))
        }
        Piece::Summary { text, kept } => format!("S:{kept} {text}"),
        _ => "?".to_owned(),
    }
}

fn check(format: Format, lines: &[&str], pieces: &[&str], losses: &[&str]) -> Imported {
    let imported = read(lines.join("\n").as_bytes(), None).unwrap();
    assert_eq!(imported.format, format);
    let shown: Vec<_> = imported.pieces.iter().map(show).collect();
    assert_eq!(shown, pieces);
    let lost: Vec<_> = imported.losses.iter().map(ToString::to_string).collect();
    assert_eq!(lost, losses);
    imported
}

#[test]
fn a_codex_rollout() {
    let imported = check(
        Format::Codex,
        &[
            r#"{"timestamp":"t","type":"session_meta","payload":{"id":"s1","cwd":"/w","cli_version":"1"}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"developer","content":[{"type":"input_text","text":"rules"}]}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"<environment_context>x"}]}}"#,
            r#"{"type":"turn_context","payload":{"cwd":"/w","model":"gpt-5"}}"#,
            r#"{"type":"event_msg","payload":{"type":"user_message","message":"Look"}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"Look"},{"type":"input_image","image_url":"data:image/png;base64,AAAA"},{"type":"input_image","image_url":"https://x/y.png"}]}}"#,
            r#"{"type":"response_item","payload":{"type":"reasoning","summary":[{"type":"summary_text","text":"hm"}],"content":null,"encrypted_content":"zzz"}}"#,
            r#"{"type":"response_item","payload":{"type":"function_call","name":"shell","arguments":"{\"command\":[\"ls\"]}","call_id":"c1"}}"#,
            r#"{"type":"response_item","payload":{"type":"custom_tool_call","name":"apply_patch","input":"*** Begin","call_id":"c2"}}"#,
            r#"{"type":"response_item","payload":{"type":"function_call_output","call_id":"c1","output":"a.txt"}}"#,
            r#"{"type":"response_item","payload":{"type":"custom_tool_call_output","call_id":"c2","output":{"content":"no such file","success":false}}}"#,
            r#"{"type":"event_msg","payload":{"type":"token_count","info":{"last_token_usage":{"input_tokens":70,"cached_input_tokens":20,"output_tokens":5}}}}"#,
            r#"{"type":"response_item","payload":{"type":"web_search_call","status":"completed"}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"assistant","content":[{"type":"output_text","text":"Done"}]}}"#,
            r#"{"type":"compacted","payload":{"message":"they looked"}}"#,
            r#"{"type":"response_item","payload":{"type":"message","role":"user","content":[{"type":"input_text","text":"And"#,
        ],
        &[
            "m:gpt-5",
            "u:Look+<image/png AAAA>",
            "r:hm",
            r#"c:c1 shell {"command":["ls"]}"#,
            "c:c2 apply_patch *** Begin",
            "s:c1 a.txt",
            "s:c2 !no such file",
            "#:70/5",
            "a:Done",
            "S:0 they looked",
        ],
        &[
            "a line that is no JSON object was skipped (line 16)",
            "what the program told the model was left out (2 times, first in line 2)",
            "an image that isn't in the file was left out (line 6)",
            "encrypted reasoning was left out (line 7)",
            "an item of the kind `web_search_call` was left out (line 13)",
        ],
    );
    assert_eq!(imported.id.as_deref(), Some("s1"));
    assert_eq!(imported.title.as_deref(), Some("Look"));
    assert_eq!(imported.workspace.as_deref(), Some("/w"));
}

#[test]
fn a_codex_rollout_of_the_first_kind() {
    check(
        Format::Codex,
        &[
            r#"{"id":"s1","timestamp":"t","instructions":null}"#,
            r#"{"type":"message","id":null,"role":"user","content":[{"type":"input_text","text":"Hi"}]}"#,
            r#"{"record_type":"state"}"#,
            r#"{"type":"local_shell_call","call_id":"c1","status":"completed","action":{"type":"exec","command":["ls"]}}"#,
            r#"{"type":"function_call_output","call_id":"c1","output":"x"}"#,
        ],
        &[
            "u:Hi",
            r#"c:c1 shell {"command":["ls"],"type":"exec"}"#,
            "s:c1 x",
        ],
        &[],
    );
}

#[test]
fn a_claude_code_session() {
    let imported = check(
        Format::ClaudeCode,
        &[
            r#"{"type":"summary","summary":"A talk","leafUuid":"9"}"#,
            r#"{"type":"user","uuid":"1","parentUuid":null,"sessionId":"s","cwd":"/w","isSidechain":false,"message":{"role":"user","content":"Hello"}}"#,
            r#"{"type":"user","uuid":"m","parentUuid":"1","isMeta":true,"message":{"role":"user","content":"Caveat"}}"#,
            r#"{"type":"assistant","uuid":"2","parentUuid":"m","message":{"id":"msg1","model":"claude-x","role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"zz"}],"usage":{"input_tokens":3,"cache_read_input_tokens":10,"cache_creation_input_tokens":7,"output_tokens":1}}}"#,
            r#"{"type":"assistant","uuid":"3","parentUuid":"2","message":{"id":"msg1","model":"claude-x","role":"assistant","content":[{"type":"tool_use","id":"t1","name":"Read","input":{"file":"a"}}],"usage":{"input_tokens":3,"cache_read_input_tokens":10,"cache_creation_input_tokens":7,"output_tokens":1}}}"#,
            r#"{"type":"user","uuid":"4","parentUuid":"3","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":[{"type":"text","text":"A"},{"type":"image","source":{"type":"base64","media_type":"image/png","data":"BB"}}]}]}}"#,
            r#"{"type":"assistant","uuid":"5","parentUuid":"4","message":{"id":"msg1","model":"claude-x","role":"assistant","content":[{"type":"tool_use","id":"t2","name":"Bash","input":{}}],"usage":{"input_tokens":3,"cache_read_input_tokens":10,"cache_creation_input_tokens":7,"output_tokens":40}}}"#,
            r#"{"type":"user","uuid":"6","parentUuid":"5","message":{"role":"user","content":[{"type":"tool_result","tool_use_id":"t2","is_error":true,"content":"denied"},{"type":"text","text":"stop that"}]}}"#,
            r#"{"type":"user","uuid":"x","parentUuid":"6","message":{"role":"user","content":"abandoned"}}"#,
            r#"{"type":"user","uuid":"y","parentUuid":null,"isSidechain":true,"message":{"role":"user","content":"sub"}}"#,
            r#"{"type":"system","subtype":"compact_boundary","uuid":"7","parentUuid":null,"logicalParentUuid":"6"}"#,
            r#"{"type":"user","uuid":"8","parentUuid":"7","isCompactSummary":true,"message":{"role":"user","content":"Before, they read A."}}"#,
            r#"{"type":"assistant","uuid":"9","parentUuid":"8","message":{"id":"msg2","model":"claude-x","role":"assistant","content":[{"type":"text","text":"Fine \ud83d"}]}}"#,
        ],
        &[
            "u:Hello",
            "m:claude-x",
            "#:20/40",
            "r:hm",
            r#"c:t1 Read {"file":"a"}"#,
            "c:t2 Bash {}",
            "s:t1 A+<image/png BB>",
            "s:t2 !denied",
            "u:stop that",
            "S:0 Before, they read A.",
            "a:Fine \u{fffd}",
        ],
        &[
            "half a character was replaced (line 13)",
            "a message of a sub-agent was left out (line 10)",
            "a message of an abandoned branch was left out (line 9)",
            "what the program told the model was left out (line 3)",
            "a signature of reasoning was left out (line 4)",
        ],
    );
    assert_eq!(imported.title.as_deref(), Some("A talk"));
    assert_eq!(imported.workspace.as_deref(), Some("/w"));
}

#[test]
fn a_pi_session() {
    let imported = check(
        Format::Pi,
        &[
            r#"{"type":"session","version":3,"id":"s","timestamp":"t","cwd":"/w"}"#,
            r#"{"type":"model_change","id":"0","parentId":null,"provider":"p","modelId":"m1"}"#,
            r#"{"type":"message","id":"1","parentId":"0","message":{"role":"user","content":[{"type":"text","text":"Hi"},{"type":"image","data":"AA","mimeType":"image/png"}]}}"#,
            r#"{"type":"message","id":"2","parentId":"1","message":{"role":"assistant","content":[{"type":"thinking","thinking":"hm","thinkingSignature":"z"},{"type":"toolCall","id":"c1","name":"bash","arguments":{"command":"ls"}}],"usage":{"input":5,"output":2,"cacheRead":1,"cacheWrite":0}}}"#,
            r#"{"type":"message","id":"3","parentId":"2","message":{"role":"toolResult","toolCallId":"c1","toolName":"bash","content":[{"type":"text","text":"a"}],"isError":false}}"#,
            r#"{"type":"message","id":"x","parentId":"3","message":{"role":"assistant","content":[{"type":"text","text":"dead end"}]}}"#,
            r#"{"type":"compaction","id":"4","parentId":"3","summary":"they said hi","firstKeptEntryId":"2","tokensBefore":9}"#,
            r#"{"type":"message","id":"5","parentId":"4","message":{"role":"bashExecution","command":"pwd","output":"/w","exitCode":0}}"#,
            r#"{"type":"session_info","id":"6","parentId":"5","name":"Greeting"}"#,
            r#"{"type":"message","id":"7","parentId":"6","message":{"role":"assistant","content":"Bye"}}"#,
        ],
        &[
            "m:m1",
            "u:Hi+<image/png AA>",
            "r:hm",
            r#"c:c1 bash {"command":"ls"}"#,
            "#:6/2",
            "s:c1 a",
            "S:4 they said hi",
            "u:I ran this command:\npwd\n\nIts output:\n/w",
            "a:Bye",
        ],
        &[
            "a message of an abandoned branch was left out (line 6)",
            "a signature of reasoning was left out (line 4)",
        ],
    );
    assert_eq!(imported.title.as_deref(), Some("Greeting"));
}

#[test]
fn a_session_without_a_title_is_called_by_its_first_words() {
    let check = |blocks: &str, expected: Option<&str>| {
        let file = format!(
            r#"{{"type":"session","id":"s","cwd":"/w"}}
{{"type":"message","message":{{"role":"user","content":{blocks}}}}}
{{"type":"message","message":{{"role":"assistant","content":"Bye"}}}}"#
        );
        let imported = read(file.as_bytes(), None).unwrap();
        assert_eq!(imported.title.as_deref(), expected, "{blocks}");
    };
    let image = r#"{"type":"image","data":"AA","mimeType":"image/png"}"#;
    check(r#""What is this?""#, Some("What is this?"));
    check(r#""\n \n  one\ntwo""#, Some("one"));
    check(
        &format!(r#"[{image},{{"type":"text","text":"A cat"}}]"#),
        Some("A cat"),
    );
    check(&format!("\"{}\"", "中".repeat(100)), Some(&"中".repeat(80)));
    check(&format!("[{image}]"), None);
}

#[test]
fn what_is_no_session_is_refused_in_words() {
    let check = |text: &str, format: Option<Format>, word: &str| {
        let error = read(text.as_bytes(), format).unwrap_err().to_string();
        assert!(error.contains(word), "{error}");
    };
    check("", None, "claude-code");
    check("not json\n{\"a\":1}\n", None, "no session file");
    check(r#"{"type":"session","cwd":"/w"}"#, None, "no message");
    check("{}", Some(Format::Codex), "no message");
    assert!(
        "cursor"
            .parse::<Format>()
            .unwrap_err()
            .to_string()
            .contains("codex")
    );
}
