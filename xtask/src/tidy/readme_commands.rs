//! Commands in README files exist.
//!
//! In fenced blocks of a shell, `cargo xtask TASK` must name a task, and
//! `haft …` (also as `cargo run … -- …`) a subcommand and flags that the sources
//! of the command line declare.

use std::collections::BTreeSet;

use super::Finding;
use super::files::Text;
use super::shell_words;
use super::source::Source;

/// What the `haft` binary understands, as its sources declare it to clap.
pub(super) struct CommandLine {
    subcommands: BTreeSet<String>,
    flags: BTreeSet<String>,
}

/// Checks one document.
pub(super) fn check(file: &Text, tasks: &[&str], haft: &CommandLine) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (line, text) in shell_lines(&file.text) {
        for command in shell_words::commands(&text) {
            if let Err(message) = check_command(&command, tasks, haft) {
                findings.push(Finding::new(&file.path, line, message));
            }
        }
    }
    findings
}

fn check_command(command: &[String], tasks: &[&str], haft: &CommandLine) -> Result<(), String> {
    let words: Vec<&str> = command
        .iter()
        .map(String::as_str)
        // A prompt, and settings for this command's environment.
        .skip_while(|word| *word == "$" || is_setting(word))
        .collect();
    match words.as_slice() {
        ["cargo", "xtask", task, ..] if !task.starts_with('-') => match tasks.contains(task) {
            true => Ok(()),
            false => Err(format!("`cargo xtask {task}`: there is no such task")),
        },
        ["cargo", "run", rest @ ..] => {
            let mut parts = rest.splitn(2, |word| *word == "--");
            let (options, arguments) = (parts.next().unwrap_or_default(), parts.next());
            let elsewhere = ["-p", "--package", "--bin", "--example", "--manifest-path"];
            let is_haft = !options.iter().any(|word| elsewhere.contains(word));
            match arguments {
                Some(arguments) if is_haft => haft.check(arguments),
                _ => Ok(()),
            }
        }
        [program, arguments @ ..] if program.rsplit('/').next() == Some("haft") => {
            haft.check(arguments)
        }
        _ => Ok(()),
    }
}

fn is_setting(word: &str) -> bool {
    let name = word.split_once('=').map_or("", |(name, _)| name);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
}

impl CommandLine {
    fn check(&self, arguments: &[&str]) -> Result<(), String> {
        let subcommand = arguments.first().filter(|word| !word.starts_with('-'));
        if let Some(name) = subcommand.filter(|name| !self.subcommands.contains(**name)) {
            return Err(format!(
                "`haft {name}`: the command line declares no such subcommand"
            ));
        }
        let flags = arguments.iter().take_while(|word| **word != "--");
        for flag in flags.filter_map(|word| word.strip_prefix("--")) {
            let flag = flag.split('=').next().unwrap_or_default();
            if !self.flags.contains(flag) {
                return Err(format!(
                    "`--{flag}`: the command line declares no such flag"
                ));
            }
        }
        Ok(())
    }

    /// Reads all `#[derive(Subcommand)]` enums and `#[arg(long)]` fields of the
    /// files below `folder`.
    pub(super) fn of_sources(sources: &[Source], folder: &str) -> Self {
        let mut this = Self {
            subcommands: BTreeSet::from(["help".to_owned()]),
            flags: BTreeSet::from(["help".to_owned(), "version".to_owned()]),
        };
        let sources = sources
            .iter()
            .filter(|source| source.path.starts_with(folder));
        for source in sources.filter(|source| !source.is_test) {
            for i in 0..source.tokens.len() {
                if source.reads(i, &["#", "[", "derive"]) {
                    let end = source.closing(i + 1);
                    if source.tokens[i..end]
                        .iter()
                        .any(|token| token.text == "Subcommand")
                    {
                        this.read_subcommands(source, end + 1);
                    }
                } else if source.reads(i, &["#", "[", "arg", "("]) {
                    this.read_flag(source, i);
                }
            }
        }
        this
    }

    /// Reads the enum that begins at `start`.
    fn read_subcommands(&mut self, source: &Source, start: usize) {
        let Some(offset) = source.tokens[start..]
            .iter()
            .position(|token| token.text == "{")
        else {
            return;
        };
        let mut i = start + offset + 1;
        let end = source.closing(i - 1);
        while i < end {
            let mut name = None;
            while source.reads(i, &["#", "["]) {
                let close = source.closing(i + 1);
                name = name.or(value_of(source, i, close, "name"));
                i = close + 1;
            }
            let variant = &source.tokens[i].text;
            self.subcommands
                .insert(name.unwrap_or_else(|| kebab_case(variant)));
            // Past the variant's own fields, to behind its comma.
            while i < end && source.tokens[i].text != "," {
                i = match source.tokens[i].text.as_str() {
                    "(" | "{" => source.closing(i) + 1,
                    _ => i + 1,
                };
            }
            i += 1;
        }
    }

