//! The small-model profile: what a request becomes for a model that is too
//! small for tools as they are.
//!
//! A model of some hundred million parameters repeats one call for ever, picks
//! tools at random and garbles arguments. With this profile it does one sensible
//! thing and then says a sentence about it:
//!
//! - it is shown at most four tools, with their required parameters alone, and
//!   six worked examples, all of it in the prompt and none of it in the thread;
//! - its call is held by a grammar to the tools that fit the request and to
//!   arguments that are names, phrases or numbers of the conversation;
//! - the first round must call a tool; a second one does so only for a file that
//!   the request names and no call has used yet; after that comes text;
//! - no call is made twice in a turn;
//! - the temperature is 0.
//!
//! The runtime's own instructions are replaced: a long system prompt is noise to
//! such a model. Everything here is a pure function of the request.

mod examples;
mod grammar;
mod tools;
mod turn;
mod words;

#[cfg(test)]
mod tests;

use std::sync::Arc;

use haft_api::{
    EngineMemo, EngineRequest, EngineToolCall, Error, ErrorKind, History, Item, Result, ToolChoice,
    ToolResult,
};
use serde_json::Value;

use grammar::CallOption;
use tools::{Kind, SmallTool, TOOL_KEY};
use turn::CurrentTurn;

/// Rounds of one turn in which a tool may be called.
const MOST_TOOL_ROUNDS: usize = 2;
/// Tokens for a call; none of those the grammar allows is longer.
const CALL_TOKENS: u64 = 256;
/// Tokens for an answer; past that it only repeats itself.
const ANSWER_TOKENS: u64 = 160;
/// As much of the tools' results as the model reads for its answer, in characters.
const RESULT_CHARS: usize = 2_000;
/// As much of the conversation as is sent where no tool was called, in characters.
const CONVERSATION_CHARS: usize = 4_000;

/// What is sent instead of a request, and how to take the answer.
#[derive(Debug)]
pub struct Plan {
    /// What is sent: no tools, a short history that stands in no thread.
    pub request: EngineRequest,
    /// Where the answer is a call: the grammar it is held to, in llama.cpp's
    /// notation. [`call`] reads the answer.
    pub grammar: Option<String>,
}

/// Makes the plan for a request.
///
/// # Errors
/// [`ErrorKind::InvalidInput`] if the history holds nothing that a user said.
pub fn plan(request: &EngineRequest) -> Result<Plan> {
    let turn = CurrentTurn::of(request.history.items()).ok_or_else(|| {
        Error::new(
            ErrorKind::InvalidInput,
            "there is no message of a user to answer",
        )
    })?;
    let choice = match &request.tool_choice {
        ToolChoice::None => None,
        ToolChoice::Named(name) => {
            let named: Vec<_> = request
                .tools
                .iter()
                .filter(|tool| tool.name == **name)
                .cloned()
                .collect();
            choose(request, &turn, tools::select(&named, &turn.request))
        }
        ToolChoice::Auto | ToolChoice::Required => {
            choose(request, &turn, tools::select(&request.tools, &turn.request))
        }
    };
    Ok(choice.unwrap_or_else(|| answer(request, &turn)))
}

/// Reads the call from the model's text.
///
/// # Errors
/// [`ErrorKind::Corrupt`] if the text isn't a whole call, which the grammar only
/// lets happen where the answer was cut off.
pub fn call(text: &str) -> Result<EngineToolCall> {
    let broken = |why: String| {
        Error::new(
            ErrorKind::Corrupt,
            format!("the model's call can't be read: {why}"),
        )
        .context("text", text.chars().take(200).collect::<String>())
    };
    let mut object: serde_json::Map<String, Value> =
        serde_json::from_str(text.trim()).map_err(|e| broken(e.to_string()))?;
    let Some(Value::String(name)) = object.remove(TOOL_KEY) else {
        return Err(broken(format!("it has no `{TOOL_KEY}`")));
    };
    Ok(EngineToolCall {
        id: None,
        name,
        arguments: Value::Object(object).to_string(),
        state: None,
    })
}

