//! The tools of a turn: what the model is shown, and where each call goes.

use std::collections::BTreeMap;
use std::sync::Arc;

use haft_api::{
    Effects, Error, ErrorKind, ExtensionId, Registry, Result, Tool, ToolName, ToolRegistry,
    ToolSource, ToolSpec,
};

use super::schema::ArgumentsSchema;
use crate::guard;

/// Where a call goes.
#[derive(Clone)]
pub(crate) enum Target {
    Tool(Arc<dyn Tool>),
    Source(Arc<dyn ToolSource>),
    /// Answered from outside.
    External,
}

/// A tool that may be called.
#[derive(Clone)]
pub(crate) struct ToolEntry {
    pub(crate) spec: ToolSpec,
    pub(crate) target: Target,
    pub(crate) extension: Option<ExtensionId>,
    schema: Arc<ArgumentsSchema>,
}

impl ToolEntry {
    fn new(spec: ToolSpec, target: Target, extension: Option<ExtensionId>) -> Result<Self> {
        let schema = Arc::new(ArgumentsSchema::new(&spec)?);
        Ok(Self {
            spec,
            target,
            extension,
            schema,
        })
    }

    pub(crate) fn effects(&self) -> Effects {
        self.spec.effects
    }

    /// What is wrong with arguments, in words for the model; `None` if nothing.
    pub(crate) fn complaint(&self, arguments: &str) -> Option<String> {
        let value = match serde_json::from_str(arguments) {
            Ok(value) => value,
            Err(error) => return Some(format!("The arguments can't be read: {error}")),
        };
        let complaints = self.schema.complaints(&value);
        if complaints.is_empty() {
            return None;
        }
        Some(format!(
            "The arguments don't fit the schema of `{}`:\n{}",
            self.spec.name,
            complaints.join("\n")
        ))
    }

    /// Whether it may run beside other calls that don't touch the workspace.
    pub(crate) fn runs_beside_others(&self) -> bool {
        let effects = self.effects();
        !effects.needs_workspace()
            && (effects.is_read_only() || (effects.idempotent && !effects.destructive))
    }
}

/// The tools of a turn by name.
#[derive(Clone, Default)]
pub(crate) struct ToolSet {
    entries: BTreeMap<ToolName, ToolEntry>,
    specs: Arc<[ToolSpec]>,
}

impl ToolSet {
    /// The tools that are registered one by one, and what kept others out. A
    /// tool with a bad schema costs that tool; a contributor that fails costs
    /// its tools.
    ///
    /// # Errors
    /// If two tools have one name.
    pub(crate) fn registered(
        registry: &Registry,
        external: &[ToolSpec],
    ) -> Result<(Self, Vec<Error>)> {
        let mut problems = Vec::new();
        let mut tools = ToolRegistry::new();
        for contributor in registry.tools() {
            let owner = contributor
                .owner
                .as_ref()
                .map_or("the host", ExtensionId::as_str);
            let mut attempt = tools.clone();
            attempt.set_owner(contributor.owner.clone());
            match guard::call(owner, || contributor.part.contribute(&mut attempt)) {
                Ok(Ok(())) => tools = attempt,
                Ok(Err(error)) if error.kind() == ErrorKind::AlreadyExists => return Err(error),
                Ok(Err(error)) | Err(error) => problems.push(error.context("extension", owner)),
            }
        }
        let mut set = Self::default();
        for tool in tools.iter() {
            let spec = tool.spec().clone();
            let owner = tools.owner(spec.name.as_str()).cloned();
            set.insert(spec, Target::Tool(Arc::clone(tool)), owner, &mut problems);
        }
        for spec in external {
            set.insert(spec.clone(), Target::External, None, &mut problems);
        }
        set.seal();
        Ok((set, problems))
    }

    /// The same with the tools that the sources have now.
    pub(crate) async fn with_sources(&self, registry: &Registry) -> (Self, Vec<Error>) {
        let mut set = self.clone();
        let mut problems = Vec::new();
        let asked = registry.tool_sources().iter().map(|source| async move {
            let id = source.part.id().clone();
            let specs = guard::future(id.as_str(), source.part.tools()).await;
            let told = async { Ok(source.part.problems().await) };
            let told = guard::future(id.as_str(), told).await;
            (source, specs, told.unwrap_or_else(|error| vec![error]))
        });
        for (source, specs, told) in futures::future::join_all(asked).await {
            problems.extend(told);
            match specs {
                Ok(specs) => {
                    for spec in specs {
                        let target = Target::Source(Arc::clone(&source.part));
                        set.insert(spec, target, source.owner.clone(), &mut problems);
                    }
                }
                Err(error) => problems.push(
                    error
                        .operation("list tools")
                        .context("tool source", source.part.id()),
                ),
            }
        }
        set.seal();
        (set, problems)
    }

