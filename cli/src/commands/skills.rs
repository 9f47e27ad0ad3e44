//! `haft skills`: skills, one by one.

use std::io::{Read as _, Write as _};

use haft_ext_quickjs::{QuickJsHost, RpcAnswer, SkillSnapshot};

use crate::args::{PlaceArgs, SkillPlaceArgs, SkillsCommand};
use crate::commands::{block_on, print};
use crate::config::{Environment, Layer, Settings, Sources};
use crate::failure::{DONE, Failure, Outcome};
use crate::render::write_line;
use crate::scripts;

pub(super) fn run(command: &SkillsCommand, place: &PlaceArgs) -> Outcome {
    match command {
        SkillsCommand::List { json, place: at } => list(&host(place, at)?, *json),
        SkillsCommand::Start { id, place: at } => {
            let host = host(place, at)?;
            block_on(async {
                let started = host.start(id).await?;
                host.choose(id, true)?;
                host.stop(id).await?;
                show(&host, &started, false)
            })
        }
        SkillsCommand::Stop { id, place: at } => {
            let host = host(place, at)?;
            let snapshot = host.snapshot(id)?;
            host.choose(id, false)?;
            show(&host, &snapshot, false)
        }
        SkillsCommand::Status {
            id,
            json,
            place: at,
        } => {
            let host = host(place, at)?;
            show(&host, &host.snapshot(id)?, *json)
        }
        SkillsCommand::Rpc {
            id,
            method,
            params,
            place: at,
        } => {
            let params = parameters(params.as_deref())?;
            let host = host(place, at)?;
            block_on(rpc(&host, id, method, &params))
        }
    }
}

/// A host that has looked for skills, and started none.
fn host(place: &PlaceArgs, at: &SkillPlaceArgs) -> Outcome<QuickJsHost> {
    let environment = Environment::of_process();
    let mut settings = Settings::load(Sources {
        place,
        environment: &environment,
        workspace: None,
        flags: Layer::default(),
    })?;
    scripts::equip(&mut settings, place, &environment, &at.ext)?;
    let mut settings = settings
        .extension(scripts::QUICKJS)?
        .parse::<haft_ext_quickjs::Settings>()
        .map_err(Failure::usage)?;
    // One call, and the program ends.
    settings.reload = Some(false);
    let host = QuickJsHost::new(settings)?;
    host.discover();
    Ok(host)
}

fn parameters(text: Option<&str>) -> Outcome<serde_json::Value> {
    let text = match text {
        None => return Ok(serde_json::Value::Null),
        Some("-") => {
            let mut text = String::new();
            std::io::stdin()
                .read_to_string(&mut text)
                .map_err(|e| Failure::failed(format!("can't read standard input: {e}")))?;
            text
        }
        Some(text) => text.to_owned(),
    };
    serde_json::from_str(&text)
        .map_err(|e| Failure::usage(format!("the parameters aren't JSON: {e}")))
}

fn list(host: &QuickJsHost, json: bool) -> Outcome {
    let skills = host.snapshots();
    let width = skills.iter().map(|skill| skill.id.len()).max().unwrap_or(0);
    print(|out| {
        skills.iter().try_for_each(|skill| match json {
            true => write_line(out, skill),
            false => {
                let starts = match host.starts(&skill.id) {
                    Ok(true) => "starts",
                    _ => "off",
                };
                let about = skill.description.as_deref().unwrap_or(&skill.name);
                writeln!(out, "{:width$}  {starts:6}  {about}", skill.id)
            }
        })
    })?;
    Ok(DONE)
}

fn show(host: &QuickJsHost, skill: &SkillSnapshot, json: bool) -> Outcome {
    let starts = host.starts(&skill.id)?;
    print(|out| {
        if json {
            return write_line(out, skill);
        }
        writeln!(out, "skill    {} ({})", skill.id, skill.name)?;
        if let Some(version) = &skill.version {
            writeln!(out, "version  {version}")?;
        }
        writeln!(
            out,
            "starts   {}",
            if starts { "with the host" } else { "by hand" }
        )?;
        for tool in &skill.tools {
            writeln!(out, "tool     {tool}")?;
        }
        if let Some(error) = &skill.error {
            writeln!(out, "error    {error}")?;
        }
        writeln!(out, "state    {}", skill.state)
    })?;
    Ok(DONE)
}

async fn rpc(host: &QuickJsHost, id: &str, method: &str, params: &serde_json::Value) -> Outcome {
    host.start(id).await?;
    let answer = host.rpc(id, method, params).await;
    host.stop(id).await?;
    match answer? {
        RpcAnswer::Value(value) => {
            let text = value.as_ref().map_or("null", |value| value.get());
            print(|out| writeln!(out, "{text}"))?;
            Ok(DONE)
        }
        _ => Err(Failure::failed(format!(
            "the skill `{id}` has no hook for the method `{method}`"
        ))),
    }
}
