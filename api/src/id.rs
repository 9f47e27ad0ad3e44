//! Identifiers. Each is a type of its own, parsed once at the door.

use std::borrow::Borrow;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use serde::de::{self, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::error::{Error, ErrorKind, Result};

fn refuse(what: &str, text: &str, rule: &str) -> Error {
    let shown: String = text
        .chars()
        .take(80)
        .flat_map(char::escape_default)
        .collect();
    Error::new(
        ErrorKind::InvalidInput,
        format!("not a valid {what}: {rule}"),
    )
    .context(what, shown)
}

/// Parses a text where it stands, without a copy of its own.
struct Text<T>(fn(&str) -> Result<T>);

impl<T> Visitor<'_> for Text<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a string")
    }

    fn visit_str<E: de::Error>(self, text: &str) -> std::result::Result<T, E> {
        (self.0)(text).map_err(E::custom)
    }
}

macro_rules! id {
    ($(#[$doc:meta])* $name:ident, $what:literal, $rule:literal, $check:expr) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub struct $name(Arc<str>);

        impl $name {
            #[doc = concat!("Parses a ", $what, ": ", $rule, ".")]
            ///
            /// # Errors
            /// [`ErrorKind::InvalidInput`] for anything else; nothing is ever
            /// repaired or cut to fit.
            pub fn new(text: impl AsRef<str>) -> Result<Self> {
                let text = text.as_ref();
                let check: fn(&str) -> bool = $check;
                if check(text) { Ok(Self(text.into())) } else { Err(refuse($what, text, $rule)) }
            }

            /// The id's text.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> std::result::Result<S::Ok, S::Error> {
                to.serialize_str(&self.0)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(
                from: D,
            ) -> std::result::Result<Self, D::Error> {
                from.deserialize_str(Text(|text| $name::new(text)))
            }
        }
        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.pad(&self.0)
            }
        }
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:?}", &*self.0)
            }
        }
        impl FromStr for $name {
            type Err = Error;
            fn from_str(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }
        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(text: String) -> Result<Self> {
                Self::new(text)
            }
        }
        impl TryFrom<&str> for $name {
            type Error = Error;
            fn try_from(text: &str) -> Result<Self> {
                Self::new(text)
            }
        }
        impl From<$name> for String {
            fn from(id: $name) -> String {
                id.0.as_ref().to_owned()
            }
        }
        impl AsRef<str> for $name {
            fn as_ref(&self) -> &str {
                &self.0
            }
        }
        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
        impl PartialEq<str> for $name {
            fn eq(&self, other: &str) -> bool {
                &*self.0 == other
            }
        }
        impl PartialEq<&str> for $name {
            fn eq(&self, other: &&str) -> bool {
                &*self.0 == *other
            }
        }
    };
}

/// Names that Windows reserves for devices; a thread's folder can't bear one.
const DEVICE_NAMES: [&str; 4] = ["con", "prn", "aux", "nul"];

fn is_device_name(text: &str) -> bool {
    DEVICE_NAMES.contains(&text)
        || (text.len() == 4
            && (text.starts_with("com") || text.starts_with("lpt"))
            && text.ends_with(|c: char| c.is_ascii_digit()))
}

fn is_slug(text: &str, max: usize) -> bool {
    let word = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    (1..=max).contains(&text.len())
        && word(text.as_bytes()[0])
        && text.bytes().all(|c| word(c) || c == b'_' || c == b'-')
}

fn is_wire_name(text: &str, max: usize) -> bool {
    (1..=max).contains(&text.len())
        && text
            .bytes()
            .all(|c| c.is_ascii_alphanumeric() || matches!(c, b'_' | b'-' | b'.'))
}

id!(
    /// Names a thread. Safe as a folder's name on every system: lower case, no
    /// separators, no device names.
    ThreadId, "thread id", "1 to 64 of a-z, 0-9, _ and -, starting with a letter or digit, and no device name",
    |t| is_slug(t, 64) && !is_device_name(t)
);
id!(
    /// Names a turn within the whole runtime.
    TurnId, "turn id", "1 to 64 of a-z, 0-9, _ and -, starting with a letter or digit",
    |t| is_slug(t, 64)
);
id!(
    /// Names a tool call; unique within its thread, and fit for every provider's wire.
    CallId, "call id", "1 to 64 of letters, digits, _ and -",
    |t| is_wire_name(t, 64) && !t.contains('.')
);
id!(
    /// The name under which a model calls a tool.
    ToolName, "tool name", "1 to 128 of letters, digits, _, - and .",
    |t| is_wire_name(t, 128)
);
id!(
    /// Names an extension, an engine, a tool source, a runner provider or a store.
    ExtensionId, "extension id", "1 to 64 of a-z, 0-9, _ and -, starting with a letter or digit",
    |t| is_slug(t, 64)
);
id!(
    /// Names a runner's destination.
    DestinationId, "destination id", "1 to 128 of letters, digits, _, - and .",
    |t| is_wire_name(t, 128)
);
id!(
    /// Names a live sandbox, in its provider's own words.
    SessionId, "session id", "1 to 512 visible characters",
    |t| (1..=512).contains(&t.len()) && !t.chars().any(char::is_control)
);
id!(
    /// Names a process within a session; chosen by the caller.
    ProcessId, "process id", "1 to 64 of letters, digits, _, - and .",
    |t| is_wire_name(t, 64)
);
id!(
    /// Names a question that waits for an answer from outside: an approval, or
    /// an external tool call.
    RequestId, "request id", "1 to 128 of letters, digits, _, - and .",
    |t| is_wire_name(t, 128)
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thread_ids_are_parsed_never_repaired() {
        let check = |text: &str, valid: bool| {
            assert_eq!(ThreadId::new(text).is_ok(), valid, "{text:?}");
        };
        check("0199c0de-0000-7000-8000-000000000000", true);
        check("a", true);
        check("a_b-c9", true);
        check(&"x".repeat(64), true);
        for bad in [
            "",
            "../../../../outside/pwned",
            "/etc/x",
            "a/b",
            "..",
            ".",
            "CON",
            "con",
            "nul",
            "com1",
            "lpt9",
            "A",
            "-a",
            "_a",
            "a\0b",
            "a b",
            "ä",
            "a.b",
        ] {
            check(bad, false);
        }
        check(&"x".repeat(300), false);
        check(&"x".repeat(65), false);
    }

    #[test]
    fn ids_are_refused_when_read_from_json_too() {
        assert!(serde_json::from_str::<ThreadId>(r#""../x""#).is_err());
        assert_eq!(
            serde_json::from_str::<ToolName>(r#""fs.read""#).unwrap(),
            "fs.read"
        );
    }

    #[test]
    fn a_refusal_shows_the_text_without_raw_control_bytes() {
        let text = ThreadId::new("a\u{0}\u{1b}[31m").unwrap_err().to_string();
        assert!(
            !text.contains('\u{1b}') && text.contains("\\u{1b}"),
            "{text}"
        );
    }
}
