//! Commands through a local session, confined as they are by default.

use std::process::{Command, ExitCode, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use haft_api::{
    Binding, CommandRequest, Destination, DestinationId, Ending, ExtensionId, Isolation, NoOutput,
    ProcessId, ProcessSpec, RemoteRunnerProvider as _, RemoteRunnerSession,
    RemoteRunnerSessionExt as _, raw_json,
};
use haft_bench::{Mark, Pair, Result, Sample};
use haft_ext_runner_local::{LocalConfig, LocalRunner};
use tempfile::TempDir;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;

use crate::memory;

/// The argument that makes the bench's program run the flood.
pub(crate) const FLOOD: &str = "flood";

const FLOOD_BYTES: u64 = 1_000_000_000;
const COMMANDS: usize = 200;
const LIMIT: Duration = Duration::from_secs(1);

/// A runner over a folder of its own.
struct Place {
    tokio: Runtime,
    runner: LocalRunner,
    binding: Binding,
    _folder: TempDir,
}

impl Place {
    fn new() -> Result<Self> {
        let folder = tempfile::tempdir()?;
        let runner = LocalRunner::new(LocalConfig::default())?;
        if runner.capabilities().isolation < Isolation::Namespaces {
            return Err("this machine can't confine commands in full; see `haft doctor`".into());
        }
        let binding = Binding {
            destination: Destination {
                id: DestinationId::new("bench")?,
                provider_id: ExtensionId::new("local")?,
                config: raw_json("{}")?,
                manifest: None,
            },
            workspace: folder.path().canonicalize()?.display().to_string(),
            read_roots: Vec::new(),
        };
        let tokio = tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .enable_all()
            .build()?;
        Ok(Self {
            tokio,
            runner,
            binding,
            _folder: folder,
        })
    }

    fn session(&self) -> Result<Arc<dyn RemoteRunnerSession>> {
        Ok(self
            .tokio
            .block_on(self.runner.create(self.binding.clone()))?)
    }
}

async fn run(
    session: &dyn RemoteRunnerSession,
    number: usize,
    request: CommandRequest,
) -> Result<Ending> {
    let id = ProcessId::new(format!("bench-{number}"))?;
    let outcome = session.run_command(id, request, &NoOutput).await?;
    match outcome.skipped_bytes {
        0 => Ok(outcome.ending),
        bytes => Err(format!("{bytes} bytes of output were lost").into()),
    }
}

/// `true`, confined; the floor starts it with the standard library.
pub(crate) fn confined() -> Result<Pair> {
    let place = Place::new()?;
    let session = place.session()?;
    Pair::of_operations(
        move || {
            let ran = run(&*session, 0, CommandRequest::new(["true"]));
            match place.tokio.block_on(ran)? {
                Ending::Exited { code: 0 } => Ok(()),
                other => Err(format!("true ended so: {other:?}").into()),
            }
        },
        || {
            let output = Command::new("true").stdin(Stdio::null()).output()?;
            match output.status.success() {
                true => Ok(()),
                false => Err("true failed".into()),
            }
        },
    )
}

/// A session that is made and let go again; the floor opens its folder.
pub(crate) fn session() -> Result<Pair> {
    let place = Place::new()?;
    let folder = place.binding.workspace.clone();
    Pair::of_operations(
        move || place.session().map(drop),
        move || Ok(std::fs::read_dir(&folder)?),
    )
}

/// A session and its first command, for which it shuts itself in; the floor
/// starts the command with the standard library.
pub(crate) fn first_command() -> Result<Pair> {
    let place = Place::new()?;
    Pair::of_operations(
        move || {
            let session = place.session()?;
            place.tokio.block_on(async {
                run(&*session, 0, CommandRequest::new(["true"])).await?;
                session.close().await?;
                Ok(())
            })
        },
        || Ok(Command::new("true").stdin(Stdio::null()).output()?),
    )
}

/// A gigabyte of output through a session, in a process of its own, whose memory is
/// what it gained by that; the floor sends it through a pipe to a program that throws
/// it away.
pub(crate) fn flood() -> Result<Pair> {
    let program = std::env::current_exe()?;
    let folder = tempfile::tempdir()?;
    let floor = format!("head -c {FLOOD_BYTES} /dev/zero | cat > /dev/null");
    Ok(Pair::of_samples(
        move || {
            let told = folder.path().join("growth");
            let mut sample = Sample::of_process(Command::new(&program).arg(FLOOD).arg(&told))?;
            sample.peak_memory = Some(std::fs::read_to_string(&told)?.parse()?);
            Ok(sample)
        },
        move || Sample::of_process(Command::new("sh").args(["-c", &floor])),
    ))
}

/// What the flood's own process does: writes its growth to the file it is told of.
pub(crate) fn flood_main() -> ExitCode {
    match flooded() {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("the flood failed: {e}");
            ExitCode::FAILURE
        }
    }
}