    fn insert(
        &mut self,
        spec: ToolSpec,
        target: Target,
        owner: Option<ExtensionId>,
        problems: &mut Vec<Error>,
    ) {
        let name = spec.name.clone();
        if self.entries.contains_key(&name) {
            problems.push(
                Error::new(
                    ErrorKind::AlreadyExists,
                    "a second tool of this name is left out",
                )
                .context("tool", &name),
            );
            return;
        }
        match ToolEntry::new(spec, target, owner) {
            Ok(entry) => {
                self.entries.insert(name, entry);
            }
            Err(error) => problems.push(error),
        }
    }

    fn seal(&mut self) {
        self.specs = self
            .entries
            .values()
            .map(|entry| entry.spec.clone())
            .collect();
    }

    /// What the model is shown, by name.
    pub(crate) fn specs(&self) -> Arc<[ToolSpec]> {
        Arc::clone(&self.specs)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&ToolEntry> {
        self.entries.get(name)
    }

    /// The words for a model that called a tool which isn't there.
    pub(crate) fn unknown(&self, name: &str) -> String {
        let names: Vec<_> = self.entries.keys().map(ToolName::as_str).collect();
        if names.is_empty() {
            return format!("There is no tool `{name}`: no tools are available.");
        }
        let nearest = nearest(name, names.iter().copied());
        let hint = nearest.map_or(String::new(), |near| format!(" Did you mean `{near}`?"));
        format!(
            "There is no tool `{name}`.{hint} The tools are: {}.",
            names.join(", ")
        )
    }
}

/// The name that is most like the one that was meant, if any is.
pub(crate) fn nearest<'a>(meant: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let meant = meant.to_lowercase();
    names
        .map(|name| {
            let lower = name.to_lowercase();
            let within = !meant.is_empty() && (lower.contains(&meant) || meant.contains(&lower));
            let alike = strsim::normalized_damerau_levenshtein(&meant, &lower);
            (if within { 1.0 + alike } else { alike }, name)
        })
        .filter(|(score, _)| *score > 0.5)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, name)| name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(schema: &str) -> Result<ToolEntry> {
        let spec = ToolSpec::new(ToolName::new("t").unwrap(), "").schema(schema)?;
        ToolEntry::new(spec, Target::External, None)
    }

    #[test]
    fn arguments_are_checked_against_the_schema() {
        let entry = entry(
            r#"{"type":"object","required":["path"],"additionalProperties":false,
                "properties":{"path":{"type":"string"},"n":{"type":"integer","minimum":1}}}"#,
        )
        .unwrap();
        let check = |arguments: &str, words: &[&str]| match entry.complaint(arguments) {
            None => assert!(words.is_empty(), "{arguments} was accepted"),
            Some(text) => {
                assert!(!words.is_empty(), "{arguments} was refused: {text}");
                words
                    .iter()
                    .for_each(|word| assert!(text.contains(word), "{text}"));
            }
        };
        check(r#"{"path":"a","n":1}"#, &[]);
        check(r#"{"n":0}"#, &["path", "/n"]);
        check(r#"{"path":1}"#, &["`/path`", "string"]);
        check(r#"{"path":"a","extra":1}"#, &["extra"]);
    }

    #[test]
    fn a_bad_schema_is_refused_by_name() {
        for schema in [r#"{"type":"no-such-type"}"#, r#"{"properties":[]}"#] {
            let error = entry(schema).err().expect(schema).to_string();
            assert!(error.contains("tool: t"), "{error}");
        }
    }

    #[test]
    fn the_nearest_name_is_offered() {
        let names = ["fs.search_files", "shell", "read_file"];
        let check = |meant: &str, expected: Option<&str>| {
            assert_eq!(nearest(meant, names.iter().copied()), expected, "{meant}");
        };
        check("search_files", Some("fs.search_files"));
        check("readfile", Some("read_file"));
        check("Shell", Some("shell"));
        check("purge_database", None);
    }
}
