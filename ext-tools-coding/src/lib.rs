#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod config;
mod contents;
mod edit;
mod glob;
mod grep;
mod list;
mod paths;
mod read;
mod shell;
mod told;
mod walk;
mod write;

use std::sync::Arc;

use haft_api::{
    Extension, ExtensionConfig, ExtensionRegistryBuilder, Manifest, Result, ToolContributor,
    ToolRegistry, export_extension,
};

pub use config::CodingToolsConfig;

/// The coding tools: `read_file`, `write_file`, `edit`, `list_files`, `glob`,
/// `grep` and `shell`.
///
/// ```
/// use haft_api::{ToolContributor as _, ToolRegistry};
/// use haft_ext_tools_coding::CodingTools;
///
/// let mut tools = ToolRegistry::new();
/// CodingTools::default().contribute(&mut tools)?;
/// let names: Vec<String> = tools.iter().map(|tool| tool.spec().name.to_string()).collect();
/// assert_eq!(names, ["edit", "glob", "grep", "list_files", "read_file", "shell", "write_file"]);
/// # Ok::<(), haft_api::Error>(())
/// ```
#[derive(Debug, Clone, Default)]
pub struct CodingTools {
    config: CodingToolsConfig,
}

impl CodingTools {
    /// The tools with these settings.
    ///
    /// # Errors
    /// [`haft_api::ErrorKind::InvalidInput`], naming the key that isn't right.
    pub fn new(config: CodingToolsConfig) -> Result<Self> {
        config.check()?;
        Ok(Self { config })
    }
}

impl ToolContributor for CodingTools {
    fn contribute(&self, tools: &mut ToolRegistry) -> Result<()> {
        tools.add(Arc::new(read::ReadFile::new()?))?;
        tools.add(Arc::new(write::WriteFile::new()?))?;
        tools.add(Arc::new(edit::Edit::new()?))?;
        tools.add(Arc::new(list::ListFiles::new()?))?;
        tools.add(Arc::new(glob::Glob::new()?))?;
        tools.add(Arc::new(grep::Grep::new()?))?;
        tools.add(Arc::new(shell::Shell::new(&self.config)?))
    }
}

/// Brings [`CodingTools`]; its settings are [`CodingToolsConfig`].
#[derive(Debug, Clone, Copy, Default)]
pub struct CodingToolsExtension;

impl Extension for CodingToolsExtension {
    fn manifest(&self) -> Result<Manifest> {
        Manifest::new(
            "tools-coding",
            env!("CARGO_PKG_VERSION"),
            "Tools that read, write, search and run",
        )
    }

    fn register(
        &self,
        config: &ExtensionConfig,
        registry: &mut ExtensionRegistryBuilder,
    ) -> Result<()> {
        registry.tools(Arc::new(CodingTools::new(config.parse()?)?));
        Ok(())
    }
}

export_extension!(CodingToolsExtension);
