//! Files of a local session: what they promise, and what they refuse.
#![cfg(unix)]

mod support;

use std::os::unix::fs::{MetadataExt as _, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;

use haft_api::{
    ErrorKind, FileKind, Isolation, ListOptions, ReadOptions, RemoteRunnerProvider as _, Resumed,
    WriteMode, WriteOptions,
};
use haft_ext_runner_local::{LocalConfig, LocalRunner};
use support::{Mode, Place, binding, config};

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

#[tokio::test]
async fn what_is_written_is_read_back_whole_and_in_ranges() {
    let place = Place::new().await;
    let session = &place.session;
    let any = WriteOptions::default;
    let written = session
        .write_file("a.txt", b"0123456789".to_vec(), any())
        .await
        .unwrap();
    assert_eq!((written.kind, written.size), (FileKind::File, 10));
    let whole = session
        .read_file("a.txt", ReadOptions::default())
        .await
        .unwrap();
    assert_eq!(whole.bytes, b"0123456789");
    assert_eq!(whole.metadata.version, written.version);
    for (offset, limit, expected) in [
        (0, 3, "012"),
        (8, 10, "89"),
        (10, 1, ""),
        (99, 1, ""),
        (3, 0, ""),
        (2, u64::MAX, "23456789"),
    ] {
        let part = session
            .read_file("a.txt", ReadOptions::range(offset, limit))
            .await
            .unwrap();
        assert_eq!(part.bytes, expected.as_bytes(), "{offset} {limit}");
        assert_eq!(part.metadata, whole.metadata);
    }
    // The same path, spelt as an absolute one.
    let absolute = place.root.join("a.txt");
    let again = session
        .read_file(absolute.to_str().unwrap(), ReadOptions::default())
        .await
        .unwrap();
    assert_eq!(again, whole);
}

#[tokio::test]
async fn large_files_are_read_in_ranges_and_refused_beyond_the_limit() {
    let mut config = config(Mode::Supervised);
    config.max_read_bytes = 3_000_000;
    let place = Place::with(config).await;
    let bytes: Vec<u8> = (0..3_000_001u32).map(|n| n as u8).collect();
    std::fs::write(place.root.join("big"), &bytes).unwrap();
    let part = place
        .session
        .read_file("big", ReadOptions::range(2_999_990, 100))
        .await
        .unwrap();
    assert_eq!(part.bytes, bytes[2_999_990..]);
    assert_eq!(part.metadata.size, 3_000_001);
    let error = place
        .session
        .read_file("big", ReadOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("ranges"), "{error}");
    std::fs::write(place.root.join("big"), &bytes[..3_000_000]).unwrap();
    let whole = place.session.read_file("big", ReadOptions::default()).await;
    assert_eq!(whole.unwrap().bytes.len(), 3_000_000);
}

#[tokio::test]
async fn a_write_happens_only_under_its_condition() {
    let place = Place::new().await;
    let write = async |path: &str, mode: WriteMode| {
        let bytes = b"new".to_vec();
        let written = place
            .session
            .write_file(path, bytes, WriteOptions::mode(mode))
            .await;
        written
            .map(|metadata| metadata.version)
            .map_err(|e| e.kind())
    };
    std::fs::write(place.root.join("old"), "old").unwrap();
    let version = place.session.metadata("old").await.unwrap().version;
    let stale = WriteMode::IfVersion("another".to_owned());
    assert_eq!(write("old", stale.clone()).await, Err(ErrorKind::Busy));
    assert_eq!(
        write("old", WriteMode::CreateNew).await,
        Err(ErrorKind::AlreadyExists)
    );
    assert_eq!(write("none", stale).await, Err(ErrorKind::NotFound));
    assert_eq!(
        write("none/x", WriteMode::Any).await,
        Err(ErrorKind::NotFound)
    );
    assert_eq!(read(&place.root.join("old")), "old");
    let newer = write("old", WriteMode::IfVersion(version.clone()))
        .await
        .unwrap();
    assert_ne!(newer, version);
    assert_eq!(
        write("old", WriteMode::IfVersion(version)).await,
        Err(ErrorKind::Busy)
    );
    assert!(write("fresh", WriteMode::CreateNew).await.is_ok());
    // No temporary file is left behind by any of these.
    let mut names: Vec<_> = std::fs::read_dir(&place.root)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, ["fresh", "old"]);
}

