//! A plug-in's start: its own extensions, served within a runtime of its own.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::server::Enter;
use super::task::caught;
use super::wire::Hello;
use super::{EndpointRef, connect, export, is_compatible, serve_extensions};
use crate::error::{Error, ErrorKind, Result};

/// Code of a plug-in runs on the host's threads, and expects the timers, the
/// sockets and the `spawn` of the tokio that it was linked with.
struct InRuntime(Handle);

impl Enter for InRuntime {
    fn enter(&self, run: &mut dyn FnMut()) {
        let _entered = self.0.enter();
        run();
    }
}

/// Makes an instance that serves all extensions linked into this shared object.
pub(super) fn start(host: EndpointRef, host_minor: u32, config: &[u8]) -> Result<EndpointRef> {
    // There is one minor version yet, so nothing depends on it.
    let _ = host_minor;
    let Hello { api_version } = serde_json::from_slice(config)
        .map_err(|e| Error::new(ErrorKind::Corrupt, format!("the host's greeting: {e}")))?;
    if !is_compatible(&api_version) {
        return Err(Error::new(
            ErrorKind::Unsupported,
            "the host was built with an incompatible version of haft-api",
        )
        .context("wanted", crate::API_VERSION)
        .context("offered", api_version));
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .thread_name("haft-plugin")
        .enable_all()
        .build()
        .map_err(|e| Error::io(e, "the plug-in's runtime can't be started"))?;
    let enter = Arc::new(InRuntime(runtime.handle().clone()));

    let extensions = crate::linked_extensions()
        .into_iter()
        .map(|linked| {
            caught(|| (linked.make)()).map_err(|text| {
                Error::new(ErrorKind::Unexpected, text)
                    .operation("make an extension")
                    .context("type", linked.name)
                    .context("package", linked.package)
            })
        })
        .collect::<Result<_>>()?;
    // Closing happens on a thread of the host's, which may not block.
    let on_close = Box::new(move || runtime.shutdown_background());
    let server = serve_extensions(extensions, connect(host)?, Some(enter), on_close)?;
    Ok(export(server))
}
