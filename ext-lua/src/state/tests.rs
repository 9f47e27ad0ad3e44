//! What becomes of the host's own mistakes.

use std::cell::RefCell;

use super::*;
use crate::failure::FailureKind;
use crate::grants::Grants;
use crate::script::{Place, ScriptLimits};
use haft_script_host::StderrLog;

/// Runs a function of a script to its end; it gets a host function.
fn outcome(make: impl Fn(&Lua, &Rc<Host>) -> Function, body: &str) -> Result<String, Failure> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let settings = Arc::new(Settings::default());
    let pulse = Arc::new(Pulse::new());
    let (lua, host) = new(
        settings,
        Arc::new(StderrLog::new("lua")),
        pulse,
        Box::new(|| {}),
    )
    .unwrap();
    let place = Place {
        name: "t".to_owned(),
        main: "/t.lua".into(),
        own: "/t.lua".into(),
    };
    let script = Script::new(
        place,
        Grants::default(),
        ScriptLimits::default(),
        Arc::new(StderrLog::new("lua")),
        None,
    );
    let told = Rc::new(RefCell::new(None));
    let tell = Rc::clone(&told);
    let (scheduler, state) = (Rc::clone(&host.scheduler), lua);
    tokio::task::LocalSet::new().block_on(&runtime, async move {
        let function: Function = state.load(format!("return {body}")).eval().unwrap();
        let task = NewTask {
            id: None,
            what: "a test".into(),
            script,
            call: None,
            function,
            arguments: Given::Any(MultiValue::from_iter([Value::Function(make(
                &state, &host,
            ))])),
            deadline: None,
            on_end: Rc::new(move |_, outcome| {
                *tell.borrow_mut() = Some(outcome.map(|(first, _)| first.to_string().unwrap()));
            }),
        };
        scheduler.spawn(&state, task).unwrap();
        for _ in 0..100 {
            scheduler.run(&state);
            tokio::task::yield_now().await;
        }
    });
    told.take().expect("it ended")
}

const CATCHING: &str =
    "function(f) local ok = pcall(f) pcall(f) return 'caught ' .. tostring(ok) end";

#[test]
fn a_panic_of_the_host_is_no_scripts_to_catch() {
    let check = |make: &dyn Fn(&Lua, &Rc<Host>) -> Function, words: &str| {
        let failure = outcome(make, CATCHING).unwrap_err();
        assert_eq!(failure.kind, FailureKind::Panic);
        assert!(failure.message.contains(words), "{failure}");
    };
    check(
        &|lua, host| {
            let panics = |_: &Lua, (): ()| -> Result<(), String> { panic!("at once") };
            host.immediate(lua, panics).unwrap()
        },
        "at once",
    );
    check(
        &|lua, host| {
            let panics = |_: &Lua, (): ()| -> Result<(), String> { panic!("plainly") };
            host.plain(lua, panics).unwrap()
        },
        "plainly",
    );
    check(
        &|lua, host| {
            host.awaiting(lua, "later", |_, (): ()| {
                Ok(async {
                    tokio::task::yield_now().await;
                    panic!("later")
                })
            })
            .unwrap()
        },
        "later",
    );
    check(
        &|lua, host| {
            host.awaiting(lua, "soon", |_, (): ()| Ok(async { panic!("soon") }))
                .unwrap()
        },
        "soon",
    );
}

#[test]
fn an_error_of_the_host_is_one_that_scripts_catch() {
    let refuses = |lua: &Lua, host: &Rc<Host>| {
        host.immediate(lua, |_, (): ()| Err::<(), _>("no".to_owned()))
            .unwrap()
    };
    assert_eq!(outcome(refuses, CATCHING).unwrap(), "caught false");
}