#[tokio::test]
async fn missing_folders_are_made_when_asked_for() {
    let place = Place::new().await;
    let options = WriteOptions::default().create_parents();
    let path = "a/b/c/file";
    place
        .session
        .write_file(path, b"x".to_vec(), options)
        .await
        .unwrap();
    assert_eq!(read(&place.root.join(path)), "x");
    place.session.make_dir("d/e").await.unwrap();
    place.session.make_dir("d/e").await.unwrap();
    assert!(place.root.join("d/e").is_dir());
    let error = place.session.make_dir("a/b/c/file").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let error = place.session.make_dir("a/b/c/file/g").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
}

#[tokio::test]
async fn an_existing_file_keeps_mode_and_owner() {
    let place = Place::new().await;
    let path = place.root.join("script");
    std::fs::write(&path, "old").unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o4751)).unwrap();
    // Only root can give a file away.
    let root = rustix::process::geteuid().is_root();
    if root {
        std::os::unix::fs::chown(&path, Some(1234), Some(4321)).unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o4751)).unwrap();
    }
    let before = std::fs::metadata(&path).unwrap();
    let mut options = WriteOptions::default();
    options.permissions = Some(0o600);
    place
        .session
        .write_file("script", b"new".to_vec(), options.clone())
        .await
        .unwrap();
    let after = std::fs::metadata(&path).unwrap();
    assert_eq!(read(&path), "new");
    assert_eq!(
        (after.mode(), after.uid(), after.gid()),
        (before.mode(), before.uid(), before.gid())
    );
    // A new one gets what was asked for.
    let fresh = place
        .session
        .write_file("fresh", b"x".to_vec(), options)
        .await
        .unwrap();
    assert_eq!(fresh.mode, Some(0o600));
    let mode = std::fs::metadata(place.root.join("fresh")).unwrap().mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[tokio::test]
