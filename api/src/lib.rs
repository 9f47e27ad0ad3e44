//! The traits, data types and errors that every part of the Haft agent runtime
//! shares.
//!
//! An extension depends on this crate alone. It implements one or more of these
//! traits and hands them over in [`Extension::register`]:
//!
//! | trait | what it is |
//! |---|---|
//! | [`InferenceEngine`] | a model: streams the answer to a history |
//! | [`ToolContributor`], [`Tool`] | tools, one by one |
//! | [`ToolSource`] | many tools behind one door |
//! | [`RemoteRunnerProvider`], [`RemoteRunnerSession`], [`Lease`] | where side effects happen |
//! | [`ThreadStoreFactory`], [`ThreadStore`], [`ThreadWriter`] | where threads live |
//! | [`PolicyContributor`] | a say in what may run |
//! | [`EventSink`] | gets every event |
//!
//! What a tool call is given is its [`ToolContext`]: where output goes, the
//! workspace, and the turn's model ([`ModelService`]).
//!
//! # Rules for all traits
//! - Arguments and results are owned and serialisable, so that the same trait
//!   works within a process, across a shared object, or over a pipe.
//! - Dropping a future or a stream cancels what it stood for.
//! - Deadlines are points in time ([`Deadline`]), not durations.
//! - Synchronous methods return constants; [`RemoteRunnerSession::state`] and
//!   `release_process` are the exceptions.
//! - New methods come with a default body.
//! - Every failure is an [`Error`]; nothing panics on purpose, and the runtime
//!   catches what does.
//!
//! # Features
//! - `dylib`: makes a shared object of an extension crate a plug-in, by
//!   exporting the entry symbol that serves the extensions linked into it.
//! - `boundary`: the module of that name, for hosts and transports.
#![deny(unsafe_code)]

#[cfg(feature = "boundary")]
pub mod boundary;
mod context;
mod deadline;
mod engine;
mod error;
mod event;
mod extension;
mod id;
mod item;
mod known_json;
mod model;
mod policy;
mod record;
mod runner;
mod slash_command;
mod source;
mod store;
mod tool;

pub use async_trait::async_trait;

pub use context::{NoOutput, OutputChannel, OutputSink, ToolContext};
pub use deadline::{ANSWER_RESERVE, Deadline, command_timeout, unix_ms_now};
pub use engine::{
    EngineEvent, EngineMemo, EngineRequest, EngineStream, EngineToolCall, FinishReason, History,
    InferenceEngine, ModelInfo, ModelOptions, Readiness, ToolChoice, Usage, engine_stream,
};
pub use error::{Error, ErrorData, ErrorKind, ErrorStatus, Result};
pub use event::{Event, EventBody, EventSink};
#[doc(hidden)]
pub use extension::export;
pub use extension::{
    API_VERSION, Extension, ExtensionConfig, ExtensionRegistryBuilder, LinkedExtension, Manifest,
    Registered, Registry, linked_extensions, panic_message,
};
pub use id::{
    CallId, DestinationId, ExtensionId, ProcessId, RequestId, SessionId, ThreadId, ToolName, TurnId,
};
pub use item::{Item, NoticeLevel, Part, ProviderState, ToolCall, ToolResult, join_text, raw_json};
pub use known_json::known_json;
pub use model::{MODEL_CALL, ModelAnswer, ModelRequest, ModelService};
pub use policy::{Decision, PolicyContributor, PolicyMode, PolicyRequest};
pub use record::{Diagnostic, DiagnosticCode, NewRecord, Record};
pub use runner::{
    Binding, CommandOutcome, CommandRequest, Destination, DirEntry, Ending, FileData, FileKind,
    FileMetadata, Isolation, Lease, LeaseRequest, ListOptions, Listing, ProcessChunk, ProcessRead,
    ProcessSpec, PtySize, ReadOptions, RemoteRunnerProvider, RemoteRunnerSession,
    RemoteRunnerSessionExt, Resumed, RunnerCapabilities, SessionState, Signal, WriteMode,
    WriteOptions,
};
pub use slash_command::{SlashCommand, SlashCommandCall, SlashCommandOutput};
pub use source::{BatchCall, BatchOutcomes, ToolSource};
pub use store::{
    Appended, Durability, ForkPoint, ListThreads, MetadataPatch, NewThread, ReadRange, RecordPage,
    StoreCapabilities, StoreOptions, ThreadMetadata, ThreadPage, ThreadStore, ThreadStoreFactory,
    ThreadWriter,
};
pub use tool::{
    Effects, Tool, ToolContributor, ToolOutput, ToolRegistry, ToolSpec, WorkspaceAccess,
};
