//! The start of a plug-in: how a host calls it and, with the feature `dylib`,
//! what it finds.

use std::ffi::c_void;

use super::import::EndpointRef;
use super::{borrow, lend};
use crate::boundary::abi::{ABI_MINOR, HaftBytes, HaftPlugin, HaftText, PluginInit};
use crate::boundary::message::MessageRef;
use crate::error::{Error, ErrorKind, Result};

unsafe extern "C" fn collect(data: *mut c_void, text: HaftBytes) {
    // SAFETY: lent for this call.
    let text = unsafe { borrow(text) }.unwrap_or_default();
    // SAFETY: `start` put a vector of its own there, which nobody else uses
    // while `init` runs.
    unsafe { &mut *data.cast::<Vec<u8>>() }.extend_from_slice(text);
}

/// Makes an instance of a plug-in, and returns what it offers. `host` is what
/// the host offers; `config` is JSON.
///
/// # Errors
/// What the plug-in says, or that it offers nothing usable.
///
/// # Safety
/// `plugin` points to a [`HaftPlugin`] that keeps to its documentation, in a
/// shared object that is never unloaded. Its `size` says that `init` is there.
pub unsafe fn start(
    plugin: *const HaftPlugin,
    host: EndpointRef,
    config: &[u8],
) -> Result<EndpointRef> {
    // SAFETY: `init` is there: the caller's promise.
    let init: Option<PluginInit> = unsafe { (&raw const (*plugin).init).read() };
    let init = init.ok_or_else(|| {
        Error::new(
            ErrorKind::Corrupt,
            "the plug-in has no function to start it",
        )
    })?;
    let mut text: Vec<u8> = Vec::new();
    let error = HaftText {
        data: (&raw mut text).cast(),
        write: Some(collect),
    };
    let mut out = std::ptr::null();
    // SAFETY: all that is lent is there until it returns, and `host` for ever.
    let status = unsafe {
        init(
            host.as_ptr(),
            ABI_MINOR,
            lend(config),
            &raw mut out,
            &raw const error,
        )
    };
    if status == 0 {
        // SAFETY: what a plug-in offers lives for ever: its promise.
        return unsafe { EndpointRef::of_other_side(out) };
    }
    let read = MessageRef {
        json: &text,
        blob: &[],
    };
    let error = match serde_json::from_slice::<serde_json::Value>(&text) {
        Ok(serde_json::Value::Object(_)) => read.read_error(),
        _ if text.is_empty() => Error::new(ErrorKind::Unexpected, "it doesn't say why"),
        _ => Error::new(ErrorKind::Unexpected, String::from_utf8_lossy(&text)),
    };
    Err(error.context("status", status))
}

#[cfg(feature = "dylib")]
mod guest {
    use super::*;
    use crate::boundary::abi::{HaftEndpoint, HaftPluginHead};
    use crate::boundary::guest;
    use crate::boundary::message::error_json;

    /// What a host looks for: its name and layout are the ABI.
    #[unsafe(no_mangle)]
    #[used]
    static HAFT_PLUGIN_V1: HaftPlugin = HaftPlugin {
        head: HaftPluginHead::of_this_crate(env!("HAFT_BUILD_INFO")),
        init: Some(init),
    };

    unsafe extern "C" fn init(
        host: *const HaftEndpoint,
        host_minor: u32,
        config: HaftBytes,
        out: *mut *const HaftEndpoint,
        error: *const HaftText,
    ) -> i32 {
        let start = || {
            // SAFETY: what a host offers lives for ever: its promise.
            let host = unsafe { EndpointRef::of_other_side(host) }?;
            // SAFETY: lent for this call.
            let config = unsafe { borrow(config) }.unwrap_or_default();
            guest::start(host, host_minor, config)
        };
        let started = std::panic::catch_unwind(start).unwrap_or_else(|panic| {
            let text = crate::extension::panic_message(&*panic);
            // Dropping what was thrown could throw again.
            std::mem::forget(panic);
            Err(Error::new(ErrorKind::Unexpected, text).operation("init"))
        });
        match started {
            Ok(endpoint) => {
                // SAFETY: the host has a place for it.
                unsafe { out.write(endpoint.as_ptr()) };
                0
            }
            Err(failure) => {
                // SAFETY: null, or lent for this call.
                if let Some(HaftText {
                    data,
                    write: Some(write),
                }) = unsafe { error.as_ref() }
                {
                    // SAFETY: the function belongs to this `data`; the text is
                    // there until it returns.
                    unsafe { write(*data, lend(&error_json(&failure))) };
                }
                1
            }
        }
    }
}
