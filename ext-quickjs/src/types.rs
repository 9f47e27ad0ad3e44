//! What scripts have besides the language: one table, from which the globals
//! are made and the types for editors are written.

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
pub(crate) const GLOBALS: &[Global] = &[
    global(
        "console",
        "",
        "/** Goes to the host's log, with the skill's name. */
declare const console: {
  debug(...values: unknown[]): void;
  trace(...values: unknown[]): void;
  log(...values: unknown[]): void;
  info(...values: unknown[]): void;
  warn(...values: unknown[]): void;
  error(...values: unknown[]): void;
  assert(fine: unknown, ...values: unknown[]): void;
};",
    ),
    global(
        "setTimeout",
        "",
        "declare function setTimeout(callback: (...args: any[]) => void, ms?: number, ...args: any[]): number;",
    ),
    global(
        "setInterval",
        "",
        "declare function setInterval(callback: (...args: any[]) => void, ms?: number, ...args: any[]): number;",
    ),
    global("clearTimeout", "", "declare function clearTimeout(timer?: number): void;"),
    global("clearInterval", "", "declare function clearInterval(timer?: number): void;"),
    global("queueMicrotask", "", "declare function queueMicrotask(callback: () => void): void;"),
    global(
        "performance",
        "",
        "declare const performance: {
  /** Milliseconds since the skill's runtime began; never goes back. */
  now(): number;
};",
    ),
    global(
        "DOMException",
        "",
        "declare class DOMException extends Error {
  constructor(message?: string, name?: string);
  readonly code: number;
}",
    ),
    global(
        "Event",
        "events",
        "declare class Event {
  constructor(type: string, init?: { cancelable?: boolean });
  readonly type: string;
  readonly target: EventTarget | null;
  readonly currentTarget: EventTarget | null;
  readonly cancelable: boolean;
  readonly defaultPrevented: boolean;
  readonly timeStamp: number;
  preventDefault(): void;
  stopPropagation(): void;
  stopImmediatePropagation(): void;
}",
    ),
    global(
        "CustomEvent",
        "events",
        "declare class CustomEvent<T = any> extends Event {
  constructor(type: string, init?: { cancelable?: boolean; detail?: T });
  readonly detail: T;
}",
    ),
    global(
        "MessageEvent",
        "events",
        "declare class MessageEvent extends Event {
  constructor(type: string, init?: { data?: any; origin?: string });
  readonly data: any;
  readonly origin: string;
}",
    ),
    global(
        "ErrorEvent",
        "events",
        "declare class ErrorEvent extends Event {
  constructor(type: string, init?: { message?: string; error?: any });
  readonly message: string;
  readonly error: any;
}",
    ),
    global(
        "EventTarget",
        "events",
        "type Listener = ((event: any) => void) | { handleEvent(event: any): void };
declare class EventTarget {
  addEventListener(type: string, callback: Listener | null, options?: boolean | { capture?: boolean; once?: boolean; passive?: boolean; signal?: AbortSignal }): void;
  removeEventListener(type: string, callback: Listener | null, options?: boolean | { capture?: boolean }): void;
  dispatchEvent(event: Event): boolean;
}",
    ),
    global(
        "AbortSignal",
        "events",
        "declare class AbortSignal extends EventTarget {
  static abort(reason?: any): AbortSignal;
  static timeout(ms: number): AbortSignal;
  static any(signals: Iterable<AbortSignal>): AbortSignal;
  readonly aborted: boolean;
  readonly reason: any;
  onabort: ((event: Event) => void) | null;
  throwIfAborted(): void;
}",
    ),
    global(
        "AbortController",
        "events",
        "declare class AbortController {
  readonly signal: AbortSignal;
  abort(reason?: any): void;
}",
    ),
    global(
        "TextEncoder",
        "encoding",
        "declare class TextEncoder {
  readonly encoding: string;
  encode(text?: string): Uint8Array;
  encodeInto(text: string, into: Uint8Array): { read: number; written: number };
}",
    ),
    global(
        "TextDecoder",
        "encoding",
        "declare class TextDecoder {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  readonly encoding: string;
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
  decode(data?: ArrayBuffer | ArrayBufferView, options?: { stream?: boolean }): string;
}",
    ),
    global("atob", "encoding", "declare function atob(text: string): string;"),
    global("btoa", "encoding", "declare function btoa(text: string): string;"),
    global(
        "URL",
        "url",
        "declare class URL {
  constructor(url: string | URL, base?: string | URL);
  static canParse(url: string | URL, base?: string | URL): boolean;
  static parse(url: string | URL, base?: string | URL): URL | null;
  href: string;
  readonly origin: string;
  protocol: string;
  username: string;
  password: string;
  host: string;
  hostname: string;
  port: string;
  pathname: string;
  search: string;
  hash: string;
  readonly searchParams: URLSearchParams;
  toString(): string;
  toJSON(): string;
}",
    ),
    global(
        "URLSearchParams",
        "url",
        "declare class URLSearchParams implements Iterable<[string, string]> {
  constructor(init?: string | Iterable<[string, string]> | Record<string, string>);
  readonly size: number;
  append(name: string, value: string): void;
  delete(name: string, value?: string): void;
  get(name: string): string | null;
  getAll(name: string): string[];
  has(name: string, value?: string): boolean;
  set(name: string, value: string): void;
  sort(): void;
  forEach(callback: (value: string, name: string, params: URLSearchParams) => void, self?: any): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
  toString(): string;
}",
    ),
    global(
        "structuredClone",
        "clone",
        "declare function structuredClone<T>(value: T, options?: { transfer?: ArrayBuffer[] }): T;",
    ),
    global(
        "crypto",
        "crypto",
        "declare const crypto: {
  getRandomValues<T extends ArrayBufferView>(array: T): T;
  randomUUID(): string;
  subtle: {
    /** SHA-1, SHA-256, SHA-384, SHA-512. */
    digest(algorithm: string | { name: string }, data: ArrayBuffer | ArrayBufferView): Promise<ArrayBuffer>;
  };
};",
    ),
    global(
        "Headers",
        "fetch",
        "type HeadersInit = Headers | Iterable<[string, string]> | Record<string, string>;
declare class Headers implements Iterable<[string, string]> {
  constructor(init?: HeadersInit);
  append(name: string, value: string): void;
  delete(name: string): void;
  get(name: string): string | null;
  getSetCookie(): string[];
  has(name: string): boolean;
  set(name: string, value: string): void;
  forEach(callback: (value: string, name: string, headers: Headers) => void, self?: any): void;
  entries(): IterableIterator<[string, string]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<string>;
  [Symbol.iterator](): IterableIterator<[string, string]>;
}",
    ),
    global(
        "Request",
        "fetch",
        "type BodyInit = string | ArrayBuffer | ArrayBufferView | URLSearchParams | null;
interface RequestInit {
  method?: string;
  headers?: HeadersInit;
  body?: BodyInit;
  redirect?: \"follow\" | \"error\" | \"manual\";
  signal?: AbortSignal;
}
declare class Request {
  constructor(input: string | URL | Request, init?: RequestInit);
  readonly method: string;
  readonly url: string;
  readonly headers: Headers;
  readonly redirect: string;
  readonly signal: AbortSignal;
  readonly bodyUsed: boolean;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
  text(): Promise<string>;
  json(): Promise<any>;
  clone(): Request;
}",
    ),
    global(
        "Response",
        "fetch",
        "declare class Response {
  constructor(body?: BodyInit, init?: { status?: number; statusText?: string; headers?: HeadersInit });
  static json(data: any, init?: { status?: number; statusText?: string; headers?: HeadersInit }): Response;
  static error(): Response;
  static redirect(url: string | URL, status?: number): Response;
  readonly status: number;
  readonly statusText: string;
  readonly ok: boolean;
  readonly url: string;
  readonly redirected: boolean;
  readonly type: string;
  readonly headers: Headers;
  readonly bodyUsed: boolean;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
  text(): Promise<string>;
  json(): Promise<any>;
  clone(): Response;
}",
    ),
    global(
        "fetch",
        "fetch",
        "/** Needs the grant `network` for the host, and for those it is redirected to. */
declare function fetch(input: string | URL | Request, init?: RequestInit): Promise<Response>;",
    ),
    global(
        "net",
        "fetch",
        "declare const net: {
  /** `timeout` is in milliseconds. */
  fetch(url: string, options?: { method?: string; headers?: Record<string, string>; body?: BodyInit; timeout?: number }): Promise<{ status: number; statusText: string; headers: Record<string, string>; body: string }>;
};",
    ),
    global(
        "state",
        "storage",
        "type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
/** Values that survive, and that the host can read and show. */
declare const state: {
  get(key: string): any;
  /** `undefined` deletes. */
  set(key: string, value: any): void;
  setPartial(values: Record<string, any>): void;
  delete(key: string): void;
  keys(): string[];
};",
    ),
    global(
        "db",
        "storage",
        "type SqlValue = null | boolean | number | bigint | string | Uint8Array;
type SqlRow = Record<string, any>;
/** A SQLite database of the skill's own, with FTS5. TEXT comes as a string, a BLOB as base64, an
 *  INTEGER beyond 2^53 as a bigint. */
declare const db: {
  /** Returns how many rows changed. Without parameters there may be several statements. */
  exec(sql: string, parameters?: SqlValue[]): number;
  /** The first row, or null. */
  get(sql: string, parameters?: SqlValue[]): SqlRow | null;
  all(sql: string, parameters?: SqlValue[]): SqlRow[];
  kvGet(key: string): any;
  kvSet(key: string, value: any): void;
};",
    ),
    global(
        "data",
        "storage",
        "/** Text files of the skill's own; null if there is none. */
declare const data: {
  read(path: string): string | null;
  write(path: string, text: string): void;
};",
    ),
    global(
        "fs",
        "storage",
        "/** Text files elsewhere, by the grants `read` and `write`. */
declare const fs: {
  read(path: string): string;
  write(path: string, text: string): void;
  list(path: string): string[];
};",
    ),
    global(
        "model",
        "model",
        "interface ModelOptions {
  /** What the model is told before everything else. */
  system?: string;
  temperature?: number;
  maxTokens?: number;
  stop?: string | string[];
  /** A JSON schema that the answer must follow, where the model can do that. */
  schema?: object;
  signal?: AbortSignal;
}
interface ModelAnswer {
  text: string;
  /** `end`, `length`, `content_filter`, or the provider's word. */
  finishReason: any;
  /** Tokens; they count as the turn's. */
  usage: { input?: number; cached?: number; output?: number; reasoning?: number };
  engine: string;
  model: string | null;
}
/** The model of the turn, asked by one of its tool calls; it sees nothing of the conversation.
 *  Needs the grant `model`, and policy is asked. */
