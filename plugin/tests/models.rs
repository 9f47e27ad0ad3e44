//! The host's model through the boundary.

use std::sync::Arc;

use haft_api::{
    Error, ErrorKind, ModelAnswer, ModelRequest, ModelService, Result, ToolContext, ToolOutput,
    Usage, async_trait, join_text,
};
use haft_testkit::{FnTool, Tools, fixture};

mod support;

use support::{Loaded, context, within};

/// Says back what it is asked; `no` is denied, `never` isn't answered.
struct Echo;

#[async_trait]
impl ModelService for Echo {
    async fn generate(&self, request: ModelRequest) -> Result<ModelAnswer> {
        let asked = join_text(&request.input);
        match &*asked {
            "no" => return Err(Error::new(ErrorKind::Denied, "too dear").permanent()),
            "never" => std::future::pending().await,
            _ => {}
        }
        let text = format!("{}: {asked}", request.instructions);
        let mut answer = ModelAnswer::new(fixture::extension_id("echo"), text);
        answer.usage = Usage {
            input: Some(7),
            ..Usage::default()
        };
        Ok(answer)
    }
}

fn loaded() -> Loaded {
    Loaded::in_process(|registry| {
        let ask = FnTool::new("ask", |call, context| async move {
            let request = ModelRequest::text(call.arguments.get()).instructions("briefly");
            let answer = context.model()?.generate(request).await?;
            let tokens = answer.usage.input.unwrap_or_default();
            Ok(ToolOutput::text(format!(
                "{} {} {tokens}",
                answer.text, answer.engine
            )))
        });
        registry.tools(Arc::new(Tools::new().with(ask)));
    })
}

#[tokio::test]
async fn a_tool_asks_the_hosts_model() {
    let loaded = loaded();
    let with = || -> ToolContext { context().with_model(Arc::new(Echo)) };
    let told = loaded.text_in(with(), "ask", r#"{"a":"ü"}"#).await;
    assert_eq!(told, r#"briefly: {"a":"ü"} echo 7"#);
    // Without one it is told so, in a word that programs know.
    let refused = loaded.call("ask", "{}").await.unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Unsupported);
    loaded.at_rest().await;
}

#[tokio::test]
async fn its_errors_come_back_and_dropping_ends_it() {
    let loaded = Loaded::in_process(|registry| {
        let ask = |name: &'static str| {
            FnTool::new(name, move |_, context| async move {
                context.model()?.generate(ModelRequest::text(name)).await?;
                Ok(ToolOutput::text("answered"))
            })
        };
        registry.tools(Arc::new(Tools::new().with(ask("no")).with(ask("never"))));
    });
    let with = || -> ToolContext { context().with_model(Arc::new(Echo)) };
    let denied = loaded.call_in(with(), "no", "{}").await.unwrap_err();
    assert_eq!(denied.kind(), ErrorKind::Denied);
    assert!(!denied.is_temporary() && denied.to_string().contains("too dear"));
    let asking = loaded.call_in(with(), "never", "{}");
    let cut = tokio::time::timeout(std::time::Duration::from_millis(50), asking).await;
    assert!(cut.is_err());
    within(loaded.at_rest()).await;
}
