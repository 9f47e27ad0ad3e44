//! `haft threads list`.

use std::io::Write as _;

use haft_api::{ListThreads, ThreadMetadata, unix_ms_now};
use serde::Serialize;

use crate::args::PlaceArgs;
use crate::commands::{opening, print};
use crate::console::Console;
use crate::failure::{DONE, Outcome};
use crate::render::{Style, age, visible, write_line};

/// The last line of a list that goes on.
#[derive(Serialize)]
struct Next<'a> {
    next: &'a str,
}

/// All threads, or a page of them.
pub(super) async fn list(
    place: &PlaceArgs,
    console: &Console,
    mut request: ListThreads,
    json: bool,
) -> Outcome {
    let (_, store) = opening::open_store(place).await?;
    let limit = request.limit;
    loop {
        let page = store.list(request.clone()).await?;
        for diagnostic in &page.diagnostics {
            console.say(&Style::new(console.colour).warning(&diagnostic.message));
        }
        let now = unix_ms_now();
        print(|out| {
            page.threads.iter().try_for_each(|thread| match json {
                true => write_line(out, thread),
                false => writeln!(out, "{}", line(thread, now)),
            })
        })?;
        match page.next {
            None => return Ok(DONE),
            Some(next) if limit.is_some() => {
                match json {
                    true => print(|out| write_line(out, &Next { next: &next }))?,
                    false => console.say(&format!("there are more: --cursor {next}")),
                }
                return Ok(DONE);
            }
            Some(next) => request = request.after(next),
        }
    }
}

fn line(thread: &ThreadMetadata, now: u64) -> String {
    let title = thread.title.as_deref().unwrap_or("(no title)");
    let title = visible(title);
    format!("{}  {:>8}  {title}", thread.id, age(now, thread.updated_ms))
}
