//! Two nodes over one database: one is killed in the middle of a turn, and the
//! other goes on with it.

use std::fs;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use haft_api::{
    Effects, Error, ErrorKind, ExtensionRegistryBuilder, Item, PolicyMode, ReadRange, Record,
    Result, ThreadId, ThreadStore, ToolOutput,
};
use haft_core::{Runtime, RuntimeOptions, Thread, ThreadOptions, TurnRequest, TurnStatus};
use haft_ext_store_postgres::{PostgresConfig, PostgresStore};
use haft_testkit::{FnTool, PostgresServer, Round, ScriptedEngine, Tools, fixture};

const ROLE: &str = "HAFT_NODE_TEST_URL";
const FOLDER: &str = "HAFT_NODE_TEST_FOLDER";
const STUCK: &str = "HAFT_NODE_TEST_STUCK";
const LEASE: Duration = Duration::from_millis(1500);

/// The tools of a node. Each leaves a line in a file, so that what ran on
/// whatever node can be counted; the one that is to be stuck never ends.
fn tools(folder: &Path, stuck: Option<&str>) -> Tools {
    let tool = |name: &'static str, effects: Effects| {
        let (folder, stuck) = (folder.to_owned(), stuck == Some(name));
        FnTool::new(name, move |_, _| {
            let folder = folder.clone();
            async move {
                let mut file = fs::File::options()
                    .create(true)
                    .append(true)
                    .open(folder.join(name))
                    .map_err(|e| Error::io(e, "the count can't be kept"))?;
                writeln!(file, "ran").map_err(|e| Error::io(e, "the count can't be kept"))?;
                if stuck {
                    say(&format!("stuck in {name}"));
                    std::future::pending::<()>().await;
                }
                Ok(ToolOutput::text(format!("{name} done")))
            }
        })
        .effects(effects)
    };
    let mut idempotent = Effects::NETWORK;
    idempotent.idempotent = true;
    Tools::new()
        .with(tool("pay", Effects::NETWORK))
        .with(tool("put", idempotent))
        .with(tool("mail", Effects::NETWORK))
}

/// A node: a runtime of its own over the shared store.
async fn node(url: &str, folder: &Path, stuck: Option<&str>, rounds: Vec<Round>) -> Runtime {
    let config = PostgresConfig::default().url(url).lease(LEASE);
    let store = PostgresStore::open(config).await.unwrap();
    let mut registry = ExtensionRegistryBuilder::new();
    registry.engine(Arc::new(ScriptedEngine::new().rounds(rounds)));
    registry.tools(Arc::new(tools(folder, stuck)));
    let mut options = RuntimeOptions::default();
    options.local_runner = None;
    Runtime::builder(registry.build().unwrap())
        .options(options)
        .build(Arc::new(store) as Arc<dyn ThreadStore>)
        .unwrap()
}

fn request(text: &str) -> TurnRequest {
    TurnRequest::text(text).mode(PolicyMode::Bypass)
}

fn say(text: &str) {
    writeln!(std::io::stderr().lock(), "{text}").unwrap();
}

/// The node that is killed; in the tests' own process, nothing.
#[tokio::test]
async fn child() {
    let (Ok(url), Ok(folder), Ok(stuck)) = (
        std::env::var(ROLE),
        std::env::var(FOLDER),
        std::env::var(STUCK),
    ) else {
        return;
    };
    let round = Round::new()
        .call("a", "pay", "{}")
        .call("b", "put", "{}")
        .call("c", "mail", "{}");
    let node = node(&url, Path::new(&folder), Some(&stuck), vec![round]).await;
    let thread = node.create_thread(ThreadOptions::default()).await.unwrap();
    say(&format!("thread {}", thread.id()));
    let turn = thread.start_turn(request("pay the bill")).await.unwrap();
    turn.ended().await;
    say("ended");
}

struct Node {
    child: Child,
    lines: std::io::Lines<BufReader<std::process::ChildStderr>>,
}

impl Node {
    fn start(url: &str, folder: &Path, stuck: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture", "--test-threads=1"])
            .env(ROLE, url)
            .env(FOLDER, folder)
            .env(STUCK, stuck)
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines = BufReader::new(child.stderr.take().unwrap()).lines();
        Self { child, lines }
    }

