//! What the messages of each method hold.
//!
//! Fields that a reader doesn't know are skipped, and a field that is added
//! later has a default, so that both sides may be of different versions.

use std::borrow::Cow;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::message::{item_parts, item_parts_mut, put_images, take_images};
use crate::context::OutputChannel;
use crate::deadline::Deadline;
use crate::engine::{ModelOptions, ToolChoice};
use crate::error::Result;
use crate::extension::{ExtensionConfig, Manifest};
use crate::id::{CallId, ExtensionId, ProcessId, ThreadId, TurnId};
use crate::item::{Item, Part, ToolCall};
use crate::policy::PolicyRequest;
use crate::record::NewRecord;
use crate::runner::{
    Binding, Destination, Ending, FileMetadata, LeaseRequest, ListOptions, ProcessSpec, PtySize,
    ReadOptions, RunnerCapabilities, SessionState, Signal, WriteOptions,
};
use crate::store::{
    Appended, Durability, MetadataPatch, NewThread, ReadRange, StoreCapabilities, StoreOptions,
    ThreadMetadata,
};
use crate::tool::{ToolOutput, ToolSpec};

macro_rules! wire {
    ($($(#[$doc:meta])* $name:ident $(<$life:lifetime>)? {
        $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
    })*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Serialize, Deserialize)]
        pub struct $name $(<$life>)? {
            $($(#[$field_doc])* pub $field: $type,)*
        }
    )*};
}

/// No arguments.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct Nothing {}

