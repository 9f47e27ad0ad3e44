//! An extension's own limits, where they differ from the host's.

use serde::Deserialize;

use crate::config::Limits;
use crate::head::declarations;

/// What one extension may use; what isn't said is as the host's [`Limits`] have
/// it.
///
/// An extension declares what it needs in comment lines at the head of its main
/// file, and the settings may say otherwise, one by one:
/// ```text
/// --@limits call_ms=600000 result_bytes=1048576
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[non_exhaustive]
pub struct OwnLimits {
    /// How long it may take to load, in milliseconds.
    pub load_ms: Option<u64>,
    /// How long a call may take, in milliseconds: of a tool that has no
    /// `timeout_ms` of its own, and of a command.
    pub call_ms: Option<u64>,
    /// How long a callback of a timer, an event or a stream may take, in
    /// milliseconds.
    pub callback_ms: Option<u64>,
    /// Most bytes of a result.
    pub result_bytes: Option<usize>,
    /// Most memory, in MiB, about: within the state's, and once half of that is
    /// used.
    pub memory_mib: Option<usize>,
}

impl OwnLimits {
    /// What the head of a script declares.
    ///
    /// # Errors
    /// A limit that isn't one, with its line.
    pub fn declared(source: &str) -> Result<Self, String> {
        let mut limits = Self::default();
        for (line, name, value) in declarations(source, "@limits") {
            let number = value
                .and_then(|value| value.parse::<u64>().ok())
                .filter(|number| *number > 0)
                .ok_or_else(|| {
                    format!("line {line}: the limit `{name}` takes a number, as in `{name}=1000`")
                })?;
            let size = usize::try_from(number).unwrap_or(usize::MAX);
            match name {
                "load_ms" => limits.load_ms = Some(number),
                "call_ms" => limits.call_ms = Some(number),
                "callback_ms" => limits.callback_ms = Some(number),
                "result_bytes" => limits.result_bytes = Some(size),
                "memory_mib" => limits.memory_mib = Some(size),
                _ => {
                    return Err(format!(
                        "line {line}: there is no limit `{name}`; there are load_ms, call_ms, \
                         callback_ms, result_bytes and memory_mib"
                    ));
                }
            }
        }
        Ok(limits)
    }

    /// These, and where they say nothing the others.
    pub(crate) fn or(self, others: Self) -> Self {
        Self {
            load_ms: self.load_ms.or(others.load_ms),
            call_ms: self.call_ms.or(others.call_ms),
            callback_ms: self.callback_ms.or(others.callback_ms),
            result_bytes: self.result_bytes.or(others.result_bytes),
            memory_mib: self.memory_mib.or(others.memory_mib),
        }
    }

    /// These limits in place of the host's.
    pub(crate) fn over(&self, host: Limits) -> Limits {
        Limits {
            load_ms: self.load_ms.unwrap_or(host.load_ms),
            call_ms: self.call_ms.unwrap_or(host.call_ms),
            callback_ms: self.callback_ms.unwrap_or(host.callback_ms),
            result_bytes: self.result_bytes.unwrap_or(host.result_bytes),
            extension_memory_mib: self.memory_mib.unwrap_or(host.extension_memory_mib),
            ..host
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_head_of_a_script_declares_limits() {
        let source = "-- a tool\n--@limits call_ms=900, memory_mib=8\n---@limits load_ms=7\n\
                      local x = 1\n--@limits callback_ms=1\n";
        let limits = OwnLimits::declared(source).unwrap().over(Limits::default());
        assert_eq!(
            (limits.call_ms, limits.load_ms, limits.callback_ms),
            (900, 7, Limits::default().callback_ms)
        );
        assert_eq!(limits.extension_memory_mib, 8);
        let check = |source: &str, words: &str| {
            let said = OwnLimits::declared(source).unwrap_err();
            assert!(said.contains(words), "{source}: {said}");
        };
        check("\n--@limits call_ms\n", "line 2: the limit `call_ms` takes");
        check("--@limits call_ms=-1", "takes a number");
        check("--@limits call_ms=0", "takes a number");
        check("--@limits wedge_ms=1", "no limit `wedge_ms`");
    }
}
