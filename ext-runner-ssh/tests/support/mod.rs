//! What the tests share: a runner for a real server.
#![allow(dead_code, reason = "each test uses a part of it")]

pub(crate) mod server;

use std::path::Path;

use haft_api::{Binding, Destination, DestinationId, raw_json};
use haft_ext_runner_ssh::{SshConfig, SshRunner};

#[allow(unused_imports, reason = "each test uses a part of it")]
pub(crate) use server::{Server, pids, server};

impl Server {
    /// Settings that use nothing of the user's own.
    pub(crate) fn config(&self) -> SshConfig {
        let at = |name: &str| self.folder.path().join(name);
        let mut config = SshConfig::default();
        config.host = Some("127.0.0.1".to_owned());
        config.port = Some(self.port);
        config.identity_file = Some(at("user"));
        config.known_hosts_file = Some(at("known"));
        config.config_file = Some("/dev/null".into());
        config.state_folder = Some(at("state").display().to_string());
        config.connect_timeout_ms = 60_000;
        config
    }

    pub(crate) fn runner(&self) -> SshRunner {
        SshRunner::new(self.config()).unwrap()
    }
}

pub(crate) fn binding(workspace: &Path) -> Binding {
    Binding {
        destination: Destination {
            id: DestinationId::new("thread-1").unwrap(),
            provider_id: SshRunner::ID.try_into().unwrap(),
            config: raw_json("{}").unwrap(),
            manifest: None,
        },
        workspace: workspace.display().to_string(),
        read_roots: Vec::new(),
    }
}