declare const model: {
  /** The text that it answers. */
  generate(prompt: string, options?: ModelOptions): Promise<string>;
  summarize(text: string, options?: Omit<ModelOptions, \"system\"> & { maxWords?: number }): Promise<string>;
  /** As `generate`, with all that is known of the answer. */
  answer(prompt: string, options?: ModelOptions): Promise<ModelAnswer>;
};",
    ),
    global(
        "cron",
        "host",
        "/** Calls `onCronTrigger(id)` by the clock. Six fields: second, minute, hour, day of the month,
 *  month, day of the week; local time. */
declare const cron: {
  register(id: string, expression: string): void;
  unregister(id: string): boolean;
  list(): { id: string; expression: string; next: string }[];
};",
    ),
    global(
        "oauth",
        "host",
        "declare const oauth: {
  /** What the host was given by `oauth/complete`, or null. */
  getCredential(): any;
  /** `fetch` with the credential's access token. */
  fetch(url: string | URL, init?: RequestInit): Promise<Response>;
  revoke(): void;
};",
    ),
    global(
        "platform",
        "host",
        "declare const platform: {
  os(): string;
  /** Needs the grant `env`. */
  env(name: string): string | null;
  notify(title: string, body?: string): void;
};",
    ),
    global(
        "skills",
        "host",
        "declare const skills: {
  list(): { id: string; name: string; status: string; tools: string[] }[];
  /** Its own tools; another skill's by the grant `skills`. */
  callTool(skill: string, tool: string, args?: any): Promise<any>;
};",
    ),
];

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
    for global in GLOBALS {
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
        for global in GLOBALS {
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
