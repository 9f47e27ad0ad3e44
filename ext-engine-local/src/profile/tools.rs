//! Which tools a very small model is shown, and what each parameter may be.

use haft_api::{ToolSpec, WorkspaceAccess};
use serde::Deserialize;
use serde_json::Value;

use super::words;

/// More tools than this and the model picks at random.
pub(crate) const MOST_TOOLS: usize = 4;
/// More parameters than this and it garbles them.
const MOST_PARAMETERS: usize = 2;
/// As much of a description as is shown, in characters.
const DESCRIPTION_CHARS: usize = 80;
/// The key that carries the tool's name in the model's answer.
pub(crate) const TOOL_KEY: &str = "tool";

/// Names of parameters that hold a path where a tool touches the workspace.
const PATH_PARAMETERS: &[&str] = &[
    "path",
    "file",
    "filename",
    "file_path",
    "dir",
    "directory",
    "folder",
];

/// What a parameter may be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The name of a file or folder.
    Path,
    /// A phrase.
    Text,
    /// A number.
    Number,
    /// One of these, as JSON.
    OneOf(Vec<String>),
}

/// A parameter that must be given. Optional ones aren't shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Parameter {
    pub(crate) name: String,
    pub(crate) kind: Kind,
}

/// A tool as the small model sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SmallTool {
    pub(crate) name: String,
    pub(crate) description: String,
    /// Paths first, then in the order in which the schema requires them.
    pub(crate) parameters: Vec<Parameter>,
}

impl SmallTool {
    /// The tool in its small form, `None` if it has none: too many required
    /// parameters, or one that isn't a plain word, phrase, number or choice.
    fn of(spec: &ToolSpec) -> Option<Self> {
        #[derive(Deserialize)]
        struct Schema {
            #[serde(default)]
            properties: serde_json::Map<String, Value>,
            #[serde(default)]
            required: Vec<String>,
        }
        let schema: Schema = serde_json::from_str(spec.input_schema.get()).ok()?;
        if schema.required.len() > MOST_PARAMETERS {
            return None;
        }
        let in_workspace = spec.effects.workspace != WorkspaceAccess::None;
        let mut parameters = schema
            .required
            .into_iter()
            .map(|name| {
                let kind = kind_of(&name, schema.properties.get(&name)?, in_workspace)?;
                (name != TOOL_KEY).then_some(Parameter { name, kind })
            })
            .collect::<Option<Vec<_>>>()?;
        parameters.sort_by_key(|parameter| parameter.kind != Kind::Path);
        Some(Self {
            name: spec.name.to_string(),
            description: first_sentence(&spec.description),
            parameters,
        })
    }

    /// Whether it works on a file that has to be named.
    pub(crate) fn takes_a_path(&self) -> bool {
        self.parameters
            .iter()
            .any(|parameter| parameter.kind == Kind::Path)
    }
}

fn kind_of(name: &str, schema: &Value, in_workspace: bool) -> Option<Kind> {
    if let Some(values) = schema.get("enum").and_then(Value::as_array) {
        return Some(Kind::OneOf(values.iter().map(Value::to_string).collect()));
    }
    match schema.get("type")?.as_str()? {
        "string" if in_workspace && PATH_PARAMETERS.contains(&name) => Some(Kind::Path),
        "string" => Some(Kind::Text),
        "number" | "integer" => Some(Kind::Number),
        "boolean" => Some(Kind::OneOf(vec!["true".to_owned(), "false".to_owned()])),
        _ => None,
    }
}

fn first_sentence(text: &str) -> String {
    let line = text.trim().lines().next().unwrap_or_default();
    let end = line.find(". ").map_or(line.len(), |at| at + 1);
    line[..end].chars().take(DESCRIPTION_CHARS).collect()
}

