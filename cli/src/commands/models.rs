//! `haft models`: weights and server for the embedded engine.

#[cfg(feature = "engine-local")]
mod fetch;

#[cfg(feature = "engine-local")]
pub(super) use fetch::{prepare, run};

#[cfg(not(feature = "engine-local"))]
mod absent {
    use haft::Registry;
    use haft_api::ExtensionId;

    use crate::args::{ModelsCommand, PlaceArgs, TurnArgs};
    use crate::config::Settings;
    use crate::console::Console;
    use crate::failure::{Failure, Outcome};

    pub(in crate::commands) fn run(_: &ModelsCommand, _: &PlaceArgs, _: &Console) -> Outcome {
        Err(Failure::usage(
            "this program was built without the embedded engine",
        ))
    }

    /// Nothing has to be fetched for other engines.
    pub(in crate::commands) async fn prepare(
        _: &Registry,
        _: &ExtensionId,
        _: &Settings,
        _: &TurnArgs,
        _: &Console,
    ) -> Outcome<()> {
        Ok(())
    }
}

#[cfg(not(feature = "engine-local"))]
pub(super) use absent::{prepare, run};
