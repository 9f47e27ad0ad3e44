//! Where a path leads, and whether it may.

use std::collections::VecDeque;

use haft_api::{Binding, Error, ErrorKind, Result};

/// Most links on one path.
const MAX_LINKS: usize = 40;

/// The folders that a session may touch.
#[derive(Debug, Clone)]
pub(super) struct Roots {
    pub(super) workspace: String,
    pub(super) read: Vec<String>,
}

/// What somebody wants to do at a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    Read,
    Write,
}

impl Roots {
    pub(super) fn new(binding: &Binding) -> Self {
        let tidy = |path: &String| match path.trim_end_matches('/') {
            "" => "/".to_owned(),
            path => path.to_owned(),
        };
        Self {
            workspace: tidy(&binding.workspace),
            read: binding.read_roots.iter().map(tidy).collect(),
        }
    }

    /// A path of a session as an absolute one; links are followed, the last
    /// one only if asked for. `link` says where a link leads.
    pub(super) fn resolve(
        &self,
        path: &str,
        access: Access,
        follow_last: bool,
        link: impl Fn(&str) -> Option<String>,
    ) -> Result<String> {
        if path.contains('\0') {
            return Err(invalid(path, "a path can't hold a NUL"));
        }
        let mut steps: VecDeque<String> = VecDeque::new();
        if !path.starts_with('/') {
            steps.extend(self.workspace.split('/').map(str::to_owned));
        }
        steps.extend(path.split('/').map(str::to_owned));
        let mut at: Vec<String> = Vec::new();
        let mut links = 0;
        while let Some(step) = steps.pop_front() {
            match step.as_str() {
                "" | "." => continue,
                ".." => {
                    at.pop();
                    continue;
                }
                _ => at.push(step),
            }
            let last = steps.iter().all(|step| step.is_empty() || step == ".");
            if last && !follow_last {
                continue;
            }
            let Some(target) = link(&join(&at)) else {
                continue;
            };
            links += 1;
            if links > MAX_LINKS {
                return Err(invalid(path, "too many links"));
            }
            at.pop();
            if target.starts_with('/') {
                at.clear();
            }
            for step in target.rsplit('/') {
                steps.push_front(step.to_owned());
            }
        }
        let resolved = join(&at);
        if self.allows(&resolved, access) {
            Ok(resolved)
        } else {
            Err(
                Error::new(ErrorKind::Denied, "the path leads out of the workspace")
                    .context("path", path)
                    .context("leads to", resolved),
            )
        }
    }

    fn allows(&self, path: &str, access: Access) -> bool {
        let within = |root: &str| {
            path == root
                || root == "/"
                || path.strip_prefix(root).is_some_and(|p| p.starts_with('/'))
        };
        within(&self.workspace) || (access == Access::Read && self.read.iter().any(|r| within(r)))
    }
}

fn join(steps: &[String]) -> String {
    format!("/{}", steps.join("/"))
}

pub(super) fn invalid(path: &str, problem: &str) -> Error {
    Error::new(ErrorKind::InvalidInput, problem).context("path", path.escape_default())
}
