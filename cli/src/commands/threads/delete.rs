//! `haft threads delete`.

use haft_api::ThreadId;
use serde::Serialize;

use crate::args::PlaceArgs;
use crate::commands::{opening, print};
use crate::console::Console;
use crate::failure::{DONE, Outcome};
use crate::render::write_line;

#[derive(Serialize)]
struct Deleted {
    deleted: ThreadId,
}

pub(super) async fn delete(
    place: &PlaceArgs,
    console: &Console,
    name: &str,
    json: bool,
) -> Outcome {
    let (settings, store) = opening::open_store(place).await?;
    let deleted = opening::find_thread(&*store, name).await?.id;
    store.delete(&deleted).await?;
    // Long output of its tools goes with it.
    let spilled = settings.home.join("spill").join(deleted.as_str());
    if let Err(e) = std::fs::remove_dir_all(&spilled)
        && e.kind() != std::io::ErrorKind::NotFound
    {
        console.say(&format!("can't remove {}: {e}", spilled.display()));
    }
    match json {
        true => print(|out| write_line(out, &Deleted { deleted }))?,
        false => console.say(&format!("deleted {deleted}")),
    }
    Ok(DONE)
}
