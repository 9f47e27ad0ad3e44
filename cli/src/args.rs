//! The command line's grammar.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use haft_api::PolicyMode;
use haft_import::Format;
use serde::Deserialize;

mod report;

pub(crate) use report::report;

/// An agent in your terminal whose every part plugs in.
#[derive(Debug, Parser)]
#[command(
    name = "haft",
    version,
    max_term_width = 100,
    arg_required_else_help = true
)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) place: PlaceArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// Where Haft's own things are.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct PlaceArgs {
    /// Folder of threads, models and spilled output [env: HAFT_HOME]
    #[arg(long, global = true, value_name = "DIR")]
    pub(crate) home: Option<PathBuf>,
    /// Configuration to read in place of the user's own
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Run one turn
    Run(RunArgs),
    /// Talk, turn by turn
    Chat(ChatArgs),
    /// Look after threads
    #[command(subcommand)]
    Threads(ThreadsCommand),
    /// Run tools without a model
    #[command(subcommand)]
    Tools(ToolsCommand),
    /// Look at extensions
    #[command(subcommand)]
    Ext(ExtCommand),
    /// List engines, their models, which are ready and why the others aren't
    Engines(EnginesArgs),
    /// Fetch weights and the server for the embedded engine
    #[command(subcommand)]
    Models(ModelsCommand),
    /// Say what works here and what doesn't, each with the reason
    Doctor(DoctorArgs),
}

#[derive(Debug, Args)]
pub(crate) struct RunArgs {
    /// What to say; "-" reads it from standard input
    pub(crate) prompt: String,
    #[command(flatten)]
    pub(crate) turn: TurnArgs,
}

#[derive(Debug, Args)]
pub(crate) struct ChatArgs {
    #[command(flatten)]
    pub(crate) turn: TurnArgs,
}

/// How turns are run.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TurnArgs {
    /// The engine; the first one that is ready by default (see `haft engines`)
    #[arg(long, value_name = "ID")]
    pub(crate) engine: Option<String>,
    /// The model; the engine's default one by default
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    /// The folder to work in; the current one by default
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Continue this thread; "last" is the one changed last
    #[arg(long, value_name = "ID")]
    pub(crate) thread: Option<String>,
    /// What may happen without asking [default: ask]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) approve: Option<Approve>,
    /// Seconds after which running tools are cut off
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) deadline: Option<Duration>,
    /// Where tools run [default: local]
    #[arg(long, value_name = "ID")]
    pub(crate) runner: Option<String>,
    /// Load an extension: a Lua file, a folder with an init.lua, or the absolute path of a shared
    /// object (repeatable)
    #[arg(long, value_name = "PATH")]
    pub(crate) ext: Vec<PathBuf>,
    /// Download what the engine needs without asking
    #[arg(long)]
    pub(crate) yes: bool,
    /// Print events as JSON, one a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// What may happen without asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Approve {
    /// Reading is free; everything else is asked for
    #[default]
    Ask,
    /// Changing files is free, too; commands and the network are asked for
    Edits,
    /// Reading only; everything else is denied
    Plan,
    /// Everything is free
    All,
}