async fn a_version_changes_with_the_content_even_within_one_tick() {
    let place = Place::new().await;
    let path = place.root.join("f");
    // Same size, in place, as fast as can be: neither size, inode nor a coarse
    // clock tells these apart.
    let mut seen = std::collections::HashSet::new();
    for n in 100..200 {
        std::fs::write(&path, format!("{n}")).unwrap();
        assert!(
            seen.insert(place.session.metadata("f").await.unwrap().version),
            "{n}"
        );
    }
    // Not with anything else, for a file of usual size.
    let before = place.session.metadata("f").await.unwrap().version;
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o600)).unwrap();
    assert_eq!(place.session.metadata("f").await.unwrap().version, before);
    // A large one has a version of another kind.
    std::fs::write(&path, vec![b'a'; 2_000_000]).unwrap();
    let large = place.session.metadata("f").await.unwrap().version;
    assert_eq!(place.session.metadata("f").await.unwrap().version, large);
    let bytes = vec![b'b'; 2_000_000];
    let written = place
        .session
        .write_file(
            "f",
            bytes,
            WriteOptions::mode(WriteMode::IfVersion(large.clone())),
        )
        .await
        .unwrap();
    assert_ne!(written.version, large);
    assert_eq!(
        place.session.metadata("f").await.unwrap().version,
        written.version
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sessions_of_one_folder_never_lose_an_update() {
    // Three sessions: two of one provider, one of another.
    let place = Place::new().await;
    let second = place.runner.create(place.binding.clone()).await.unwrap();
    let other = LocalRunner::new(LocalConfig::default()).unwrap();
    let third = other.create(place.binding.clone()).await.unwrap();
    std::fs::write(place.root.join("count"), "0").unwrap();
    let mut tasks = Vec::new();
    for session in [&place.session, &second, &third] {
        let session = Arc::clone(session);
        tasks.push(tokio::spawn(async move {
            let mut done = 0;
            while done < 50 {
                let old = session
                    .read_file("count", ReadOptions::default())
                    .await
                    .unwrap();
                let count: u32 = std::str::from_utf8(&old.bytes).unwrap().parse().unwrap();
                let mode = WriteMode::IfVersion(old.metadata.version);
                let new = (count + 1).to_string().into_bytes();
                match session
                    .write_file("count", new, WriteOptions::mode(mode))
                    .await
                {
                    Ok(_) => done += 1,
                    Err(e) => assert_eq!(e.kind(), ErrorKind::Busy, "{e}"),
                }
            }
        }));
    }
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(read(&place.root.join("count")), "150");
}

#[tokio::test]
async fn a_reader_never_sees_half_a_write() {
    let place = Place::new().await;
    let path = place.root.join("f");
    std::fs::write(&path, vec![b'a'; 300_000]).unwrap();
    let watched = path.clone();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let reader = std::thread::spawn(move || {
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            let bytes = std::fs::read(&watched).unwrap();
            assert_eq!(bytes.len(), 300_000);
            assert!(bytes.iter().all(|&byte| byte == bytes[0]));
        }
    });
    for byte in b'a'..b'u' {
        let bytes = vec![byte; 300_000];
        place
            .session
            .write_file("f", bytes, WriteOptions::default())
            .await
            .unwrap();
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    reader.join().unwrap();
}

#[tokio::test]
async fn a_dropped_write_does_not_happen_later() {
    let place = Place::new().await;
    let write = place
        .session
        .write_file("f", b"x".to_vec(), WriteOptions::default());
    drop(write);
    let polled = place
        .session
        .write_file("g", vec![b'x'; 50_000_000], WriteOptions::default());
    let polled = tokio::time::timeout(std::time::Duration::from_millis(1), polled).await;
    let temporary = || {
        let mut names = std::fs::read_dir(&place.root).unwrap();
        names.any(|name| {
            name.unwrap()
                .file_name()
                .to_string_lossy()
                .ends_with(".tmp")
        })
    };
    let limit = std::time::Duration::from_secs(10);
    support::until("the end of the write", limit, || !temporary()).await;
    // Either it was done in time or it never is.
    let happened = place.root.join("g").exists();
    tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    assert_eq!(place.root.join("g").exists(), happened || polled.is_ok());
    assert!(!place.root.join("f").exists() && !temporary());
}

#[tokio::test]
async fn folders_are_listed_by_name_in_pages() {
    let place = Place::new().await;
    for name in ["b", "a", "c", ".hidden", "Z", "ä"] {
        std::fs::write(place.root.join(name), name).unwrap();
    }
    std::fs::create_dir(place.root.join("dir")).unwrap();
    symlink("/etc/passwd", place.root.join("link")).unwrap();
    let all = place
        .session
        .list(".", ListOptions::default())
        .await
        .unwrap();
    let names: Vec<_> = all
        .entries
        .iter()
        .map(|e| (e.name.as_str(), e.kind))
        .collect();
    use FileKind::{Dir, File, Symlink};
    assert_eq!(
        names,
        [
            (".hidden", File),
            ("Z", File),
            ("a", File),
            ("b", File),
            ("c", File),
            ("dir", Dir),
            ("link", Symlink),
            ("ä", File)
        ]
    );
    assert_eq!(all.next, None);
    let mut paged = Vec::new();
    let mut options = ListOptions::default();
    options.limit = Some(3);
    loop {
        let page = place.session.list("", options.clone()).await;
        assert!(page.is_err(), "an empty path names nothing");
        let page = place.session.list(".", options.clone()).await.unwrap();
        assert!(page.entries.len() <= 3);
        paged.extend(page.entries);
        match page.next {
            Some(next) => options.after = Some(next),
            None => break,
        }
    }
    assert_eq!(paged, all.entries);
    let error = place
        .session
        .list("a", ListOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn files_links_and_empty_folders_are_removed() {
    let place = Place::new().await;
    std::fs::write(place.outside.join("kept"), "kept").unwrap();
    std::fs::write(place.root.join("file"), "").unwrap();
    std::fs::create_dir_all(place.root.join("full/empty")).unwrap();
    symlink(place.outside.join("kept"), place.root.join("link")).unwrap();
    symlink("/", place.root.join("rootlink")).unwrap();
    let remove = async |path: &str| place.session.remove(path).await.map_err(|e| e.kind());
    assert_eq!(remove("full").await, Err(ErrorKind::InvalidInput));
    assert_eq!(remove("full/empty").await, Ok(()));
    assert_eq!(remove("full").await, Ok(()));
    assert_eq!(remove("file").await, Ok(()));
    assert_eq!(remove("file").await, Err(ErrorKind::NotFound));
    assert_eq!(remove("link").await, Ok(()));
    assert_eq!(remove("rootlink").await, Ok(()));
    assert_eq!(remove(".").await, Err(ErrorKind::InvalidInput));
    assert_eq!(
        remove(place.root.to_str().unwrap()).await,
        Err(ErrorKind::InvalidInput)
    );
    assert_eq!(read(&place.outside.join("kept")), "kept");
}

#[tokio::test]
async fn only_regular_files_are_read_and_replaced() {
    let place = Place::new().await;
    std::fs::create_dir(place.root.join("dir")).unwrap();
    let fifo = place.root.join("fifo");
    let made = std::process::Command::new("mkfifo")
        .arg(&fifo)
        .status()
        .unwrap();
    assert!(made.success());
    let _socket = std::os::unix::net::UnixListener::bind(place.root.join("socket")).unwrap();
    for path in ["dir", "fifo", "socket", "dir/"] {
        let limit = std::time::Duration::from_secs(5);
        let read = place.session.read_file(path, ReadOptions::default());
        let error = tokio::time::timeout(limit, read)
            .await
            .unwrap()
            .unwrap_err();
        assert!(
            matches!(
                error.kind(),
                ErrorKind::InvalidInput | ErrorKind::Unexpected
            ),
            "{path}: {error}"
        );
        let write = place
            .session
            .write_file(path, b"x".to_vec(), WriteOptions::default());
        let error = tokio::time::timeout(limit, write)
            .await
            .unwrap()
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{path}: {error}");
    }
    assert_eq!(
        place.session.metadata("fifo").await.unwrap().kind,
        FileKind::Other
    );
}

/// Every way out that is known, by reading and by writing. None may touch what
/// is outside, and each says where it would have led.
#[tokio::test]
async fn no_path_leads_out() {
    let place = Place::new().await;
    let secret = place.outside.join("secret");
    std::fs::write(&secret, "secret").unwrap();
    let root = &place.root;
    let outside = place.outside.to_str().unwrap();
    std::fs::create_dir_all(root.join("sub/deep")).unwrap();
    symlink(&secret, root.join("abs")).unwrap();
    symlink("../outside/secret", root.join("rel")).unwrap();
    symlink("../../../outside/secret", root.join("sub/deep/rel")).unwrap();
    symlink("..", root.join("up")).unwrap();
    symlink(&place.outside, root.join("dir")).unwrap();
    symlink("abs", root.join("chain")).unwrap();
    symlink("/proc/self/root", root.join("proc")).unwrap();
    symlink(format!("{outside}/new"), root.join("dangling")).unwrap();
    let secret = secret.to_str().unwrap();
    let magic = format!("/proc/self/root{secret}");
    let through_proc = format!("proc{secret}");
    let dotted = format!("{}/../outside/secret", root.display());
    let sibling = format!("{}-evil/x", root.display());
    let cases: &[(&str, &str)] = &[
        ("../outside/secret", secret),
        ("sub/../../outside/secret", secret),
        ("./sub/deep/../../../outside/secret", secret),
        ("nothere/../../outside/secret", secret),
        (secret, secret),
        (&dotted, secret),
        (&magic, secret),
        (&through_proc, secret),
        ("/proc/self/environ", "environ"),
        ("/etc/passwd", "/etc/passwd"),
        ("abs", secret),
        ("rel", secret),
        ("sub/deep/rel", secret),
        ("chain", secret),
        ("up/outside/secret", secret),
        ("dir/secret", secret),
        ("dangling", "outside/new"),
        (&sibling, "-evil/x"),
    ];
    for (path, leads_to) in cases {
        let denied = |what: &str, error: haft_api::Error| {
            assert_eq!(error.kind(), ErrorKind::Denied, "{what} {path}: {error}");
            let text = error.to_string();
            assert!(text.contains(leads_to), "{what} {path}: {text}");
        };
        let session = &place.session;
        denied(
            "read",
            session
                .read_file(path, ReadOptions::default())
                .await
                .unwrap_err(),
        );
        let options = WriteOptions::default().create_parents();
        denied(
            "write",
            session
                .write_file(path, b"pwned".to_vec(), options)
                .await
                .unwrap_err(),
        );
        denied(
            "list",
            session
                .list(path, ListOptions::default())
                .await
                .unwrap_err(),
        );
        denied("make", session.make_dir(path).await.unwrap_err());
        // These two act on a link itself, which is inside.
        if !root.join(path).is_symlink() {
            denied("look at", session.metadata(path).await.unwrap_err());
            denied("remove", session.remove(path).await.unwrap_err());
        }
        let mut request = haft_api::ProcessSpec::new(support::id(), vec!["true".into()]);
        request.cwd = Some((*path).to_owned());
        denied(
            "start in",
            session.start_process(request).await.unwrap_err(),
        );
    }
    assert_eq!(read(Path::new(secret)), "secret");
    let outside: Vec<_> = std::fs::read_dir(&place.outside).unwrap().collect();
    assert_eq!(outside.len(), 1);
    assert!(!Path::new(&sibling).parent().unwrap().exists());
}

#[tokio::test]
async fn links_that_stay_inside_are_followed() {
    let place = Place::new().await;
    let root = &place.root;
    std::fs::create_dir(root.join("real")).unwrap();
    std::fs::write(root.join("real/file"), "old").unwrap();
    symlink("real/file", root.join("rel")).unwrap();
    symlink(root.join("real/file"), root.join("abs")).unwrap();
    symlink(root.join("real"), root.join("absdir")).unwrap();
    symlink("real", root.join("reldir")).unwrap();
    symlink("real/new", root.join("dangling")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    for path in ["rel", "abs", "absdir/file", "reldir/file", "reldir/../rel"] {
        let text = format!("by {path}");
        place
            .session
            .write_file(path, text.clone().into_bytes(), WriteOptions::default())
            .await
            .unwrap_or_else(|e| panic!("{path}: {e}"));
        assert_eq!(read(&root.join("real/file")), text);
        let back = place
            .session
            .read_file(path, ReadOptions::default())
            .await
            .unwrap();
        assert_eq!(back.bytes, text.as_bytes(), "{path}");
    }
    assert!(root.join("rel").is_symlink() && root.join("abs").is_symlink());
    let options = WriteOptions::default();
    place
        .session
        .write_file("dangling", b"made".to_vec(), options)
        .await
        .unwrap();
    assert_eq!(read(&root.join("real/new")), "made");
    let create = WriteOptions::mode(WriteMode::CreateNew);
    let error = place
        .session
        .write_file("rel", b"x".to_vec(), create)
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AlreadyExists);
    let listed = place
        .session
        .list("absdir", ListOptions::default())
        .await
        .unwrap();
    assert_eq!(listed.entries.len(), 2);
    let error = place
        .session
        .read_file("loop", ReadOptions::default())
        .await
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
    assert!(error.to_string().contains("circle"), "{error}");
    let link = place.session.metadata("abs").await.unwrap();
    assert_eq!(link.kind, FileKind::Symlink);
}

#[tokio::test]
async fn read_roots_are_for_reading() {
    let place = Place::new().await;
    std::fs::write(place.outside.join("lib"), "lib").unwrap();
    symlink(place.outside.join("lib"), place.root.join("link")).unwrap();
    let binding = binding(&place.root, &[&place.outside]);
    let session = place.runner.create(binding).await.unwrap();
    let absolute = place.outside.join("lib");
    for path in ["link", "../outside/lib", absolute.to_str().unwrap()] {
        let data = session
            .read_file(path, ReadOptions::default())
            .await
            .unwrap();
        assert_eq!(data.bytes, b"lib", "{path}");
        let write = session.write_file(path, b"x".to_vec(), WriteOptions::default());
        let error = write.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied, "{path}");
        assert!(error.to_string().contains("may only be read"), "{error}");
        assert!(
            error.to_string().contains(absolute.to_str().unwrap()),
            "{error}"
        );
    }
    assert_eq!(read(&absolute), "lib");
}

/// A link that is swapped back and forth while files are read and written
/// through it: whatever moment is hit, nothing outside is ever touched.
#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread", worker_threads = 3)]
async fn a_link_swapped_in_a_race_does_not_lead_out() {
    let place = Place::new().await;
    let root = place.root.clone();
    std::fs::create_dir(root.join("real")).unwrap();
    for folder in [root.join("real"), place.outside.clone()] {
        std::fs::write(folder.join("f"), folder.to_str().unwrap()).unwrap();
    }
    let inside_text = root.join("real").to_str().unwrap().to_owned();
    std::fs::create_dir(root.join("swap")).unwrap();
    std::fs::write(root.join("swap/f"), &inside_text).unwrap();
    let outside = place.outside.clone();
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let swapper = std::thread::spawn(move || {
        // The folder and the link change places, so that one of them is always
        // there.
        use rustix::fs::{CWD, RenameFlags, renameat_with};
        let (swap, link) = (root.join("swap"), root.join("link"));
        symlink(&outside, &link).unwrap();
        while !stopped.load(std::sync::atomic::Ordering::Relaxed) {
            renameat_with(CWD, &swap, CWD, &link, RenameFlags::EXCHANGE).unwrap();
        }
    });
    let (mut read, mut refused) = (0, 0);
    let start = std::time::Instant::now();
    while start.elapsed() < std::time::Duration::from_secs(2) {
        match place
            .session
            .read_file("swap/f", ReadOptions::default())
            .await
        {
            Ok(data) => {
                assert_ne!(data.bytes, place.outside.to_str().unwrap().as_bytes());
                read += 1;
            }
            Err(_) => refused += 1,
        }
        let write = place
            .session
            .write_file("swap/g", b"x".to_vec(), WriteOptions::default());
        let _ = write.await;
        let made = place.session.make_dir("swap/h/i").await;
        let _ = (made, place.session.remove("swap/f2").await);
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    swapper.join().unwrap();
    assert!(
        read > 0 && refused > 0,
        "the race was never hit: {read} {refused}"
    );
    let outside: Vec<_> = std::fs::read_dir(&place.outside)
        .unwrap()
        .map(|entry| entry.unwrap().file_name())
        .collect();
    assert_eq!(outside, ["f"]);
}

/// Nothing is read-only to root, which tests often run as: then this runs
/// itself again as somebody else.
#[test]
fn a_read_only_file_stays_as_it_is() {
    use std::os::unix::process::CommandExt as _;
    if rustix::process::geteuid().is_root() {
        let name = "a_read_only_file_stays_as_it_is";
        let again = std::process::Command::new(std::env::current_exe().unwrap())
            .args(["--exact", name])
            .uid(65534)
            .gid(65534)
            .output()
            .unwrap();
        let text = String::from_utf8_lossy(&again.stdout);
        assert!(
            again.status.success() && text.contains("1 passed"),
            "{text}"
        );
        return;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let place = Place::new().await;
        let path = place.root.join("f");
        std::fs::write(&path, "old").unwrap();
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o444)).unwrap();
        let write = place
            .session
            .write_file("f", b"new".to_vec(), WriteOptions::default());
        let error = write.await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert!(error.to_string().contains("read-only"), "{error}");
        std::fs::set_permissions(&path, PermissionsExt::from_mode(0o000)).unwrap();
        let error = place
            .session
            .read_file("f", ReadOptions::default())
            .await
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Denied);
        assert_eq!(place.session.metadata("f").await.unwrap().size, 3);
    });
}

