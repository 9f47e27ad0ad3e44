//! What a plug-in is lent of the host.

use std::sync::Arc;

use haft_api::ToolContext;
use haft_api::boundary::wire::ContextData;
use haft_api::boundary::{Enter, Lent, Link, Origin, Served};
use tokio::runtime::Handle;

/// Objects of the host may be called on a plug-in's own threads, where they
/// don't find the runtime that they expect.
struct InRuntime(Handle);

impl Enter for InRuntime {
    fn enter(&self, run: &mut dyn FnMut()) {
        let _entered = self.0.enter();
        run();
    }
}

/// Lends objects of the host to a plug-in.
#[derive(Clone)]
pub(crate) struct Lender {
    /// Where host code runs that was lent outside of any runtime.
    fallback: Option<Handle>,
}

impl Lender {
    pub(crate) fn new(fallback: Option<Handle>) -> Self {
        Self { fallback }
    }

    /// What is lent now runs in the runtime that it is lent from.
    fn origin(&self) -> Origin {
        let handle = Handle::try_current().ok().or_else(|| self.fallback.clone());
        let enter = handle.map(|handle| Arc::new(InRuntime(handle)) as Arc<dyn Enter>);
        Origin { owner: None, enter }
    }

    /// Objects to be lent for one call.
    pub(crate) fn begin(&self, link: &Arc<Link>) -> Lending {
        Lending {
            link: Arc::clone(link),
            origin: self.origin(),
            lent: Vec::new(),
        }
    }
}

/// The objects that are lent for one call.
pub(crate) struct Lending {
    link: Arc<Link>,
    origin: Origin,
    lent: Vec<Lent>,
}

impl Lending {
    /// Lends an object, and returns its number.
    pub(crate) fn lend(&mut self, object: Arc<dyn Served>) -> u64 {
        let lent = self.link.server().lend(object, self.origin.clone());
        let id = lent.id();
        self.lent.push(lent);
        id
    }

    /// A tool's context, with its objects lent.
    pub(crate) fn context(&mut self, context: ToolContext) -> ContextData {
        ContextData::new(context, |object| self.lend(object))
    }

    /// What has to be kept until the call's end.
    pub(crate) fn finish(self) -> Vec<Lent> {
        self.lent
    }
}
