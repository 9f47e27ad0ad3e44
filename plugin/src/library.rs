//! Opening a shared object. All unsafe code of this crate is in here.

use std::path::Path;

use haft_api::boundary::abi::{ENTRY_SYMBOL, HaftPlugin, HaftPluginHead};
use haft_api::boundary::{EndpointRef, start};

use crate::refusal::{Refusal, RefusalKind};

/// A shared object that was loaded, for ever.
pub(crate) struct Loaded {
    plugin: *const HaftPlugin,
}

/// Loads a shared object, for ever, and returns the address of its entry symbol.
#[cfg(unix)]
fn entry_symbol(path: &Path) -> Result<*const HaftPlugin, libloading::Error> {
    use std::mem::ManuallyDrop;

    use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};

    // SAFETY: constructors of the file run, and may do anything: whoever gave
    // the path has said that they may. The file is whole and for this machine,
    // so that the loader itself finds what it expects.
    let library = unsafe { Library::open(Some(path), RTLD_NOW | RTLD_LOCAL) }?;
    // Its code may be on any thread's stack from now on: it is never unloaded.
    let library = ManuallyDrop::new(library);
    // SAFETY: the symbol is only taken as an address.
    let symbol = unsafe { library.get::<*const HaftPlugin>(ENTRY_SYMBOL) }?;
    Ok(symbol.into_raw().cast_const().cast())
}

/// The checks before this refuse every file on such a system.
#[cfg(not(unix))]
fn entry_symbol(_: &Path) -> Result<*const HaftPlugin, libloading::Error> {
    Err(libloading::Error::DlOpenUnknown)
}

/// Loads a shared object whose file says that it is a plug-in with this head.
/// This runs its constructors.
pub(crate) fn open(path: &Path, head: &HaftPluginHead) -> Result<Loaded, Refusal> {
    let plugin = entry_symbol(path).map_err(|error| {
        // The system's text stands beneath the library's own error.
        let text = match std::error::Error::source(&error) {
            Some(system) => system.to_string(),
            None => error.to_string(),
        };
        let wanted = "a file that can be loaded";
        Refusal::new(RefusalKind::Open, path, wanted, text).source(error)
    })?;
    if plugin.is_null() || !plugin.is_aligned() {
        let what = "an entry symbol without an address";
        return Err(Refusal::new(RefusalKind::Changed, path, ENTRY_SYMBOL, what));
    }
    // SAFETY: the file says that this symbol is an object of at least that size.
    // If it was replaced meanwhile by a file of the same user, the comparison is
    // what notices.
    let loaded = unsafe { (&raw const (*plugin).head).read() };
    if loaded != *head {
        let shown = |head: &HaftPluginHead| format!("{} {}", head.api_version(), head.build_info());
        let (wanted, offered) = (shown(head), shown(&loaded));
        return Err(Refusal::new(RefusalKind::Changed, path, wanted, offered));
    }
    Ok(Loaded { plugin })
}

impl Loaded {
    /// Makes an instance of the plug-in.
    pub(crate) fn start(&self, host: EndpointRef, hello: &[u8]) -> haft_api::Result<EndpointRef> {
        // SAFETY: the head is that of a plug-in, in the file and in memory; its
        // size includes the function that starts it; it is never unloaded.
        unsafe { start(self.plugin, host, hello) }
    }
}