#[tokio::test]
async fn a_session_is_resumed_as_long_as_its_folder_is_there() {
    let place = Place::new().await;
    std::fs::write(place.root.join("f"), "x").unwrap();
    let state = place.session.state();
    place.session.close().await.unwrap();
    let closed = place
        .session
        .read_file("f", ReadOptions::default())
        .await
        .unwrap_err();
    assert_eq!(closed.kind(), ErrorKind::Unavailable);
    let resumed = place
        .runner
        .resume(place.binding.clone(), state.clone())
        .await
        .unwrap();
    let Resumed::Session(session) = resumed else {
        panic!("{resumed:?}");
    };
    assert_eq!(session.state().session_id, state.session_id);
    assert_eq!(
        session
            .read_file("f", ReadOptions::default())
            .await
            .unwrap()
            .bytes,
        b"x"
    );
    // Another folder in its place isn't it. (Its number may only be the same
    // while the old one is gone.)
    let old = place.root.with_extension("old");
    std::fs::rename(&place.root, &old).unwrap();
    std::fs::create_dir(&place.root).unwrap();
    let gone = place
        .runner
        .resume(place.binding.clone(), state.clone())
        .await
        .unwrap();
    assert!(matches!(gone, Resumed::Gone { .. }), "{gone:?}");
    std::fs::remove_dir_all(&place.root).unwrap();
    let gone = place
        .runner
        .resume(place.binding.clone(), state.clone())
        .await
        .unwrap();
    assert!(matches!(gone, Resumed::Gone { .. }), "{gone:?}");
    std::fs::write(&place.root, "a file now").unwrap();
    let gone = place
        .runner
        .resume(place.binding.clone(), state)
        .await
        .unwrap();
    assert!(matches!(gone, Resumed::Gone { .. }), "{gone:?}");
    let error = place
        .runner
        .create(place.binding.clone())
        .await
        .err()
        .unwrap();
    assert_eq!(error.kind(), ErrorKind::NotFound);
}