/// The tools that the model is shown: those that have a small form, the ones
/// the request speaks of by name first, then the harmless ones first.
pub(crate) fn select(specs: &[ToolSpec], request: &str) -> Vec<SmallTool> {
    let said: Vec<String> = words::words(request)
        .iter()
        .map(|word| word.to_lowercase())
        .collect();
    let mut tools: Vec<_> = specs
        .iter()
        .filter_map(|spec| SmallTool::of(spec).map(|tool| (spec, tool)))
        .map(|(spec, tool)| {
            let named = said.iter().any(|word| *word == tool.name.to_lowercase());
            let rank = match (spec.effects.is_read_only(), spec.effects.runs_commands) {
                (true, _) => 0,
                (false, false) => 1,
                (false, true) => 2,
            };
            ((!named, rank), tool)
        })
        .collect();
    // A stable sort: the runtime's own order decides between equals.
    tools.sort_by_key(|(rank, _)| *rank);
    tools.truncate(MOST_TOOLS);
    // Shown in the runtime's order, so that the same choice is the same prompt.
    tools.sort_by_key(|(_, tool)| {
        specs
            .iter()
            .position(|spec| *spec.name.as_str() == *tool.name)
    });
    tools.into_iter().map(|(_, tool)| tool).collect()
}

#[cfg(test)]
mod tests {
    use haft_api::{Effects, ToolName};

    use super::*;

    fn spec(name: &str, schema: &str, effects: Effects) -> ToolSpec {
        ToolSpec::new(ToolName::new(name).unwrap(), "Does it. At length.")
            .schema(schema)
            .unwrap()
            .effects(effects)
    }

    #[test]
    fn a_tool_is_reduced_to_what_it_requires() {
        let check = |schema: &str, expected: Option<&[(&str, Kind)]>| {
            let tool = SmallTool::of(&spec("t", schema, Effects::WRITES));
            let parameters = tool.map(|tool| {
                tool.parameters
                    .into_iter()
                    .map(|p| (p.name, p.kind))
                    .collect::<Vec<_>>()
            });
            let expected = expected.map(|list| {
                list.iter()
                    .map(|(n, k)| ((*n).to_owned(), k.clone()))
                    .collect::<Vec<_>>()
            });
            assert_eq!(parameters, expected, "{schema}");
        };
        check("{}", Some(&[]));
        check(
            r#"{"properties":{"content":{"type":"string"},"path":{"type":"string"},"mode":{"type":"string"}},
                "required":["content","path"]}"#,
            Some(&[("path", Kind::Path), ("content", Kind::Text)]),
        );
        check(
            r#"{"properties":{"n":{"type":"integer"},"on":{"type":"boolean"}},"required":["n","on"]}"#,
            Some(&[
                ("n", Kind::Number),
                ("on", Kind::OneOf(vec!["true".into(), "false".into()])),
            ]),
        );
        check(
            r#"{"properties":{"unit":{"enum":["c","f"]}},"required":["unit"]}"#,
            Some(&[("unit", Kind::OneOf(vec!["\"c\"".into(), "\"f\"".into()]))]),
        );
        check(
            r#"{"properties":{"x":{"type":"object"}},"required":["x"]}"#,
            None,
        );
        check(r#"{"properties":{},"required":["x"]}"#, None);
        check(
            r#"{"properties":{"tool":{"type":"string"}},"required":["tool"]}"#,
            None,
        );
        let three = r#"{"properties":{"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"}},
            "required":["a","b","c"]}"#;
        check(three, None);
    }

    #[test]
    fn a_path_is_one_only_where_a_tool_touches_the_workspace() {
        let schema = r#"{"properties":{"path":{"type":"string"}},"required":["path"]}"#;
        let tool = SmallTool::of(&spec("route", schema, Effects::NETWORK)).unwrap();
        assert!(!tool.takes_a_path());
        assert_eq!(tool.description, "Does it.");
    }

    #[test]
    fn four_tools_are_shown_the_named_and_the_harmless_first() {
        let specs = [
            spec("edit", "{}", Effects::WRITES),
            spec("list", "{}", Effects::READS),
            spec("read", "{}", Effects::READS),
            spec("run", "{}", Effects::COMMANDS),
            spec("search", "{}", Effects::READS),
            spec("write", "{}", Effects::WRITES),
        ];
        let check = |request, expected: [&str; 4]| {
            let names: Vec<_> = select(&specs, request)
                .into_iter()
                .map(|t| t.name)
                .collect();
            assert_eq!(names, expected, "{request}");
        };
        check("hello", ["edit", "list", "read", "search"]);
        check("Write it", ["list", "read", "search", "write"]);
        check("run ls", ["list", "read", "run", "search"]);
    }
}
