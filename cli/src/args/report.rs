//! Says what is wrong with a command line, in one line.

use clap::error::ErrorKind;

/// Ends the program the way clap would (help and version go to standard
/// output), except that an error is one line. Returns the exit status.
pub(crate) fn report(error: &clap::Error) -> Result<u8, String> {
    match error.kind() {
        ErrorKind::DisplayHelp
        | ErrorKind::DisplayVersion
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            // Whoever closed the pipe doesn't want the rest.
            error.print().ok();
            Ok(u8::try_from(error.exit_code()).unwrap_or(crate::failure::USAGE))
        }
        _ => Err(line(&error.render().to_string())),
    }
}

/// Clap's paragraphs, up to its usage, as one line.
fn line(rendered: &str) -> String {
    let mut parts = Vec::new();
    for line in rendered.lines().map(str::trim) {
        if let Some(usage) = line.strip_prefix("Usage: ") {
            // The command, without what it takes.
            let words: Vec<_> = usage
                .split(' ')
                .take_while(|word| !word.starts_with(['[', '<', '-']))
                .collect();
            parts.push(format!("see `{} --help`", words.join(" ")));
            break;
        }
        if line.starts_with("For more information") {
            break;
        }
        if !line.is_empty() {
            let line = line.strip_prefix("error: ").unwrap_or(line);
            let line = line.strip_prefix("tip: ").unwrap_or(line);
            parts.push(line.to_owned());
        }
    }
    // A list of missing arguments goes on in its lines.
    parts.join("; ").replace(":; ", ": ")
}