wire! {
    /// What a plug-in is told at its start.
    Hello {
        /// The version of this crate that the host was built with.
        api_version: String,
    }
    /// One extension of a plug-in.
    DescribedExtension {
        /// What it says of itself.
        manifest: Manifest,
    }
    /// Answer to `describe`.
    Described {
        /// The extensions.
        extensions: Vec<DescribedExtension>,
    }
    /// Arguments of `register`.
    RegisterArgs {
        /// Which extension.
        extension: ExtensionId,
        /// Its settings.
        config: ExtensionConfig,
    }
    /// Answer to `register`. A contribution is read in two steps: its
    /// [`ContributionKind`] first.
    Registered {
        /// What the extension brings.
        contributions: Vec<Box<RawValue>>,
    }
    /// What kind of contribution it is.
    ContributionKind {
        /// `tools`, `tool_source`, `engine`, `runner`, `store`, `policy`,
        /// `event_sink`, or something later.
        kind: String,
        /// Its object, where it has one.
        #[serde(default)]
        object: Option<u64>,
    }
    /// A tool.
    ContributedTool {
        /// The tool's object.
        object: u64,
        /// What it is.
        spec: ToolSpec,
    }
    /// A contribution of kind `tools`.
    ContributedTools {
        /// The tools.
        tools: Vec<ContributedTool>,
    }
    /// A contribution of one object with an id and nothing else.
    ContributedPart {
        /// The object.
        object: u64,
        /// The part's id.
        id: ExtensionId,
    }
    /// A contribution of kind `engine`.
    ContributedEngine {
        /// The object.
        object: u64,
        /// The engine's id.
        id: ExtensionId,
        /// Whether it keeps histories, so that only new items need be sent.
        #[serde(default)]
        keeps_history: bool,
    }
    /// A contribution of kind `runner`.
    ContributedRunner {
        /// The object.
        object: u64,
        /// The provider's id.
        id: ExtensionId,
        /// What its sessions can do.
        #[serde(default)]
        capabilities: RunnerCapabilities,
        /// See [`RemoteRunnerProvider::default_workspace`](crate::RemoteRunnerProvider::default_workspace).
        #[serde(default, skip_serializing_if = "Option::is_none")]
        default_workspace: Option<String>,
    }
    /// A contribution of kind `event_sink`.
    ContributedSink {
        /// The object.
        object: u64,
    }

    /// A session as an object, with what is constant about it.
    SessionData {
        /// The object.
        object: u64,
        /// The durable handle, as it is now.
        state: SessionState,
        /// What it can do.
        #[serde(default)]
        capabilities: RunnerCapabilities,
        /// The folder that relative paths start from.
        workspace: String,
    }
    /// A [`ToolContext`](crate::ToolContext).
    ContextData {
        /// The thread.
        thread: ThreadId,
        /// The turn.
        turn: TurnId,
        /// When the call is cut off.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        deadline: Option<Deadline>,
        /// When the turn ends.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        turn_deadline: Option<Deadline>,
        /// The output sink's object.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<u64>,
        /// The workspace.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        workspace: Option<SessionData>,
        /// The model's object.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<u64>,
    }
    /// Arguments of `execute`, and one call of a batch.
    ExecuteArgs {
        /// The call.
        call: ToolCall,
        /// Its context.
        context: ContextData,
    }
    /// A tool's output; the data of pictures follow in the blob.
    OutputData {
        /// The content, pictures without their data.
        parts: Vec<Part>,
        /// Whether the model should take it as a failure.
        #[serde(default)]
        is_error: bool,
        /// How many bytes of the blob each picture takes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<usize>,
    }
    /// Arguments of a sink's `write`; the bytes are the blob.
    WriteArgs {
        /// Which stream.
        channel: OutputChannel,
    }
    /// Arguments of `call_batch`.
    BatchArgs {
        /// The calls, in order.
        calls: Vec<ExecuteArgs>,
        /// Where outcomes go.
        outcomes: u64,
    }
    /// Arguments of `complete`: one of `output` and `error`.
    CompleteArgs {
        /// The call.
        call: CallId,
        /// What the tool says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output: Option<OutputData>,
        /// What broke.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<Box<RawValue>>,
    }
    /// Answer to `complete`.
    Completed {
        /// Whether the outcome was taken.
        accepted: bool,
    }

    /// Arguments of `model`.
    ModelArgs {
        /// The model's name.
        #[serde(default)]
        name: Option<String>,
    }
    /// Arguments of `stream_turn`. The new items' pictures are in the blob.
    TurnArgs<'a> {
        /// The thread.
        thread: ThreadId,
        /// The turn.
        turn: TurnId,
        /// The round, from 0.
        #[serde(default)]
        round: u32,
        /// The model.
        #[serde(default)]
        model: Option<String>,
        /// What the model is told before everything else.
        #[serde(default)]
        instructions: Arc<str>,
        /// The conversation's end.
        history: HistoryData<'a>,
        /// The tools.
        #[serde(default)]
        tools: Arc<[ToolSpec]>,
        /// Whether tools may or must be called.
        #[serde(default)]
        tool_choice: ToolChoice,
        /// How to go about it.
        #[serde(default)]
        options: ModelOptions,
        /// A JSON schema that the answer must follow.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        output_schema: Option<Arc<RawValue>>,
        /// When the turn ends.
        #[serde(default)]
        deadline: Option<Deadline>,
    }
    /// The items of a history from some point on.
    HistoryData<'a> {
        /// See [`History::generation`](crate::History::generation).
        generation: u64,
        /// How many items are left out, because the engine has them already.
        #[serde(default)]
        from: usize,
        /// The items after those, pictures without their data.
        items: Vec<Cow<'a, Item>>,
        /// How many bytes of the blob each picture takes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<usize>,
    }

    /// Arguments of `validate`.
    DestinationArgs {
        /// The destination.
        destination: Destination,
    }
    /// Arguments of `create` at a runner provider.
    CreateArgs {
        /// What for.
        binding: Binding,
    }
    /// Arguments of `resume`.
    ResumeArgs {
        /// What for.
        binding: Binding,
        /// What is known of it.
        state: SessionState,
    }
    /// Answer to `resume`: one of the two.
    ResumedData {
        /// It is back.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        session: Option<SessionData>,
        /// It is gone for good, and how that is known.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        gone: Option<String>,
    }
    /// Arguments of `acquire_lease`.
    LeaseArgs {
        /// The session.
        state: SessionState,
        /// How long.
        request: LeaseRequest,
    }
    /// Answer to `acquire_lease`.
    LeaseData {
        /// The lease's object; `None` where there are no leases.
        #[serde(default)]
        lease: Option<u64>,
    }
    /// Answer to `lost`.
    LostData {
        /// Why.
        reason: String,
    }
    /// Arguments that are a path.
    PathArgs {
        /// The path.
        path: String,
    }
    /// Arguments of `read_file`.
    ReadFileArgs {
        /// The path.
        path: String,
        /// Which part.
        options: ReadOptions,
    }
    /// Answer to `read_file`; the bytes are the blob.
    ReadFileData {
        /// What is known of the whole file.
        metadata: FileMetadata,
    }
    /// Arguments of `write_file`; the bytes are the blob.
    WriteFileArgs {
        /// The path.
        path: String,
        /// How.
        options: WriteOptions,
    }
    /// Arguments of `list` at a session.
    ListDirArgs {
        /// The folder.
        path: String,
        /// Which page.
        options: ListOptions,
    }
    /// Arguments of `start_process`.
    StartArgs {
        /// What to start.
        spec: ProcessSpec,
    }
    /// Arguments that are a process.
    ProcessArgs {
        /// The process.
        process: ProcessId,
    }
    /// Arguments of `read_process`.
    ReadProcessArgs {
        /// The process.
        process: ProcessId,
        /// The last piece that is known.
        #[serde(default)]
        after: Option<u64>,
        /// About how much at most.
        max_bytes: usize,
        /// How long to wait.
        wait_ms: u64,
    }
    /// A piece of a process's output.
    ChunkData {
        /// Its number.
        seq: u64,
        /// Which stream.
        channel: OutputChannel,
        /// How many bytes of the blob it takes.
        len: usize,
    }
    /// Answer to `read_process`; the bytes of all pieces are the blob.
    ReadProcessData {
        /// The pieces.
        chunks: Vec<ChunkData>,
        /// Bytes that are gone.
        #[serde(default)]
        skipped_bytes: u64,
        /// How it ended.
        #[serde(default)]
        ending: Option<Ending>,
        /// Whether that is all.
        #[serde(default)]
        closed: bool,
        /// What outlived it.
        #[serde(default)]
        leftovers: Vec<u32>,
    }
    /// Arguments of `write_stdin`; the bytes are the blob.
    StdinArgs {
        /// The process.
        process: ProcessId,
        /// Whether to close it; there are no bytes then.
        #[serde(default)]
        close: bool,
    }
    /// Arguments of `signal`.
    SignalArgs {
        /// The process.
        process: ProcessId,
        /// The signal.
        signal: Signal,
    }
    /// Arguments of `resize_pty`.
    ResizeArgs {
        /// The process.
        process: ProcessId,
        /// The terminal's new size.
        size: PtySize,
    }
    /// Arguments of `port`.
    PortArgs {
        /// The port.
        port: u16,
    }

    /// Arguments of `open`.
    OpenArgs {
        /// With what.
        options: StoreOptions,
    }
    /// A store as an object.
    StoreData {
        /// The object.
        object: u64,
        /// What it can do.
        #[serde(default)]
        capabilities: StoreCapabilities,
    }
    /// Arguments of `create` at a store.
    CreateThreadArgs {
        /// The thread.
        thread: NewThread,
    }
    /// Arguments that are a thread.
    ThreadArgs {
        /// The thread.
        thread: ThreadId,
    }
    /// Arguments of `read` at a store.
    ReadArgs {
        /// The thread.
        thread: ThreadId,
        /// Which records.
        range: ReadRange,
    }
    /// A writer as an object.
    WriterData {
        /// The object.
        object: u64,
        /// The thread.
        thread: ThreadId,
        /// The number the next record will get.
        next_seq: u64,
    }
    /// Arguments of `append`.
    AppendArgs {
        /// The records.
        group: Vec<NewRecord>,
        /// How durably.
        durability: Durability,
    }
    /// Answer to `append`.
    AppendData {
        /// What it did.
        appended: Appended,
        /// The number the next record will get.
        next_seq: u64,
    }
    /// Arguments of `patch_metadata`.
    PatchArgs {
        /// The change.
        patch: MetadataPatch,
    }
    /// Answer to `patch_metadata`.
    PatchData {
        /// The metadata as they are now.
        metadata: ThreadMetadata,
        /// The number the next record will get.
        next_seq: u64,
    }

    /// Arguments of `review`.
    ReviewArgs {
        /// The request.
        request: PolicyRequest,
    }
    /// Arguments of `publish`. The event is read in two steps.
    PublishArgs {
        /// The event.
        event: Box<RawValue>,
        /// How many bytes of the blob each picture takes.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        images: Vec<usize>,
    }
}

