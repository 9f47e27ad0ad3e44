//! Connections that break off in the middle of an append.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use haft_api::{Durability, ErrorKind, ErrorStatus, NewThread, ThreadStore as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream, UnixStream};

use crate::support::*;

/// What the wire does to who uses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Wire {
    Whole,
    /// The next request doesn't arrive, and its connection ends.
    LosesRequest,
    /// The next request arrives and its answer doesn't; its connection ends.
    LosesAnswer,
    /// As before, and from then on nobody can connect.
    LosesAnswerAndServer,
    Down,
}

/// A way to the server that can be cut.
#[derive(Clone)]
struct Proxy {
    wire: Arc<AtomicU8>,
    port: u16,
}

impl Proxy {
    async fn start(socket: PathBuf) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Self {
            wire: Arc::new(AtomicU8::new(Wire::Whole as u8)),
            port: listener.local_addr().unwrap().port(),
        };
        let served = proxy.clone();
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                if served.is(Wire::Down) {
                    continue;
                }
                let (proxy, socket) = (served.clone(), socket.clone());
                tokio::spawn(async move {
                    let server = UnixStream::connect(socket).await.unwrap();
                    proxy.pass(client, server).await;
                });
            }
        });
        proxy
    }

    fn url(&self) -> String {
        let port = self.port;
        format!("postgres://haft:geheim@127.0.0.1:{port}/postgres?sslmode=disable")
    }

    fn set(&self, wire: Wire) {
        self.wire.store(wire as u8, Ordering::SeqCst);
    }

    fn is(&self, wire: Wire) -> bool {
        self.wire.load(Ordering::SeqCst) == wire as u8
    }

    /// Passes bytes on until the connection ends or is cut.
    async fn pass(&self, mut client: TcpStream, mut server: UnixStream) {
        let (mut up, mut down) = (vec![0; 65536], vec![0; 65536]);
        loop {
            tokio::select! {
                read = client.read(&mut up) => match read {
                    Ok(len) if len > 0 => {
                        if self.is(Wire::LosesRequest) {
                            return self.set(Wire::Whole);
                        }
                        server.write_all(&up[..len]).await.unwrap();
                    }
                    _ => return,
                },
                read = server.read(&mut down) => match read {
                    Ok(len) if len > 0 => {
                        if self.is(Wire::LosesAnswer) {
                            return self.set(Wire::Whole);
                        }
                        if self.is(Wire::LosesAnswerAndServer) {
                            return self.set(Wire::Down);
                        }
                        if client.write_all(&down[..len]).await.is_err() {
                            return;
                        }
                    }
                    _ => return,
                },
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_lost_on_the_way_is_written_once() {
    let server = server_or_skip!();
    for fault in [Wire::LosesRequest, Wire::LosesAnswer] {
        let proxy = Proxy::start(server.postgres.socket()).await;
        // One connection: the next request is the append's. What it tells
        // others isn't to get in the way.
        let config = config(proxy.url(), &fresh_schema())
            .connections(1)
            .lease(Duration::from_secs(60));
        let store = open(config).await;
        let thread = id("t");
        let mut writer = store.create(NewThread::new(thread.clone())).await.unwrap();
        append(&mut *writer, "0").await;
        for number in 1..6 {
            proxy.set(fault);
            let seq = append(&mut *writer, &number.to_string()).await;
            assert_eq!(seq, number + 1, "{fault:?}");
            assert!(proxy.is(Wire::Whole), "the fault befell nobody");
        }
        let expected: Vec<_> = (0..6).map(|n| n.to_string()).collect();
        assert_eq!(notes(&store, &thread).await, expected, "{fault:?}");
        writer.close().await.unwrap();
        assert_eq!(store.check(&thread).await.unwrap(), vec![]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_outcome_is_told_and_ends_the_writer() {
    let server = server_or_skip!();
    let proxy = Proxy::start(server.postgres.socket()).await;
    let schema = fresh_schema();
    let config = config(proxy.url(), &schema)
        .connections(1)
        .timeout(Duration::from_secs(2))
        .lease(Duration::from_secs(1));
    let store = open(config.clone()).await;
    let thread = id("t");
    let mut writer = store.create(NewThread::new(thread.clone())).await.unwrap();
    append(&mut *writer, "acknowledged").await;
    proxy.set(Wire::LosesAnswerAndServer);
    let group = note("unknown");
    let error = writer.append(group, Durability::Barrier).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert_eq!(error.status(), ErrorStatus::Permanent);
    assert!(error.to_string().contains("outcome is unknown"), "{error}");
    assert!(!format!("{error:?} {error} {store:?} {config:?}").contains("geheim"));
    let error = writer
        .append(note("more"), Durability::Barrier)
        .await
        .unwrap_err();
    assert!(error.to_string().contains("writer was closed"), "{error}");
    assert!(store.metadata(&thread).await.is_err());
    drop(writer);

    proxy.set(Wire::Whole);
    let mut writer = take(&store, &thread).await;
    append(&mut *writer, "after").await;
    // It had arrived: that is why nobody could know.
    assert_eq!(
        notes(&store, &thread).await,
        ["acknowledged", "unknown", "after"]
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_patch_and_a_create_survive_a_broken_connection() {
    let server = server_or_skip!();
    let proxy = Proxy::start(server.postgres.socket()).await;
    let store = open(config(proxy.url(), &fresh_schema()).connections(1)).await;
    let thread = id("t");
    let mut writer = store.create(NewThread::new(thread.clone())).await.unwrap();
    for fault in [Wire::LosesRequest, Wire::LosesAnswer] {
        proxy.set(fault);
        let title = format!("{fault:?}");
        let patch = haft_api::MetadataPatch::default().title(&title);
        writer.patch_metadata(patch).await.unwrap();
        let metadata = store.metadata(&thread).await.unwrap();
        assert_eq!(metadata.title, Some(title));
    }
    proxy.set(Wire::LosesRequest);
    let other = id("other");
    let Err(error) = store.create(NewThread::new(other.clone())).await else {
        panic!("created without a word from the server");
    };
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    let missing = store.metadata(&other).await.unwrap_err();
    assert_eq!(missing.kind(), ErrorKind::NotFound);
}
