//! Requests, WebSockets, and the streams that bring and take them.

use super::{Global, global};

pub(super) const GLOBALS: &[Global] = &[
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
        "/** A stream is read to its end before anything is sent. */
type BodyInit = string | ArrayBuffer | ArrayBufferView | URLSearchParams | Blob | FormData | ReadableStream<Uint8Array> | null;
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
  readonly body: ReadableStream<Uint8Array> | null;
  readonly bodyUsed: boolean;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
  text(): Promise<string>;
  json(): Promise<any>;
  blob(): Promise<Blob>;
  formData(): Promise<FormData>;
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
  readonly body: ReadableStream<Uint8Array> | null;
  readonly bodyUsed: boolean;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
  text(): Promise<string>;
  json(): Promise<any>;
  blob(): Promise<Blob>;
  formData(): Promise<FormData>;
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
        "WebSocket",
        "websocket",
        "/** Needs the grant `network` for the host. */
declare class WebSocket extends EventTarget {
  static readonly CONNECTING: 0;
  static readonly OPEN: 1;
  static readonly CLOSING: 2;
  static readonly CLOSED: 3;
  /** `headers` are those of the request that opens it. */
  constructor(url: string | URL, options?: string | string[] | { protocols?: string | string[]; headers?: HeadersInit });
  readonly url: string;
  readonly readyState: 0 | 1 | 2 | 3;
  readonly protocol: string;
  readonly extensions: string;
  /** Bytes that wait to be sent; when there are too many, `send` throws a QuotaExceededError. */
  readonly bufferedAmount: number;
  binaryType: \"blob\" | \"arraybuffer\";
  onopen: ((event: Event) => void) | null;
  onmessage: ((event: MessageEvent) => void) | null;
  /** `message` says what went wrong. */
  onerror: ((event: ErrorEvent) => void) | null;
  onclose: ((event: CloseEvent) => void) | null;
  send(data: string | ArrayBuffer | ArrayBufferView | Blob): void;
  close(code?: number, reason?: string): void;
}",
    ),
    global(
        "CloseEvent",
        "events",
        "declare class CloseEvent extends Event {
  constructor(type: string, init?: { wasClean?: boolean; code?: number; reason?: string });
  readonly wasClean: boolean;
  readonly code: number;
  readonly reason: string;
}",
    ),
    global(
        "Blob",
        "blob",
        "type BlobPart = string | ArrayBuffer | ArrayBufferView | Blob;
declare class Blob {
  constructor(parts?: Iterable<BlobPart>, options?: { type?: string });
  readonly size: number;
  readonly type: string;
  bytes(): Promise<Uint8Array>;
  arrayBuffer(): Promise<ArrayBuffer>;
  text(): Promise<string>;
  slice(start?: number, end?: number, type?: string): Blob;
  stream(): ReadableStream<Uint8Array>;
}",
    ),
    global(
        "File",
        "blob",
        "declare class File extends Blob {
  constructor(parts: Iterable<BlobPart>, name: string, options?: { type?: string; lastModified?: number });
  readonly name: string;
  readonly lastModified: number;
}",
    ),
    global(
        "FormData",
        "blob",
        "type FormDataEntryValue = string | File;
declare class FormData implements Iterable<[string, FormDataEntryValue]> {
  constructor();
  append(name: string, value: string | Blob, filename?: string): void;
  set(name: string, value: string | Blob, filename?: string): void;
  delete(name: string): void;
  get(name: string): FormDataEntryValue | null;
  getAll(name: string): FormDataEntryValue[];
  has(name: string): boolean;
  forEach(callback: (value: FormDataEntryValue, name: string, form: FormData) => void, self?: any): void;
  entries(): IterableIterator<[string, FormDataEntryValue]>;
  keys(): IterableIterator<string>;
  values(): IterableIterator<FormDataEntryValue>;
  [Symbol.iterator](): IterableIterator<[string, FormDataEntryValue]>;
}",
    ),
    global(
        "ReadableStream",
        "streams",
        "interface QueuingStrategy<T = any> { highWaterMark?: number; size?(chunk: T): number }
interface UnderlyingSource<T = any> {
  type?: \"bytes\";
  start?(controller: ReadableStreamDefaultController<T>): any;
  pull?(controller: ReadableStreamDefaultController<T>): any;
  cancel?(reason: any): any;
}
interface StreamPipeOptions {
  preventClose?: boolean;
  preventAbort?: boolean;
  preventCancel?: boolean;
  signal?: AbortSignal;
}
declare class ReadableStream<T = any> implements AsyncIterable<T> {
  constructor(source?: UnderlyingSource<T>, strategy?: QueuingStrategy<T>);
  static from<T>(iterable: Iterable<T | Promise<T>> | AsyncIterable<T>): ReadableStream<T>;
  readonly locked: boolean;
  getReader(): ReadableStreamDefaultReader<T>;
  cancel(reason?: any): Promise<void>;
  tee(): [ReadableStream<T>, ReadableStream<T>];
  pipeTo(target: WritableStream<T>, options?: StreamPipeOptions): Promise<void>;
  pipeThrough<O>(through: { readable: ReadableStream<O>; writable: WritableStream<T> }, options?: StreamPipeOptions): ReadableStream<O>;
  values(options?: { preventCancel?: boolean }): AsyncGenerator<T, void>;
  [Symbol.asyncIterator](): AsyncGenerator<T, void>;
}",
    ),
    global(
        "ReadableStreamDefaultReader",
        "streams",
        "declare class ReadableStreamDefaultReader<T = any> {
  constructor(stream: ReadableStream<T>);
  readonly closed: Promise<void>;
  read(): Promise<{ done: false; value: T } | { done: true; value?: undefined }>;
  cancel(reason?: any): Promise<void>;
  releaseLock(): void;
}",
    ),
    global(
        "ReadableStreamDefaultController",
        "streams",
        "declare class ReadableStreamDefaultController<T = any> {
  private constructor();
  readonly desiredSize: number | null;
  readonly byobRequest: null;
  enqueue(chunk: T): void;
  close(): void;
  error(reason?: any): void;
}",
    ),
    global(
        "WritableStream",
        "streams",
        "interface UnderlyingSink<T = any> {
  start?(controller: WritableStreamDefaultController): any;
  write?(chunk: T, controller: WritableStreamDefaultController): any;
  close?(): any;
  abort?(reason: any): any;
}
declare class WritableStream<T = any> {
  constructor(sink?: UnderlyingSink<T>, strategy?: QueuingStrategy<T>);
  readonly locked: boolean;
  getWriter(): WritableStreamDefaultWriter<T>;
  close(): Promise<void>;
  abort(reason?: any): Promise<void>;
}",
    ),
    global(
        "WritableStreamDefaultWriter",
        "streams",
        "declare class WritableStreamDefaultWriter<T = any> {
  constructor(stream: WritableStream<T>);
  readonly closed: Promise<void>;
  readonly ready: Promise<void>;
  readonly desiredSize: number | null;
  write(chunk: T): Promise<void>;
  close(): Promise<void>;
  abort(reason?: any): Promise<void>;
  releaseLock(): void;
}",
    ),
    global(
        "WritableStreamDefaultController",
        "streams",
        "declare class WritableStreamDefaultController {
  private constructor();
  readonly signal: AbortSignal;
  error(reason?: any): void;
}",
    ),
    global(
        "TransformStream",
        "streams",
        "interface Transformer<I = any, O = any> {
  start?(controller: TransformStreamDefaultController<O>): any;
  transform?(chunk: I, controller: TransformStreamDefaultController<O>): any;
  flush?(controller: TransformStreamDefaultController<O>): any;
  cancel?(reason: any): any;
}
declare class TransformStream<I = any, O = any> {
  constructor(transformer?: Transformer<I, O>, writable?: QueuingStrategy<I>, readable?: QueuingStrategy<O>);
  readonly readable: ReadableStream<O>;
  readonly writable: WritableStream<I>;
}",
    ),
    global(
        "TransformStreamDefaultController",
        "streams",
        "declare class TransformStreamDefaultController<O = any> {
  private constructor();
  readonly desiredSize: number | null;
  enqueue(chunk: O): void;
  error(reason?: any): void;
  terminate(): void;
}",
    ),
    global(
        "CountQueuingStrategy",
        "streams",
        "declare class CountQueuingStrategy implements QueuingStrategy {
  constructor(options: { highWaterMark: number });
  readonly highWaterMark: number;
  readonly size: () => number;
}",
    ),
    global(
        "ByteLengthQueuingStrategy",
        "streams",
        "declare class ByteLengthQueuingStrategy implements QueuingStrategy<ArrayBufferView> {
  constructor(options: { highWaterMark: number });
  readonly highWaterMark: number;
  readonly size: (chunk: ArrayBufferView) => number;
}",
    ),
    global(
        "TextDecoderStream",
        "streams",
        "declare class TextDecoderStream extends TransformStream<ArrayBuffer | ArrayBufferView, string> {
  constructor(label?: string, options?: { fatal?: boolean; ignoreBOM?: boolean });
  readonly encoding: string;
  readonly fatal: boolean;
  readonly ignoreBOM: boolean;
}",
    ),
    global(
        "TextEncoderStream",
        "streams",
        "declare class TextEncoderStream extends TransformStream<string, Uint8Array> {
  constructor();
  readonly encoding: string;
}",
    ),
];