#[tokio::test]
async fn what_a_runner_cannot_do_it_says() {
    let place = Place::new().await;
    let can = place.session.capabilities();
    assert_eq!(can, place.runner.capabilities());
    let confined = [
        can.confines_writes,
        can.confines_reads,
        can.confines_network,
    ];
    assert_eq!(confined, [can.isolation > Isolation::None; 3]);
    assert!(can.kills_process_trees || !cfg!(target_os = "linux"));
    let mut config = config(Mode::Supervised);
    let free = LocalRunner::new(config.clone()).unwrap().capabilities();
    assert!(!free.confines_writes && !free.confines_reads && !free.confines_network);
    assert_eq!(free.isolation, Isolation::None);
    config.supervisor = None;
    let free = LocalRunner::new(config).unwrap().capabilities();
    assert!(free.processes && !free.kills_process_trees && !free.pty);
    let kinds = [
        place.session.pause().await.err().map(|e| e.kind()),
        place.session.detach().await.err().map(|e| e.kind()),
        place.session.snapshot().await.err().map(|e| e.kind()),
    ];
    assert_eq!(kinds, [Some(ErrorKind::Unsupported); 3]);
    let mut odd = place.binding.clone();
    odd.destination.config = haft_api::raw_json(r#"{"image":"debian"}"#).unwrap();
    let error = place.runner.create(odd).await.err().unwrap();
    assert!(error.to_string().contains("image"), "{error}");
    let mut relative = place.binding.clone();
    relative.workspace = "work".into();
    let error = place.runner.create(relative).await.err().unwrap();
    assert_eq!(error.kind(), ErrorKind::InvalidInput);
}
