//! What the host has of its own.

use super::{Global, global};

pub(super) const GLOBALS: &[Global] = &[
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