/// The plan for a round that calls a tool, if this is one.
fn choose(request: &EngineRequest, turn: &CurrentTurn<'_>, tools: Vec<SmallTool>) -> Option<Plan> {
    if turn.calls.len() >= MOST_TOOL_ROUNDS {
        return None;
    }
    let known = known_names(turn);
    let named = words::names(&turn.request, &known);
    let paths = if let Some((_, last)) = turn.calls.last() {
        let used = turn.used_arguments(None);
        let unused: Vec<_> = named
            .into_iter()
            .filter(|name| !used.contains(name))
            .collect();
        let done = unused.is_empty() && request.tool_choice != ToolChoice::Required;
        if done || last.is_none_or(|result| result.is_error) {
            return None;
        }
        unused
    } else if named.is_empty() && words::points_back(&turn.request) {
        known
    } else {
        named
    };
    let options = options(turn, &tools, &paths);
    if options.is_empty() {
        return None;
    }
    let mut prompt = "Choose the tool for the request.\n\nTools:\n".to_owned();
    for tool in &tools {
        let names: Vec<_> = tool.parameters.iter().map(|p| p.name.as_str()).collect();
        prompt.push_str(&format!(
            "{}({}): {}\n",
            tool.name,
            names.join(", "),
            tool.description
        ));
    }
    prompt.push_str("\nExamples:\n");
    for example in examples::of_calls(&tools) {
        let tool = tools.iter().find(|tool| tool.name == example.tool)?;
        let call = grammar::call_text(tool, &example.arguments);
        prompt.push_str(&format!("Request: {}\nAnswer: {call}\n", example.request));
    }
    let asked = Item::user(format!("Request: {}\nAnswer:", turn.request));
    let mut sent = rewrite(request, prompt.trim_end(), vec![asked], CALL_TOKENS);
    sent.output_schema = None;
    Some(Plan {
        request: sent,
        grammar: Some(grammar::of_calls(&options)),
    })
}

/// The tools that fit the request now, with what their arguments may be.
fn options<'a>(
    turn: &CurrentTurn<'_>,
    tools: &'a [SmallTool],
    paths: &[String],
) -> Vec<CallOption<'a>> {
    // Who names a file wants something done with it.
    let about_files = !paths.is_empty() && tools.iter().any(SmallTool::takes_a_path);
    let strings = |texts: Vec<String>| {
        texts
            .iter()
            .map(|text| examples::json_string(text))
            .collect()
    };
    tools
        .iter()
        .filter(|tool| tool.takes_a_path() == about_files)
        .filter_map(|tool| {
            let used = turn.used_arguments(Some(&tool.name));
            if turn.has_called(&tool.name) && !tool.takes_a_path() {
                return None;
            }
            let values = tool
                .parameters
                .iter()
                .map(|parameter| match &parameter.kind {
                    Kind::Path => strings(
                        paths
                            .iter()
                            .filter(|path| !used.contains(path))
                            .cloned()
                            .collect(),
                    ),
                    Kind::Text => strings(words::phrases(&turn.request)),
                    Kind::Number => words::numbers(&turn.request),
                    Kind::OneOf(values) => values.clone(),
                })
                .collect::<Vec<Vec<String>>>();
            values
                .iter()
                .all(|allowed| !allowed.is_empty())
                .then_some(CallOption { tool, values })
        })
        .collect()
}

