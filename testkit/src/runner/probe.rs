//! The programs that the conformance suite needs.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::program::{Program, ProgramIo, add};
use crate::Probe;

/// The command that does what a probe asks for. There are neither signals nor
/// grandchildren here.
pub(super) fn command(probe: &Probe) -> Option<Vec<String>> {
    let words: Vec<&str> = match probe {
        Probe::Print { stdout, stderr } => vec!["print", stdout, stderr],
        Probe::PrintFile(path) => vec!["cat", path],
        Probe::PrintVariable(name) => vec!["print-variable", name],
        Probe::Copy => vec!["cat"],
        Probe::Link { path, target } => vec!["link", target, path],
        Probe::Flood(bytes) => return Some(vec!["flood".to_owned(), bytes.to_string()]),
        Probe::Exit(code) => return Some(vec!["exit".to_owned(), code.to_string()]),
        Probe::Sleep(time) => {
            return Some(vec!["begin".to_owned(), time.as_millis().to_string()]);
        }
        Probe::WriteLater { file, after } => {
            let after = after.as_millis().to_string();
            return Some(["write-later", &after, file].map(str::to_owned).into());
        }
        _ => return None,
    };
    Some(words.into_iter().map(str::to_owned).collect())
}

/// A number among the arguments.
fn number<T: std::str::FromStr + Default>(io: &ProgramIo, place: usize) -> T {
    let text = io.argv.get(place);
    text.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn text(io: &ProgramIo, place: usize) -> &str {
    io.argv.get(place).map_or("", String::as_str)
}

pub(super) fn add_programs(programs: &mut BTreeMap<String, Arc<Program>>) {
    add(programs, "print", async |io: ProgramIo| {
        io.print(text(&io, 1));
        io.print_error(text(&io, 2));
        0
    });
    add(programs, "print-variable", async |io: ProgramIo| {
        io.print(io.env.get(text(&io, 1)).map_or("", String::as_str));
        0
    });
    add(programs, "exit", async |io: ProgramIo| number(&io, 1));
    add(programs, "link", async |io: ProgramIo| {
        io.sandbox.put_link(&io.path(text(&io, 2)), text(&io, 1));
        0
    });
    add(programs, "flood", async |io: ProgramIo| {
        let mut left: usize = number(&io, 1);
        while left > 0 {
            let piece = left.min(8192);
            io.print(vec![b'x'; piece]);
            left -= piece;
            tokio::task::yield_now().await;
        }
        0
    });
    add(programs, "begin", async |io: ProgramIo| {
        io.print("begun");
        tokio::time::sleep(Duration::from_millis(number(&io, 1))).await;
        0
    });
    add(programs, "write-later", async |io: ProgramIo| {
        tokio::time::sleep(Duration::from_millis(number(&io, 1))).await;
        io.write_file(text(&io, 2), "x");
        tokio::time::sleep(Duration::from_secs(60)).await;
        0
    });
}
