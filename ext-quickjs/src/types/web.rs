//! What every place that runs JavaScript has.

use super::{Global, global};

pub(super) const GLOBALS: &[Global] = &[
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
];
