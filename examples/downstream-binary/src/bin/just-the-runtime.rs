//! One turn in the runtime: no command, no configuration, nothing on the disk.
#![forbid(unsafe_code)]
#![deny(unused_crate_dependencies)]

use std::error::Error;

#[cfg(feature = "example")]
use extension_crate as _;
use haft::{Runtime, StoreOptions, ThreadOptions, TurnRequest};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn Error>> {
    let registry = haft::builder().build()?;
    let store = registry
        .store("ephemeral")
        .ok_or("the feature `example` is off")?;
    let store = store.open(StoreOptions::new("/nowhere")).await?;
    let runtime = Runtime::builder(registry).build(store)?;

    let thread = runtime.create_thread(ThreadOptions::default()).await?;
    let request = TurnRequest::text("Pieces of eight").engine("parrot".try_into()?);
    let turn = thread.start_turn(request).await?;
    println!("{}", turn.ended().await.answer);
    Ok(())
}
