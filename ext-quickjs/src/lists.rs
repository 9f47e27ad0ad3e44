//! The tools and commands that a skill says it has.

use haft_api::{Effects, Error, ErrorKind, ToolName, ToolSpec, WorkspaceAccess};
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::value::RawValue;

/// A command of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommandInfo {
    /// What is typed after the slash.
    pub name: String,
    /// What it does, for people.
    pub description: String,
    /// The skill that has it.
    pub skill: String,
}

/// What was found once a script was read.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Found {
    /// What of the skill's parts there is, by name.
    #[serde(default)]
    hooks: Vec<String>,
    /// The lists, if they could be read.
    #[serde(default)]
    tools: Option<IgnoredAny>,
}

impl Found {
    /// Reads what `core.js` says.
    ///
    /// # Errors
    /// If it says something else.
    pub(crate) fn read(json: &str) -> Result<Self, String> {
        serde_json::from_str(json).map_err(|e| format!("what the script has isn't known: {e}"))
    }

    pub(crate) fn has(&self, name: &str) -> bool {
        self.hooks.iter().any(|hook| hook == name)
    }

    pub(crate) fn has_lists(&self) -> bool {
        self.tools.is_some()
    }
}

/// A tool of a skill.
#[derive(Debug, Clone)]
pub(crate) struct SkillTool {
    /// Its name within the skill.
    pub(crate) name: String,
    /// With the name that a model sees.
    pub(crate) spec: ToolSpec,
}

/// What a skill has.
#[derive(Debug, Clone, Default)]
pub(crate) struct Lists {
    pub(crate) tools: Vec<SkillTool>,
    pub(crate) commands: Vec<CommandInfo>,
    /// What kept something out.
    pub(crate) problems: Vec<haft_api::ErrorData>,
}

#[derive(Deserialize)]
struct Said {
    tools: Vec<serde_json::Value>,
    commands: Vec<serde_json::Value>,
}