impl From<Approve> for PolicyMode {
    fn from(approve: Approve) -> Self {
        match approve {
            Approve::Ask => Self::Ask,
            Approve::Edits => Self::AcceptEdits,
            Approve::Plan => Self::Plan,
            Approve::All => Self::Bypass,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum ThreadsCommand {
    /// List threads, the one changed last first
    List {
        /// Most threads in the list
        #[arg(long, value_name = "N")]
        limit: Option<usize>,
        /// Go on where an earlier list ended
        #[arg(long, value_name = "CURSOR")]
        cursor: Option<String>,
        /// List those put away, too
        #[arg(long)]
        archived: bool,
        /// Print JSON, one thread a line
        #[arg(long)]
        json: bool,
    },
    /// Find threads by their titles and all that was said in them; status 1 if there are none
    Search {
        /// What to look for, in any case
        text: String,
        /// Look into those put away, too
        #[arg(long)]
        archived: bool,
        /// Print JSON, one finding a line
        #[arg(long)]
        json: bool,
    },
    /// Print a thread's items
    Show {
        /// The thread; "last" is the one changed last
        id: String,
        /// Print JSON, one item a line
        #[arg(long)]
        json: bool,
    },
    /// Write a thread in another form
    Export {
        /// The thread; "last" is the one changed last
        id: String,
        /// The form [default: markdown]
        #[arg(long, value_enum, value_name = "FORM")]
        format: Option<ExportFormat>,
        /// Short for --format replay: a script for the engine `replay`
        #[arg(long, conflicts_with = "format")]
        replay: bool,
    },
    /// Make a thread of another agent's session: a Codex rollout, Claude Code's or pi's JSONL
    Import {
        /// The session's file
        file: PathBuf,
        /// Whose it is (codex, claude-code, pi); told from the file by default
        #[arg(long, value_name = "FORMAT")]
        format: Option<Format>,
        /// Print JSON: the thread, and what could not be carried
        #[arg(long)]
        json: bool,
    },
    /// Give a thread another title
    Rename {
        /// The thread; "last" is the one changed last
        id: String,
        /// The title
        title: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Put a thread away: it is no longer listed
    Archive {
        /// The thread; "last" is the one changed last
        id: String,
        /// Take it back
        #[arg(long)]
        undo: bool,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Make a thread that goes on where another one stands
    Fork {
        /// The thread; "last" is the one changed last
        id: String,
        /// Go on from this record (`seq` in `haft threads show --json`)
        #[arg(long, value_name = "SEQ")]
        at: Option<u64>,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
    /// Read threads' logs and say what is amiss; status 1 if something was lost
    Check {
        /// The thread; "last" is the one changed last. All threads by default
        id: Option<String>,
        /// Print JSON, one finding a line
        #[arg(long)]
        json: bool,
    },
    /// Delete a thread
    Delete {
        /// The thread; "last" is the one changed last
        id: String,
        /// Print JSON
        #[arg(long)]
        json: bool,
    },
}

/// The forms in which a thread can be written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum ExportFormat {
    /// For people
    #[default]
    Markdown,
    /// Its items, one a line
    Jsonl,
    /// A script for the engine `replay`
    Replay,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ToolsCommand {
    /// List the tools that a model would have
    List {
        /// Print JSON, one tool a line
        #[arg(long)]
        json: bool,
        #[command(flatten)]
        place: ToolPlaceArgs,
    },
    /// Run a tool, or a batch of calls in one round
    Call(CallArgs),
}

#[derive(Debug, Args)]
pub(crate) struct CallArgs {
    /// The tool
    #[arg(required_unless_present = "batch")]
    pub(crate) name: Option<String>,
    /// Its arguments, a JSON object; "-" reads them from standard input
    pub(crate) json_arguments: Option<String>,
    /// Run the calls of this file (`{"name", "arguments"}` a line; "-" is
    /// standard input), and print one JSON result a line
    #[arg(long, value_name = "FILE", conflicts_with_all = ["name", "json_arguments"])]
    pub(crate) batch: Option<PathBuf>,
    /// What may happen; what would be asked is denied [default: all]
    #[arg(long, value_enum, value_name = "MODE")]
    pub(crate) approve: Option<Approve>,
    /// Seconds after which running tools are cut off
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) deadline: Option<Duration>,
    /// Print the result as JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) place: ToolPlaceArgs,
}

/// Where tools work.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct ToolPlaceArgs {
    /// The folder to work in; the current one by default
    #[arg(long, value_name = "DIR")]
    pub(crate) workspace: Option<PathBuf>,
    /// Where tools run [default: local]
    #[arg(long, value_name = "ID")]
    pub(crate) runner: Option<String>,
    /// Load an extension: a Lua file, a folder with an init.lua, or the absolute path of a shared
    /// object (repeatable)
    #[arg(long, value_name = "PATH")]
    pub(crate) ext: Vec<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ExtCommand {
    /// List the extensions of this program, and those that your configuration loads
    List {
        /// Print JSON, one extension a line
        #[arg(long)]
        json: bool,
    },
    /// Make a new extension: a folder with a tool and a test of it
    New {
        #[command(flatten)]
        language: Language,
        /// Its name, and the folder's
        name: String,
    },
    /// Say what an extension has and what is wrong with it. A script is loaded and its tests are
    /// run; of a shared object nothing runs
    Check {
        /// A Lua file, a folder with an init.lua, or the absolute path of a shared object
        path: PathBuf,
    },
}

/// What an extension is written in.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub(crate) struct Language {
    /// In Rust: a package to link or to load as a shared object
    #[arg(long)]
    pub(crate) rust: bool,
    /// In Lua
    #[cfg(feature = "lua")]
    #[arg(long)]
    pub(crate) lua: bool,
}

#[derive(Debug, Args)]
pub(crate) struct EnginesArgs {
    /// Print JSON, one engine a line
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum ModelsCommand {
    /// List the models of the embedded engine
    List {
        /// Print JSON, one model a line
        #[arg(long)]
        json: bool,
    },
    /// Fetch a model and the server that runs it
    Get {
        /// The model's name
        name: String,
        /// Don't ask before the download
        #[arg(long)]
        yes: bool,
    },
}

#[derive(Debug, Args)]
pub(crate) struct DoctorArgs {
    /// Print JSON, one finding a line
    #[arg(long)]
    pub(crate) json: bool,
}

/// A time in seconds, more than nothing and at most a year.
pub(crate) fn seconds(text: &str) -> Result<Duration, String> {
    const YEAR: f64 = 365.0 * 86_400.0;
    match text.parse::<f64>() {
        Ok(seconds) if seconds > 0.0 && seconds <= YEAR => Ok(Duration::from_secs_f64(seconds)),
        Ok(_) => Err("it must be more than 0 and at most a year".to_owned()),
        Err(_) => Err("it isn't a number of seconds".to_owned()),
    }
}

#[cfg(test)]
mod tests;