/// The plan for a round that answers in words.
fn answer(request: &EngineRequest, turn: &CurrentTurn<'_>) -> Plan {
    let Some((last, result)) = turn.calls.last() else {
        let instructions = "You are a helpful assistant.";
        return Plan {
            request: rewrite(request, instructions, conversation(turn), ANSWER_TOKENS),
            grammar: None,
        };
    };
    let failed = result.is_none_or(|result| result.is_error);
    let spec = request
        .tools
        .iter()
        .find(|tool| *tool.name.as_str() == *last.name);
    let tool = spec.and_then(|spec| tools::select(std::slice::from_ref(spec), "").pop());
    let tool = tool.unwrap_or_else(|| SmallTool {
        name: last.name.clone(),
        description: String::new(),
        parameters: Vec::new(),
    });
    let mut items = Vec::new();
    for (asked, result, said) in examples::of_answers(&tool, failed) {
        items.push(Item::user(format!("{asked}\n\nResult: {result}")));
        items.push(Item::assistant(said));
    }
    let results: Vec<_> = turn
        .calls
        .iter()
        .filter_map(|(_, result)| *result)
        .collect();
    let share = RESULT_CHARS / results.len().max(1);
    let results: Vec<_> = results
        .into_iter()
        .map(|result| shown(result, share))
        .collect();
    items.push(Item::user(format!(
        "{}\n\nResult: {}",
        turn.request,
        results.join("\n")
    )));
    let instructions = "Answer each request from its result.";
    Plan {
        request: rewrite(request, instructions, items, ANSWER_TOKENS),
        grammar: None,
    }
}

/// A result as the model reads it: its beginning, a failure marked as one.
fn shown(result: &ToolResult, most: usize) -> String {
    let text = unnumbered(&result.text());
    let text = text.trim();
    let mark = if result.is_error && !text.starts_with("error") {
        "error: "
    } else {
        ""
    };
    format!("{mark}{}", text.chars().take(most).collect::<String>())
}

/// Text without the numbers that tools put before its lines: to a small model
/// they are what the file says.
fn unnumbered(text: &str) -> String {
    let bare = |line| {
        let (number, rest) = str::split_once(line, '\t')?;
        let number = number.trim_start();
        (!number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())).then_some(rest)
    };
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let bare: Option<Vec<&str>> = lines.map(bare).collect();
    bare.map_or_else(|| text.to_owned(), |lines| lines.join("\n"))
}

/// The end of the conversation as far as it was spoken.
fn conversation(turn: &CurrentTurn<'_>) -> Vec<Item> {
    let mut left = CONVERSATION_CHARS.saturating_sub(turn.request.len());
    let mut items: Vec<_> = turn
        .earlier
        .iter()
        .rev()
        .filter(|item| {
            matches!(
                ***item,
                Item::UserMessage { .. } | Item::AssistantMessage { .. }
            )
        })
        .map_while(|item| {
            let text = match &**item {
                Item::UserMessage { parts } => haft_api::join_text(parts),
                Item::AssistantMessage { text, .. } => text.clone(),
                _ => return None,
            };
            left = left.checked_sub(text.len())?;
            Some(match &**item {
                Item::UserMessage { .. } => Item::user(text),
                _ => Item::assistant(text),
            })
        })
        .collect();
    items.reverse();
    items.push(Item::user(turn.request.clone()));
    items
}

/// The names of files that results of the conversation mention, newest first.
fn known_names(turn: &CurrentTurn<'_>) -> Vec<String> {
    let mut names = Vec::new();
    for item in turn.earlier.iter().rev() {
        if let Item::ToolResult(result) = &**item
            && !result.is_error
        {
            names.extend(words::mentioned_names(&result.text()));
        }
    }
    let mut seen = std::collections::HashSet::new();
    names.retain(|name| seen.insert(name.clone()));
    names.truncate(MOST_KNOWN_NAMES);
    names
}

/// Names of earlier results that a request may point back at.
const MOST_KNOWN_NAMES: usize = 50;

/// The request with another conversation in it and nothing to call.
fn rewrite(
    request: &EngineRequest,
    instructions: &str,
    items: Vec<Item>,
    most_tokens: u64,
) -> EngineRequest {
    let mut sent = request.clone();
    sent.instructions = Arc::from(instructions);
    sent.history = History::new(0, items.into_iter().map(Arc::new).collect());
    // What was kept of the thread's own history says nothing about this one.
    sent.memo = EngineMemo::new();
    sent.tools = Arc::from([]);
    sent.tool_choice = ToolChoice::Auto;
    sent.options.temperature = Some(0.0);
    sent.options.parallel_tool_calls = None;
    let asked = sent.options.max_output_tokens.unwrap_or(most_tokens);
    sent.options.max_output_tokens = Some(asked.min(most_tokens));
    sent
}