    /// Reads the field under the `#[arg(…)]` at `start`.
    fn read_flag(&mut self, source: &Source, start: usize) {
        let end = source.closing(start + 1);
        if let Some(name) = value_of(source, start, end, "long") {
            self.flags.insert(name);
            return;
        }
        if !source.tokens[start..end]
            .iter()
            .any(|token| token.text == "long")
        {
            return;
        }
        // Over further attributes and the visibility, to the name before the colon.
        let mut i = end + 1;
        while source.reads(i, &["#", "["]) {
            i = source.closing(i + 1) + 1;
        }
        let colon = (i..source.tokens.len()).find(|at| source.reads(*at, &[":"]));
        if let Some(name) = colon.and_then(|colon| source.tokens.get(colon - 1)) {
            self.flags
                .insert(name.text.trim_start_matches("r#").replace('_', "-"));
        }
    }
}

/// The text that an attribute between two tokens gives to a key.
fn value_of(source: &Source, start: usize, end: usize, key: &str) -> Option<String> {
    let at = (start..end).find(|at| source.reads(*at, &[key, "="]))?;
    let text = &source.tokens.get(at + 2)?.text;
    Some(text.trim_matches('"').to_owned())
}

fn kebab_case(name: &str) -> String {
    let mut text = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.extend(c.to_lowercase());
    }
    text
}

/// The lines in shell blocks, lines that end in a backslash joined.
fn shell_lines(text: &str) -> Vec<(usize, String)> {
    let mut lines: Vec<(usize, String)> = Vec::new();
    let (mut fence, mut continued): (Option<bool>, bool) = (None, false);
    for (index, line) in text.lines().enumerate() {
        if let Some(info) = line.trim_start().strip_prefix("```") {
            let shell = ["sh", "bash", "console", "shell"].contains(&info.trim());
            fence = fence.is_none().then_some(shell);
            continued = false;
        } else if fence == Some(true) {
            let (part, more) = line
                .strip_suffix('\\')
                .map_or((line, false), |part| (part, true));
            match lines.last_mut().filter(|_| continued) {
                Some((_, text)) => text.push_str(part),
                None => lines.push((index + 1, part.to_owned())),
            }
            continued = more;
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = r#"
        #[derive(clap::Parser)]
        struct Cli {
            /// Where to work.
            #[arg(long, value_name = "DIR", global = true)]
            workspace: Option<PathBuf>,
            #[arg(long = "ext")]
            extensions: Vec<PathBuf>,
            #[arg(short)]
            quiet: bool,
            #[command(subcommand)]
            command: Command,
        }
        #[derive(Debug, clap::Subcommand)]
        enum Command {
            /// One turn.
            Run(RunArgs),
            #[command(name = "threads", alias = "t")]
            ThreadCommands { #[arg(long)] #[cfg(unix)] pub dry_run: bool, other: u8 },
            NewThing,
        }
    "#;

    fn haft() -> CommandLine {
        CommandLine::of_sources(&[Source::new("cli/src/args.rs", SOURCE)], "cli/src/")
    }

    #[test]
    fn the_command_line_is_read_from_its_sources() {
        let haft = haft();
        let words = |set: &BTreeSet<String>| set.iter().cloned().collect::<Vec<_>>().join(" ");
        assert_eq!(words(&haft.subcommands), "help new-thing run threads");
        assert_eq!(words(&haft.flags), "dry-run ext help version workspace");
    }

    fn findings(block: &str) -> Vec<String> {
        let text = format!("# Title\n```sh\n{block}\n```\n");
        let file = Text {
            path: "README.md".to_owned(),
            text,
        };
        check(&file, &["test", "tidy"], &haft())
            .iter()
            .map(ToString::to_string)
            .collect()
    }

    #[test]
    fn commands_that_exist_are_fine() {
        let good = |block: &str| assert_eq!(findings(block), [""; 0], "{block}");
        good("git clone https://example.org/haft && cd haft\ncargo build\nls --nonsense");
        good("cargo xtask test\ncargo xtask tidy # and a word\ncargo xtask --help");
        good("cargo run --release -- run --workspace x \"What does --nothing say?\"");
        good("cargo run -p other -- whatever --flag\ncargo run --release");
        good("$ haft threads show last --dry-run");
        good("OPENAI_API_KEY=x haft run --ext=a.so -- --anything\n./target/release/haft --version");
        good("haft run \\\n  --workspace x \\\n  hello");
    }

    #[test]
    fn others_are_found_with_their_line() {
        let bad = |block: &str, expected: &str| {
            let findings = findings(block);
            assert_eq!(findings.len(), 1, "{block}: {findings:?}");
            assert!(findings[0].starts_with(expected), "{findings:?}");
        };
        bad("cargo xtask deploy", "README.md:3: `cargo xtask deploy`");
        bad(
            "cd haft && cargo xtask deploy",
            "README.md:3: `cargo xtask deploy`",
        );
        bad("true\nhaft swim", "README.md:4: `haft swim`");
        bad("cargo run --release -- swim", "README.md:3: `haft swim`");
        bad("haft run --depth 3", "README.md:3: `--depth`");
        bad("true\nhaft run \\\n  --depth 3", "README.md:4: `--depth`");
    }

    #[test]
    fn only_shell_blocks_count() {
        let file = |text: &str| Text {
            path: "README.md".to_owned(),
            text: text.to_owned(),
        };
        let check = |text: &str| check(&file(text), &[], &haft()).len();
        assert_eq!(check("haft swim\n```text\nhaft swim\n```\nhaft swim\n"), 0);
        assert_eq!(
            check("```text\n```\n```console\n$ haft swim\n```\nhaft swim\n"),
            1
        );
    }
}