fn flooded() -> Result<()> {
    let told = std::env::args_os().nth(2).ok_or("no file for the growth")?;
    let place = Place::new()?;
    let session = place.session()?;
    // Whatever any command needs is there before.
    place
        .tokio
        .block_on(run(&*session, 0, CommandRequest::new(["true"])))?;
    let before = memory::of_this_process("VmRSS")?;
    let request = CommandRequest::shell(format!("head -c {FLOOD_BYTES} /dev/zero"));
    match place.tokio.block_on(run(&*session, 1, request))? {
        Ending::Exited { code: 0 } => {}
        other => return Err(format!("it ended so: {other:?}").into()),
    }
    let growth = memory::of_this_process("VmHWM")?.saturating_sub(before);
    Ok(std::fs::write(told, growth.to_string())?)
}

/// Many commands at a time, each of which meets its time limit: the time of the one
/// that ended latest, from its own start to when its end was known. The floor waits
/// for as long as the limit is.
pub(crate) fn limited() -> Result<Pair> {
    let place = Arc::new(Place::new()?);
    let session = place.session()?;
    Ok(Pair::of_samples(
        move || {
            let start = Mark::now();
            let latest = place.tokio.block_on(async {
                let mut all = JoinSet::new();
                for number in 0..COMMANDS {
                    let session = Arc::clone(&session);
                    all.spawn(async move {
                        let ran = meet_limit(&*session, number).await;
                        ran.map_err(|e| e.to_string())
                    });
                }
                let took: std::result::Result<Vec<_>, _> =
                    all.join_all().await.into_iter().collect();
                took.map(|took| took.into_iter().max().unwrap_or_default())
            })?;
            let mut sample = start.to(&Mark::now(), 1);
            sample.wall = latest;
            Ok(sample)
        },
        || {
            Sample::take(1, || {
                std::thread::sleep(LIMIT);
                Ok(())
            })
        },
    ))
}

/// Starts a command that outlasts its limit. Returns how long it took from its start
/// on, which is when the limit begins to count.
async fn meet_limit(session: &dyn RemoteRunnerSession, number: usize) -> Result<Duration> {
    let id = ProcessId::new(format!("bench-{number}"))?;
    let argv = ["sleep", "60"].map(str::to_owned);
    let mut spec = ProcessSpec::new(id.clone(), argv.to_vec());
    spec.timeout_ms = u64::try_from(LIMIT.as_millis()).ok();
    session.start_process(spec).await?;
    let start = Instant::now();
    let (took, ending) = loop {
        let read = session.read_process(&id, None, 1024, 10_000).await?;
        if let Some(ending) = read.ending {
            break (start.elapsed(), ending);
        }
    };
    session.release_process(&id);
    match ending {
        Ending::TimedOut => Ok(took),
        other => Err(format!("a command ended so: {other:?}").into()),
    }
}