#[derive(Deserialize)]
struct SaidTool {
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default, alias = "input_schema", rename = "inputSchema")]
    schema: Option<Box<RawValue>>,
    #[serde(default)]
    effects: Option<SaidEffects>,
    #[serde(default)]
    timeout_ms: Option<u64>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum SaidEffects {
    Word(String),
    Each(serde_json::Value),
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct EachEffect {
    workspace: Option<WorkspaceAccess>,
    runs_commands: bool,
    network: bool,
    destructive: bool,
    idempotent: bool,
}

#[derive(Deserialize)]
struct SaidCommand {
    name: String,
    #[serde(default)]
    description: String,
}

/// The name under which a model calls a skill's tool.
pub(crate) fn outside_name(skill: &str, tool: &str) -> String {
    format!("{skill}__{tool}")
}

impl Lists {
    /// Reads what `core.js` says; an entry that is wrong costs itself alone.
    pub(crate) fn read(skill: &str, json: &str, denied: &[String]) -> Self {
        let mut lists = Self::default();
        let said: Said = match serde_json::from_str(json) {
            Ok(said) => said,
            Err(error) => {
                lists.problem(skill, "its lists", &error.to_string());
                return lists;
            }
        };
        for entry in said.tools {
            let shown = shown(&entry);
            match tool(skill, entry, &lists.tools) {
                Ok(tool) if denied.iter().any(|name| tool.spec.name == *name.as_str()) => {
                    let words = "the settings leave this tool out (`deny_tools`)";
                    lists.problem(skill, &shown, words);
                }
                Ok(tool) => lists.tools.push(tool),
                Err(words) => lists.problem(skill, &shown, &words),
            }
        }
        for entry in said.commands {
            let shown = shown(&entry);
            match command(skill, entry, &lists.commands) {
                Ok(command) => lists.commands.push(command),
                Err(words) => lists.problem(skill, &shown, &words),
            }
        }
        lists
    }

    fn problem(&mut self, skill: &str, what: &str, words: &str) {
        let error = Error::new(ErrorKind::InvalidInput, words)
            .operation("read a skill's tools")
            .context("skill", skill)
            .context("entry", what);
        self.problems.push(error.to_data());
    }
}

fn shown(entry: &serde_json::Value) -> String {
    match (&entry["name"], &entry["at"]) {
        (serde_json::Value::String(name), _) => name.clone(),
        (_, serde_json::Value::Number(at)) => format!("number {at}"),
        _ => "one without a name".to_owned(),
    }
}

fn refused(entry: &serde_json::Value) -> Result<(), String> {
    match &entry["problem"] {
        serde_json::Value::String(problem) => Err(problem.clone()),
        _ => Ok(()),
    }
}

fn tool(skill: &str, entry: serde_json::Value, others: &[SkillTool]) -> Result<SkillTool, String> {
    refused(&entry)?;
    // By its text: a raw value can't be read from a parsed one.
    let said: SaidTool = serde_json::from_str(&entry.to_string()).map_err(|e| e.to_string())?;
    if said.name.is_empty() {
        return Err("field `name` is empty".to_owned());
    }
    if others.iter().any(|other| other.name == said.name) {
        return Err("a second tool of this name".to_owned());
    }
    let name = ToolName::new(outside_name(skill, &said.name)).map_err(|e| e.to_string())?;
    let mut spec = ToolSpec::new(name, said.description.unwrap_or_default());
    if let Some(schema) = said.schema.filter(|schema| schema.get() != "{}") {
        spec = spec.schema(schema.get()).map_err(|e| e.to_string())?;
    }
    spec = spec.effects(effects(said.effects)?);
    if let Some(ms) = said.timeout_ms {
        if ms == 0 {
            return Err("field `timeout_ms` must be positive".to_owned());
        }
        spec = spec.timeout_ms(ms);
    }
    Ok(SkillTool {
        name: said.name,
        spec,
    })
}

fn effects(said: Option<SaidEffects>) -> Result<Effects, String> {
    Ok(match said {
        // A skill has no workspace: what is left is the network.
        None => Effects::NETWORK,
        Some(SaidEffects::Word(word)) => match &*word {
            "pure" => Effects::PURE,
            "network" => Effects::NETWORK,
            "reads" => Effects::READS,
            "writes" => Effects::WRITES,
            "commands" => Effects::COMMANDS,
            _ => {
                return Err(format!(
                    "field `effects`: `{word}` is none of `pure`, `reads`, `writes`, `commands`, \
                     `network`"
                ));
            }
        },
        Some(SaidEffects::Each(each)) => {
            let each: EachEffect =
                serde_json::from_value(each).map_err(|e| format!("field `effects`: {e}"))?;
            let mut effects = Effects::PURE;
            effects.workspace = each.workspace.unwrap_or(WorkspaceAccess::None);
            effects.runs_commands = each.runs_commands;
            effects.network = each.network;
            effects.destructive = each.destructive;
            effects.idempotent = each.idempotent;
            effects
        }
    })
}

fn command(
    skill: &str,
    entry: serde_json::Value,
    others: &[CommandInfo],
) -> Result<CommandInfo, String> {
    refused(&entry)?;
    let said: SaidCommand = serde_json::from_value(entry).map_err(|e| e.to_string())?;
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | ':' | '.');
    if said.name.is_empty() || !said.name.chars().all(plain) {
        return Err(format!(
            "`{}` is no command's name (letters, digits, `-`, `_`, `:`, `.`)",
            said.name
        ));
    }
    if others.iter().any(|other| other.name == said.name) {
        return Err("a second command of this name".to_owned());
    }
    Ok(CommandInfo {
        name: said.name,
        description: said.description,
        skill: skill.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_entry_costs_itself() {
        let json = r#"{"tools":[
            {"name":"a","description":"A"},
            {"name":""},
            {"name":"a"},
            {"name":"b","inputSchema":[]},
            {"name":"c","input_schema":{"type":"object"},"effects":"pure","timeout_ms":5},
            {"name":"d","effects":"magic"},
            {"name":"e","effects":{"network":true}},
            {"name":"f\" /*"},
            {"at":8,"name":"g","problem":"it throws"},
            {"name":"denied"},
            {"name":5}
        ],"commands":[{"name":"x"},{"name":"x"},{"name":"a b"}]}"#;
        let lists = Lists::read("s", json, &["s__denied".to_owned()]);
        let names: Vec<_> = lists.tools.iter().map(|t| t.spec.name.as_str()).collect();
        assert_eq!(names, ["s__a", "s__c", "s__e"]);
        assert_eq!(lists.tools[1].spec.effects, Effects::PURE);
        assert!(lists.tools[2].spec.effects.network);
        assert_eq!(lists.commands.len(), 1);
        assert_eq!(lists.problems.len(), 10, "{:?}", lists.problems);
    }
}
