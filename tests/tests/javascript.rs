//! Skills as an author and a user have them: folders, and the real binary.

use std::path::Path;
use std::sync::Arc;

use futures::{SinkExt as _, StreamExt as _};
use haft_tests::{Running, World, call, text};
use serde_json::{Value, json};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ServerConfig, crypto};

/// A skill's folder in the workspace.
fn skill(world: &World, id: &str, grants: &Value, script: &str) {
    let folder = world.workspace().join(id);
    std::fs::create_dir_all(&folder).unwrap();
    let manifest = json!({"id": id, "name": id, "runtime": "quickjs", "grants": grants});
    world.file(&format!("{id}/manifest.json"), manifest.to_string());
    world.file(&format!("{id}/index.js"), script);
}

const BRIEF: &str = r#"
export default {
  tools: [
    { name: "brief", effects: "pure", async execute({ text }) {
      const [short, all] = await Promise.all([model.summarize(text, { maxWords: 7 }), model.answer("why?")]);
      return [short, all.text, all.usage.input];
    } },
    { name: "inner", effects: "pure", execute: ({ text }) => skills.callTool("brief", "brief", { text }) },
  ],
  async onPing() { try { await model.generate("x"); } catch (error) { console.warn(error.name); } },
};
"#;

#[test]
fn a_skill_asks_the_turns_model_and_the_turn_pays() {
    let world = World::new();
    skill(&world, "brief", &json!({"model": true}), BRIEF);
    let said = |words: &str, input: u64| {
        vec![
            json!({"type": "text", "text": words}),
            json!({"type": "usage", "input": input, "output": 1}),
        ]
    };
    for tool in ["brief", "inner"] {
        let rounds = [
            vec![
                call(
                    "a",
                    &format!("brief__{tool}"),
                    json!({"text": "a long story"}),
                ),
                json!({"type": "usage", "input": 10, "output": 1}),
            ],
            said("asked", 200),
            said("asked", 200),
            said("done", 30),
        ];
        let turn = world.turn(&rounds, &["--ext", "brief", "--json"]);
        let run = world.run(turn).expect(0);
        let events = run.json_lines();
        let expected = format!(r#"brief__{tool}: ["asked","asked",200]"#);
        assert_eq!(world.outcomes(), [expected]);
        let end = events
            .iter()
            .find(|event| event["type"] == "turn.completed");
        assert_eq!(end.unwrap()["usage"]["input"], 440, "{events:?}");
        // Outside of a turn there is none.
        assert!(run.stderr.contains("NotSupportedError"), "{}", run.stderr);
    }
}

#[test]
fn what_isnt_granted_isnt_asked() {
    let world = World::new();
    skill(&world, "brief", &json!({}), BRIEF);
    let rounds = [
        vec![call("a", "brief__brief", json!({"text": "a"}))],
        text("done"),
    ];
    world
        .run(world.turn(&rounds, &["--ext", "brief"]))
        .expect(0);
    let outcomes = world.outcomes();
    assert!(
        outcomes[0].contains("lacks the grant `model`"),
        "{outcomes:?}"
    );
    // Without a turn nobody pays.
    skill(&world, "brief", &json!({"model": true}), BRIEF);
    let alone = world.run([
        "tools",
        "call",
        "brief__brief",
        r#"{"text":"a"}"#,
        "--ext",
        "brief",
    ]);
    let shown = alone.stdout + &alone.stderr;
    assert!(shown.contains("it isn't part of a turn"), "{shown}");
}

#[test]
fn a_chat_takes_the_slash_commands_of_skills() {
    let world = World::new();
    let script = r#"
let said = [];
export default {
  tools: [{ name: "said", effects: "pure", execute: () => said.join("|") }],
  commands: [
    { name: "say", description: "Says it.", execute(text) { said.push(text); return "said " + text; } },
    { name: "oops", description: "Fails.", execute() { throw new Error("no luck"); } },
  ],
};
"#;
    skill(&world, "talk", &json!({}), script);
    let other = "export default { commands: [{ name: 'say', execute: () => 'other' }] };";
    skill(&world, "zz", &json!({}), other);
    let rounds = [vec![call("a", "talk__said", json!({}))], text("heard")];
    let script = world.script(&rounds);
    let script = script.to_str().unwrap();
    let mut chat = Running::talk(world.haft([
        "chat", "--engine", "replay", "--model", script, "--ext", "talk", "--ext", "zz",
    ]));
    for line in ["/help", "/say one  two", "/oops", "what was said?"] {
        chat.say(line);
    }
    let done = chat.finish().expect(0);
    let lines: Vec<_> = done.stdout.lines().collect();
    assert!(lines.contains(&"/say      Says it."), "{lines:?}");
    assert!(lines.contains(&"said one  two"), "{lines:?}");
    assert!(done.stdout.contains("heard"), "{lines:?}");
    assert!(done.stderr.contains("no luck"), "{}", done.stderr);
    let words = "another skill has a command of this name";
    assert!(done.stderr.contains(words), "{}", done.stderr);
    let outcomes = world.outcomes();
    assert!(outcomes[0].contains("one  two"), "{outcomes:?}");
}

/// A server of WebSockets over TLS that says everything back, on a thread of its
/// own; its port. Its certificate is for `localhost`, by the authority `ca.pem`
/// in the folder.
fn secure_echo(folder: &Path) -> u16 {
    let certificate = CertificateDer::from_pem_file(folder.join("server.pem")).unwrap();
    let key = PrivateKeyDer::from_pem_file(folder.join("server.key")).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async move {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                // Fails where the client doesn't accept the certificate.
                let Ok(stream) = acceptor.accept(stream).await else {
                    continue;
                };
                let mut socket = tokio_tungstenite::accept_async(stream).await.unwrap();
                while let Some(Ok(frame)) = socket.next().await {
                    if frame.is_text() {
                        socket.send(frame).await.unwrap();
                    }
                }
            }
        });
    });
    port
}

#[test]
fn a_secure_websocket_trusts_what_the_system_trusts() {
    let certificates =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../ext-engine-openai/tests/wire/tls");
    let port = secure_echo(&certificates);
    let world = World::new();
    let script = r#"
export default {
  tools: [{ name: "echo", async execute({ url }) {
    const socket = new WebSocket(url);
    return new Promise((done) => {
      socket.onopen = () => socket.send("said over TLS");
      socket.onmessage = (event) => { socket.close(); done(event.data); };
      socket.onerror = (event) => done(event.message);
    });
  } }],
};
"#;
    skill(&world, "wire", &json!({"network": ["localhost"]}), script);
    for (trusts, expected) in [(true, "said over TLS"), (false, "TLS: ")] {
        let arguments = json!({"url": format!("wss://localhost:{port}/")}).to_string();
        let mut command = world.haft(["tools", "call", "--ext", "wire", "wire__echo", &arguments]);
        if trusts {
            command.env("SSL_CERT_FILE", certificates.join("ca.pem"));
        }
        let done = Running::start(command).finish();
        let shown = done.stdout + &done.stderr;
        assert!(shown.contains(expected), "trusts: {trusts}: {shown}");
    }
}
