//! What scripts have besides the language: one table, from which the globals
//! are made and the types for editors are written.

mod net;
mod own;
mod web;

use std::fmt::Write as _;

/// A global of every skill.
pub(crate) struct Global {
    pub(crate) name: &'static str,
    /// The piece of JavaScript that makes it when it is first touched; empty if
    /// it is there from the start.
    pub(crate) piece: &'static str,
    /// Its declaration.
    pub(crate) declared: &'static str,
}

const fn global(name: &'static str, piece: &'static str, declared: &'static str) -> Global {
    Global {
        name,
        piece,
        declared,
    }
}

/// The globals, in the order of the documentation.
pub(crate) fn globals() -> impl Iterator<Item = &'static Global> {
    [web::GLOBALS, net::GLOBALS, own::GLOBALS]
        .into_iter()
        .flatten()
}

const SKILL: &str = "/** What a tool is told of its call. */
interface ToolCallContext {
  readonly callId?: string;
  readonly tool?: string;
  readonly thread?: string;
  readonly turn?: string;
  /** Milliseconds since the epoch. */
  readonly deadline?: number | null;
  /** Aborted when the call is cancelled or its time is over. */
  readonly signal: AbortSignal;
  /** Shows text to whoever watches the call, and to the model. */
  progress(text: string): void;
}

type Effects = \"pure\" | \"reads\" | \"writes\" | \"commands\" | \"network\" | {
  workspace?: \"none\" | \"read\" | \"write\";
  runs_commands?: boolean;
  network?: boolean;
  destructive?: boolean;
  idempotent?: boolean;
};

interface Tool {
  name: string;
  description?: string;
  /** JSON Schema of the arguments. */
  inputSchema?: object;
  input_schema?: object;
  /** What it does to the world; `network` if left out. */
  effects?: Effects;
  timeout_ms?: number;
  execute(args: any, call: ToolCallContext): any;
}

interface Command {
  name: string;
  description?: string;
  execute(text: string, call: ToolCallContext): any;
}

/** What a script exports by default, or leaves as `globalThis.__skill`. */
interface Skill {
  tools?: Tool[];
  commands?: Command[];
  init?(): void | Promise<void>;
  start?(): void | Promise<void>;
  stop?(): void | Promise<void>;
  onLoad?(params: any): any;
  onPing?(): any;
  onSync?(): any;
  onTick?(): any;
  onCronTrigger?(id: string): any;
  onServerEvent?(event: string, data: any): any;
  onSetupStart?(): any;
  onSetupSubmit?(params: { stepId: string; values: any }): any;
  onSetupCancel?(): any;
  onListOptions?(): any;
  onSetOption?(option: { name: string; value: any }): any;
  onSessionStart?(session: { sessionId: string }): any;
  onSessionEnd?(session: { sessionId: string }): any;
  onOAuthComplete?(credential: any): any;
  onOAuthRevoked?(params: any): any;
  onError?(error: { type: string; message: string; source: string; recoverable: boolean }): any;
  onRpc?(call: { method: string; params: any }): any;
}
";

/// The types for editors, `haft.d.ts`: everything a skill has, for TypeScript's
/// `\"lib\": [\"ES2023\"]` without the DOM.
pub fn declarations() -> String {
    let mut text = String::from(
        "// What a skill of Haft has besides JavaScript itself. Written by the host; use it with\n\
         // { \"compilerOptions\": { \"lib\": [\"ES2023\"], \"types\": [] } }.\n\n",
    );
    text.push_str(SKILL);
    for global in globals() {
        // Writing to a string doesn't fail.
        writeln!(text, "\n{}", global.declared).ok();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_global_and_every_hook_is_declared() {
        let text = declarations();
        for global in globals() {
            let kinds = ["const", "function", "class"];
            let declared = kinds.iter().any(|kind| {
                let head = format!("declare {kind} {}", global.name);
                let at = text.find(&head).map(|at| at + head.len());
                at.and_then(|at| text[at..].chars().next())
                    .is_some_and(|next| !next.is_alphanumeric())
            });
            assert!(declared, "{}", global.name);
        }
        for hook in crate::rpc::HOOKS {
            assert!(text.contains(&format!("  {hook}?(")), "{hook}");
        }
    }
}
