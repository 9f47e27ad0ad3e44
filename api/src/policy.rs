//! Policy: what a turn may do without asking.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use crate::error::Result;
use crate::id::{ExtensionId, ThreadId, TurnId};
use crate::item::ToolCall;
use crate::tool::{Effects, WorkspaceAccess};

/// How much may happen without asking.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PolicyMode {
    /// Reading is free; everything else is asked for.
    #[default]
    Ask,
    /// Reading and changing files is free; commands and the network are asked for.
    AcceptEdits,
    /// Reading only; everything else is denied.
    Plan,
    /// Everything is free.
    Bypass,
}

impl PolicyMode {
    /// What the mode alone says to a call with these effects.
    ///
    /// ```
    /// use haft_api::{Decision, Effects, PolicyMode};
    ///
    /// assert_eq!(PolicyMode::Ask.decide(Effects::READS), Decision::Allow);
    /// assert!(matches!(PolicyMode::AcceptEdits.decide(Effects::COMMANDS), Decision::Ask { .. }));
    /// ```
    pub fn decide(self, effects: Effects) -> Decision {
        let edit_only = effects.workspace == WorkspaceAccess::Write
            && !effects.runs_commands
            && !effects.network
            && !effects.destructive;
        match self {
            _ if effects.is_read_only() => Decision::Allow,
            Self::Bypass => Decision::Allow,
            Self::AcceptEdits if edit_only => Decision::Allow,
            Self::Plan => Decision::Deny {
                reason: "plan mode allows reading only".to_owned(),
            },
            Self::Ask | Self::AcceptEdits => Decision::Ask {
                reason: describe(effects),
            },
        }
    }
}

fn describe(effects: Effects) -> String {
    let mut words = Vec::new();
    if effects.workspace == WorkspaceAccess::Write {
        words.push("changes files");
    }
    if effects.runs_commands {
        words.push("runs commands");
    }
    if effects.network {
        words.push("reaches the network");
    }
    if effects.destructive {
        words.push("may destroy data");
    }
    format!("the tool {}", words.join(", "))
}

/// What is to be done with a call. Ordered by tightness: of several decisions
/// the greatest holds.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(tag = "decision", rename_all = "snake_case")]
pub enum Decision {
    /// Run it.
    Allow,
    /// Ask somebody first.
    Ask {
        /// Why; shown to whoever is asked.
        reason: String,
    },
    /// Don't run it.
    Deny {
        /// Why; told to the model.
        reason: String,
    },
}

/// A call that is about to run.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[non_exhaustive]
pub struct PolicyRequest {
    /// The thread it belongs to.
    pub thread: ThreadId,
    /// The turn it belongs to.
    pub turn: TurnId,
    /// The call; its arguments are checked already.
    pub call: ToolCall,
    /// What the tool declares.
    pub effects: Effects,
    /// The extension the tool comes from; `None` is the host itself.
    pub extension: Option<ExtensionId>,
    /// The mode of the turn.
    pub mode: PolicyMode,
}

impl PolicyRequest {
    /// A request for a tool of the host's own.
    pub fn new(thread: ThreadId, turn: TurnId, call: ToolCall, effects: Effects) -> Self {
        Self {
            thread,
            turn,
            call,
            effects,
            extension: None,
            mode: PolicyMode::default(),
        }
    }
}

/// Has a say in what may run. It can only tighten: the mode's own decision and
/// all contributors' are combined, and the tightest holds. One that fails or
/// panics counts as a denial.
///
/// ```
/// use haft_api::*;
///
/// struct NoDotEnv(ExtensionId);
///
/// #[async_trait]
/// impl PolicyContributor for NoDotEnv {
///     fn id(&self) -> &ExtensionId {
///         &self.0
///     }
///     async fn review(&self, request: PolicyRequest) -> Result<Decision> {
///         Ok(if request.call.arguments.get().contains(".env") {
///             Decision::Deny { reason: "secrets stay where they are".to_owned() }
///         } else {
///             Decision::Allow
///         })
///     }
/// }
/// ```
#[async_trait]
#[diagnostic::on_unimplemented(
    message = "`{Self}` doesn't contribute to policy",
    note = "implement `haft_api::PolicyContributor` (with `#[haft_api::async_trait]`)"
)]
pub trait PolicyContributor: Send + Sync + 'static {
    /// The contributor's id. Constant.
    fn id(&self) -> &ExtensionId;

    /// Decides on a call.
    ///
    /// # Errors
    /// If it can't decide; the call is denied.
    async fn review(&self, request: PolicyRequest) -> Result<Decision>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_follow_declared_effects() {
        use Decision::{Allow, Ask, Deny};
        let word = |decision: Decision| match decision {
            Allow => "allow",
            Ask { .. } => "ask",
            Deny { .. } => "deny",
        };
        let check = |effects: Effects, expected: [&str; 4]| {
            let modes = [
                PolicyMode::Ask,
                PolicyMode::AcceptEdits,
                PolicyMode::Plan,
                PolicyMode::Bypass,
            ];
            assert_eq!(
                modes.map(|mode| word(mode.decide(effects))),
                expected,
                "{effects:?}"
            );
        };
        check(Effects::PURE, ["allow", "allow", "allow", "allow"]);
        check(Effects::READS, ["allow", "allow", "allow", "allow"]);
        check(Effects::WRITES, ["ask", "allow", "deny", "allow"]);
        check(Effects::COMMANDS, ["ask", "ask", "deny", "allow"]);
        check(Effects::NETWORK, ["ask", "ask", "deny", "allow"]);
        check(Effects::UNDECLARED, ["ask", "ask", "deny", "allow"]);
    }

    #[test]
    fn the_tightest_decision_is_the_greatest() {
        let ask = Decision::Ask {
            reason: "a".to_owned(),
        };
        let deny = Decision::Deny {
            reason: "b".to_owned(),
        };
        assert!(Decision::Allow < ask && ask < deny);
    }
}
