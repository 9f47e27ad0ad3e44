//! Tools' names on the wire.
//!
//! The wire takes 1 to 64 of letters, digits, `_` and `-`; a tool may be called
//! `server.read`, and a model may have called what is no tool at all. The name
//! on the wire is a function of the name alone, so that a thread's old calls
//! are the same bytes whatever tools there are now.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use haft_api::{Error, ErrorKind, Result, ToolSpec};

const MAX: usize = 64;

/// How a dot is written.
const DOT: &str = "_-";

/// A name as the wire takes it.
pub fn wire_name(name: &str) -> Cow<'_, str> {
    let fits = |text: &str| {
        (1..=MAX).contains(&text.len())
            && text
                .bytes()
                .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-'))
    };
    if !name.contains(DOT) {
        if fits(name) {
            return Cow::Borrowed(name);
        }
        let dotted = name.replace('.', DOT);
        if fits(&dotted) {
            return Cow::Owned(dotted);
        }
    }
    let mut short: String = name
        .chars()
        .map(|c| match c {
            c if c.is_ascii_alphanumeric() || matches!(c, '_' | '-') => c,
            _ => '_',
        })
        .take(MAX - 9)
        .collect();
    short.push_str(&format!("_{:08x}", fnv1a(name)));
    Cow::Owned(short)
}

/// FNV-1a of 32 bits: stable for ever, which the standard library's isn't.
fn fnv1a(text: &str) -> u32 {
    text.bytes().fold(0x811c_9dc5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

/// The way back, for the tools of a request.
#[derive(Debug, Clone, Default)]
pub struct ToolNames {
    /// Names on the wire that differ from the tools' own.
    renamed: Arc<HashMap<String, String>>,
}

impl ToolNames {
    /// The names of these tools.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if two tools have one name on the wire.
    pub fn of(tools: &[ToolSpec]) -> Result<Self> {
        let mut renamed = HashMap::new();
        let mut taken = HashSet::new();
        for tool in tools {
            let own = tool.name.as_str();
            let wire = wire_name(own);
            if let Cow::Owned(wire) = &wire {
                renamed.insert(wire.clone(), own.to_owned());
            }
            if let Some(wire) = taken.replace(wire) {
                return Err(Error::new(
                    ErrorKind::InvalidInput,
                    format!(
                        "the tool `{own}` is `{wire}` to this server, and so is another one: \
                         rename one of the two"
                    ),
                ));
            }
        }
        Ok(Self {
            renamed: Arc::new(renamed),
        })
    }

    /// A tool's own name. What names no tool is left as it is.
    pub fn original<'a>(&'a self, wire: &'a str) -> &'a str {
        self.renamed.get(wire).map_or(wire, String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use haft_api::ToolName;

    use super::*;

    fn tools(names: &[&str]) -> Vec<ToolSpec> {
        names
            .iter()
            .map(|name| ToolSpec::new(ToolName::new(name).unwrap(), "d"))
            .collect()
    }

    #[test]
    fn names_on_the_wire() {
        let check = |name: &str, expected: &str| assert_eq!(wire_name(name), expected);
        check("read_file-2", "read_file-2");
        check("fs.read", "fs_-read");
        check("a.b.c", "a_-b_-c");
        check("fs_-read", "fs_-read_b8b56122");
        check("", "_811c9dc5");
        check("read file\n", "read_file__08adcf81");
        check("é", "__1e9de8c1");
        check(&"x".repeat(64), &"x".repeat(64));
        let long = wire_name(&"x".repeat(65)).into_owned();
        assert!(long.len() == 64 && long.starts_with("xxx"), "{long}");
        assert_ne!(long, wire_name(&"x".repeat(66)));
    }

    #[test]
    fn the_way_back_finds_every_tool() {
        let names = ["read", "fs.read", "fs_-read", &"y.".repeat(60)];
        let map = ToolNames::of(&tools(&names)).unwrap();
        for name in names {
            assert_eq!(map.original(&wire_name(name)), name);
        }
        assert_eq!(map.original("no_tool"), "no_tool");
    }

    #[test]
    fn two_tools_of_one_name_on_the_wire_are_refused() {
        let long = "x".repeat(65);
        let error = ToolNames::of(&tools(&[&long, &wire_name(&long)])).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        assert!(error.to_string().contains("rename"), "{error}");
    }
}