impl OutputData {
    /// An output as it travels: its pictures go to the end of `blob`.
    pub fn new(mut output: ToolOutput, blob: &mut Vec<u8>) -> Self {
        let images = take_images(&mut output.parts, blob);
        Self {
            parts: output.parts,
            is_error: output.is_error,
            images,
        }
    }

    /// The output again.
    ///
    /// # Errors
    /// If pictures and blob don't fit each other.
    pub fn into_output(mut self, blob: &[u8]) -> Result<ToolOutput> {
        put_images(&mut self.parts, &self.images, blob)?;
        let mut output = ToolOutput::parts(self.parts);
        output.is_error = self.is_error;
        Ok(output)
    }
}

impl<'a> HistoryData<'a> {
    /// The items from the `from`th on; their pictures go to the end of `blob`.
    pub fn new(generation: u64, from: usize, items: &'a [Arc<Item>], blob: &mut Vec<u8>) -> Self {
        let mut images = Vec::new();
        let items = items.get(from..).unwrap_or_default();
        let items = items
            .iter()
            .map(|item| {
                if !super::message::has_image(item_parts(item)) {
                    return Cow::Borrowed(&**item);
                }
                let mut item = Item::clone(item);
                images.extend(take_images(item_parts_mut(&mut item), blob));
                Cow::Owned(item)
            })
            .collect();
        Self {
            generation,
            from,
            items,
            images,
        }
    }

    /// The items again.
    ///
    /// # Errors
    /// If pictures and blob don't fit each other.
    pub fn into_items(self, blob: &[u8]) -> Result<Vec<Arc<Item>>> {
        let mut items: Vec<Item> = self.items.into_iter().map(Cow::into_owned).collect();
        let parts = items.iter_mut().flat_map(item_parts_mut);
        put_images(parts, &self.images, blob)?;
        Ok(items.into_iter().map(Arc::new).collect())
    }
}