    fn wait_for(&mut self, start: &str) -> String {
        let mut lines = (&mut self.lines).map(|line| line.unwrap());
        let line = lines.find(|line| line.starts_with(start));
        line.expect("a line from the node")[start.len()..].to_owned()
    }

    /// `kill -9`.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

/// Goes on with the thread's turn as soon as its lease is over.
async fn take_over(node: &Runtime, id: &ThreadId) -> Thread {
    let taking = async {
        loop {
            let thread = node.open_thread(id).await.unwrap();
            match thread.resume_turn(request("")).await {
                Ok(turn) => {
                    assert_eq!(turn.ended().await.status, TurnStatus::Completed);
                    return thread;
                }
                Err(error) => assert_eq!(error.kind(), ErrorKind::Busy, "{error}"),
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let taken = tokio::time::timeout(Duration::from_secs(60), taking).await;
    taken.expect("the lease ends")
}

async fn items(thread: &Thread) -> Vec<Item> {
    let items = thread.items(None, usize::MAX).await.items;
    let items: Vec<_> = items.iter().map(|placed| (*placed.item).clone()).collect();
    haft_testkit::validate_history(&items).unwrap();
    items
}

fn runs(folder: &Path, tool: &str) -> usize {
    let text = fs::read_to_string(folder.join(tool)).unwrap_or_default();
    text.lines().count()
}

/// All records of a thread, whose numbers must be contiguous.
async fn log(url: &str, id: &ThreadId) -> Result<Vec<Record>> {
    let store = PostgresStore::open(PostgresConfig::default().url(url)).await?;
    assert_eq!(store.check(id).await?, vec![]);
    let page = store.read(id, ReadRange::ALL).await?;
    assert_eq!(page.next, None);
    assert!(
        page.records
            .iter()
            .map(|record| record.seq)
            .eq(0..page.records.len() as u64)
    );
    Ok(page.records)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_node_goes_on_with_a_killed_nodes_turn() {
    let server = match PostgresServer::start(&[]) {
        Ok(server) => server,
        Err(reason) => return eprintln!("skipped: {reason}"),
    };
    let url = server.url();
    // Which call the node is killed in, and how often each has run in the end.
    // What isn't idempotent runs once and no more; what hadn't begun runs now.
    for (stuck, expected) in [("pay", [1, 1, 1]), ("put", [1, 2, 1]), ("mail", [1, 1, 1])] {
        let folder = tempfile::tempdir().unwrap();
        let mut killed = Node::start(&url, folder.path(), stuck);
        let id = fixture::thread_id(&killed.wait_for("thread "));
        killed.wait_for(&format!("stuck in {stuck}"));
        let other = node(&url, folder.path(), None, vec![Round::new().text("paid")]).await;
        let thread = other.open_thread(&id).await.unwrap();
        let busy = thread.resume_turn(request("")).await.unwrap_err();
        assert_eq!(busy.kind(), ErrorKind::Busy);
        assert!(busy.to_string().contains("process"), "{busy}");
        killed.kill();

        let thread = take_over(&other, &id).await;
        let counts = ["pay", "put", "mail"].map(|tool| runs(folder.path(), tool));
        assert_eq!(counts, expected, "killed in {stuck}");
        let items = items(&thread).await;
        let results: Vec<_> = items
            .iter()
            .filter_map(|item| match item {
                Item::ToolResult(result) => Some((&*result.name, result.is_error)),
                _ => None,
            })
            .collect();
        let lost = |tool: &'static str| (tool, tool == stuck && tool != "put");
        assert_eq!(
            results,
            ["pay", "put", "mail"].map(lost),
            "killed in {stuck}"
        );
        let again = thread.start_turn(request("thanks")).await.unwrap();
        assert_eq!(again.ended().await.status, TurnStatus::Completed);
        drop(thread);
        let records = log(&url, &id).await.unwrap();
        let ends = records.iter().filter(|record| record.kind == "turn_ended");
        assert_eq!(ends.count(), 2, "each turn has ended once");
    }
}
