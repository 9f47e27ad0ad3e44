//! Where a path leads.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};

/// As many as Linux itself follows.
const MAX_LINKS: usize = 40;

/// Where an absolute path leads once every link is followed and every `..` is
/// taken, whether or not there is anything. Past 40 links the rest is taken as
/// it is written.
///
/// This looks at the file system by path, so the answer may be stale when it is
/// used: it serves to explain, and to find a spelling without links, which is
/// then opened beneath a root like any other path.
pub(crate) fn leads_to(path: &Path) -> PathBuf {
    let mut at = PathBuf::new();
    let mut links = 0;
    let mut left: VecDeque<Step> = steps(path);
    while let Some(step) = left.pop_front() {
        match step {
            Step::Root(root) => at = root,
            Step::Up => {
                at.pop();
            }
            Step::Name(name) => {
                at.push(name);
                if links < MAX_LINKS
                    && let Ok(target) = std::fs::read_link(&at)
                {
                    links += 1;
                    at.pop();
                    for step in steps(&target).into_iter().rev() {
                        left.push_front(step);
                    }
                }
            }
        }
    }
    at
}

enum Step {
    Root(PathBuf),
    Up,
    Name(OsString),
}

fn steps(path: &Path) -> VecDeque<Step> {
    let mut root = PathBuf::new();
    let mut steps = VecDeque::new();
    for component in path.components() {
        match component {
            Component::Prefix(_) => root.push(component),
            Component::RootDir => {
                root.push(component);
                steps.push_back(Step::Root(root.clone()));
            }
            Component::CurDir => {}
            Component::ParentDir => steps.push_back(Step::Up),
            Component::Normal(name) => steps.push_back(Step::Name(name.to_owned())),
        }
    }
    steps
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn links_and_dots_are_followed_even_where_nothing_is() {
        let folder = tempfile::tempdir().unwrap();
        let base = folder.path().canonicalize().unwrap();
        std::fs::create_dir(base.join("a")).unwrap();
        symlink("../b", base.join("a/up")).unwrap();
        symlink("/nowhere/at/all", base.join("away")).unwrap();
        symlink("loop", base.join("loop")).unwrap();
        let check = |path: &str, expected: &str| {
            assert_eq!(leads_to(&base.join(path)), base.join(expected), "{path}");
        };
        check("a/./x/../y", "a/y");
        check("a/up/z", "b/z");
        check("away/q", "/nowhere/at/all/q");
        check("loop", "loop");
        assert_eq!(leads_to(Path::new("/../../etc")), Path::new("/etc"));
    }
}
