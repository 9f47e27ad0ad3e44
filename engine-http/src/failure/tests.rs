use haft_api::ErrorStatus;

use super::*;

#[test]
fn refusals_get_their_kind_and_whether_a_retry_can_help() {
    let check = |status: u16, body: &str, kind: ErrorKind, temporary: bool, says: &str| {
        let error = from_response(status, body.as_bytes(), None);
        assert_eq!(error.kind(), kind, "{status} {body}");
        assert_eq!(error.is_temporary(), temporary, "{status} {body}");
        assert!(error.message().contains(says), "{error}: no {says:?}");
        assert_eq!(error.context_value("status"), Some(&*status.to_string()));
    };
    use ErrorKind::*;
    let openai = |code: &str, message: &str| {
        format!(
            r#"{{"error":{{"message":"{message}","type":"invalid_request_error","param":null,"code":"{code}"}}}}"#
        )
    };
    check(
        401,
        &openai("invalid_api_key", "Bad key."),
        Denied,
        false,
        "Bad key.",
    );
    check(
        401,
        r#"{"detail":"Invalid API Key"}"#,
        Denied,
        false,
        "Invalid API Key",
    );
    check(
        402,
        r#"{"error":{"message":"Insufficient Balance"}}"#,
        Denied,
        false,
        "Insufficient",
    );
    check(
        403,
        &openai("forbidden", "Forbidden"),
        Denied,
        false,
        "403 Forbidden",
    );
    check(
        404,
        &openai("model_not_found", "no x"),
        NotFound,
        false,
        "no x",
    );
    check(
        404,
        r#"{"error":"Specified model not found: x"}"#,
        NotFound,
        false,
        "model not found: x",
    );
    check(
        400,
        &openai("model_not_found", "no x"),
        NotFound,
        false,
        "no x",
    );
    check(
        400,
        r#"{"error":{"code":400,"message":"a/b is not a valid model ID"}}"#,
        NotFound,
        false,
        "a/b",
    );
    check(
        400,
        r#"{"type":"invalid_model","message":"Invalid model: x","code":"1500"}"#,
        NotFound,
        false,
        "Invalid",
    );
    check(
        400,
        &openai("decimal_above_max_value", "t"),
        InvalidInput,
        false,
        "400 Bad Request: t",
    );
    check(
        400,
        r#"{"code":400,"message":"Temperature","type":"Bad Request"}"#,
        InvalidInput,
        false,
        "Temperature",
    );
    check(
        422,
        r#"{"detail":[{"loc":["body"],"msg":"field required"}]}"#,
        InvalidInput,
        false,
        "field required",
    );
    check(408, "", Timeout, true, "said nothing more");
    check(409, "{}", Busy, true, "409 Conflict");
    check(
        413,
        "<html>too large</html>",
        ContextOverflow,
        false,
        "too large",
    );
    check(
        500,
        &openai("server_error", "oops"),
        Unavailable,
        true,
        "oops",
    );
    check(
        500,
        r#"{"error":{"code":500,"message":"tools param requires --jinja flag","type":"server_error"}}"#,
        Unsupported,
        false,
        "--jinja",
    );
    check(
        500,
        r#"{"error":{"code":500,"message":"image input is not supported - hint: mmproj","type":"server_error"}}"#,
        Unsupported,
        false,
        "image",
    );
    check(501, "", Unsupported, false, "501");
    check(
        502,
        "<html>\n  <b>Bad\tgateway</b>",
        Unavailable,
        true,
        "<html> <b>Bad gateway</b>",
    );
    check(
        503,
        r#"{"error":{"code":503,"message":"Loading model","type":"unavailable_error"}}"#,
        Unavailable,
        true,
        "Loading model",
    );
    check(
        529,
        r#"{"error":{"type":"overloaded_error","message":"Overloaded"}}"#,
        Unavailable,
        true,
        "529: Overloaded",
    );
}

#[test]
fn a_request_that_is_too_long_is_told_apart_whatever_the_server() {
    let check = |status: u16, body: &str| {
        let error = from_response(status, body.as_bytes(), None);
        assert_eq!(error.kind(), ErrorKind::ContextOverflow, "{status} {body}");
        assert!(!error.is_temporary(), "{body}");
    };
    // OpenAI, Azure
    check(
        400,
        r#"{"error":{"message":"This model's maximum context length is 8192 tokens.","code":"context_length_exceeded"}}"#,
    );
    // llama.cpp, old and new
    check(
        400,
        r#"{"error":{"code":400,"message":"the request exceeds the available context size. try increasing it","type":"exceed_context_size_error","n_prompt_tokens":9000,"n_ctx":8192}}"#,
    );
    check(
        500,
        r#"{"error":{"code":500,"message":"the request exceeds the available context size","type":"server_error"}}"#,
    );
    // vLLM
    check(
        400,
        r#"{"object":"error","message":"This model's maximum context length is 4096 tokens. However, you requested 5000 tokens","type":"BadRequestError","code":400}"#,
    );
    // Anthropic behind a router
    check(
        400,
        r#"{"error":{"message":"Provider returned error","code":400,"metadata":{"raw":"{\"message\":\"prompt is too long: 210000 tokens > 200000 maximum\"}"}}}"#,
    );
    // Groq
    check(
        400,
        r#"{"error":{"message":"Please reduce the length of the messages or completion.","type":"invalid_request_error"}}"#,
    );
    // Gemini, in a list
    check(
        400,
        r#"[{"error":{"code":400,"message":"The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).","status":"INVALID_ARGUMENT"}}]"#,
    );
    // Mistral
    check(
        400,
        r#"{"object":"error","message":"Prompt contains 40000 tokens, too large for model with 32768 maximum context length","type":"invalid_request_error","code":"3051"}"#,
    );
    // LM Studio
    check(
        400,
        r#"{"error":"Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"}"#,
    );
    // Ollama
    check(
        400,
        r#"{"error":{"message":"prompt too long; exceeded max context length by 12 tokens"}}"#,
    );
    // xAI
    check(
        400,
        r#"{"code":"Client specified an invalid argument","error":"This model's maximum prompt length is 131072 but the request contains 200000 tokens."}"#,
    );
    // Copilot
    check(
        400,
        r#"{"error":{"message":"prompt token count of 130000 exceeds the limit of 128000","code":"model_max_prompt_tokens_exceeded"}}"#,
    );
    // Qwen
    check(
        400,
        r#"{"error":{"code":"invalid_parameter_error","message":"Range of input length should be [1, 30720]"}}"#,
    );
}

#[test]
fn rate_limits_say_when_to_return_and_quotas_do_not() {
    let check =
        |status: u16, body: &str, header: Option<u64>, temporary: bool, delay: Option<u64>| {
            let error = from_response(status, body.as_bytes(), header);
            assert_eq!(error.kind(), ErrorKind::RateLimited, "{body}");
            assert_eq!(error.is_temporary(), temporary, "{body}");
            assert_eq!(error.retry_after_ms(), delay, "{body}");
        };
    check(429, "", None, true, None);
    check(429, "", Some(2_000), true, Some(2_000));
    check(
        429,
        r#"{"error":{"message":"Rate limit reached. Please try again in 1.5s.","code":"rate_limit_exceeded"}}"#,
        None,
        true,
        Some(1_500),
    );
    check(
        429,
        r#"{"error":{"message":"Rate limit reached. Please try again in 1.5s."}}"#,
        Some(9),
        true,
        Some(9),
    );
    check(
        429,
        r#"{"error":{"message":"slow","retry_after":3}}"#,
        None,
        true,
        Some(3_000),
    );
    check(
        429,
        r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details.","type":"insufficient_quota","code":"insufficient_quota"}}"#,
        Some(5),
        false,
        None,
    );
    check(
        429,
        r#"{"error":{"message":"You exceeded your current quota, please check your plan and billing details."}}"#,
        None,
        false,
        None,
    );
    // Google says the same of a limit per minute, and when to return.
    check(
        429,
        r#"[{"error":{"code":429,"message":"You exceeded your current quota, please check your plan and billing details.","status":"RESOURCE_EXHAUSTED","details":[{"@type":"x","retryDelay":"30s"}]}}]"#,
        None,
        true,
        Some(30_000),
    );
    // Groq answers 413 to a request beyond the tokens a minute.
    check(
        413,
        r#"{"error":{"message":"Request too large for model on tokens per minute (TPM): Limit 6000","type":"tokens","code":"rate_limit_exceeded"}}"#,
        None,
        true,
        None,
    );
    let error = from_response(503, b"", Some(4_000));
    assert_eq!(error.retry_after_ms(), Some(4_000));
    assert!(error.is_temporary());
}

#[test]
fn errors_within_a_stream() {
    let check = |json: &str, kind: ErrorKind, status: ErrorStatus, says: &str| {
        let error = from_stream(&serde_json::from_str(json).unwrap()).unwrap();
        assert_eq!((error.kind(), error.status()), (kind, status), "{json}");
        assert!(error.message().contains(says), "{error}: no {says:?}");
    };
    use ErrorKind::*;
    use ErrorStatus::*;
    check(
        r#"{"message":"Overloaded","type":"overloaded_error"}"#,
        Unavailable,
        Temporary,
        "Overloaded",
    );
    check(r#""boom""#, Unavailable, Temporary, "boom");
    check(
        r#"{"code":502,"message":"Network connection lost."}"#,
        Unavailable,
        Temporary,
        "lost",
    );
    check(
        r#"{"code":429,"message":"Slow down"}"#,
        RateLimited,
        Temporary,
        "Slow down",
    );
    check(
        r#"{"code":"400","message":"no"}"#,
        InvalidInput,
        Permanent,
        "no",
    );
    check(
        r#"{"code":"context_length_exceeded","message":"x"}"#,
        ContextOverflow,
        Permanent,
        "x",
    );
    check(
        r#"{"message":"the request exceeds the available context size"}"#,
        ContextOverflow,
        Permanent,
        "context size",
    );
    check(
        r#"{"code":"insufficient_quota","message":"pay"}"#,
        RateLimited,
        Permanent,
        "pay",
    );
    check(
        r#"{"message":"Incorrect key","code":"invalid_api_key"}"#,
        Denied,
        Permanent,
        "key",
    );
    check(
        r#"{"odd":[1,2]}"#,
        Unavailable,
        Temporary,
        r#"{"odd":[1,2]}"#,
    );
    for nothing in ["null", "false", "{}", "[]", "\"\""] {
        assert!(
            from_stream(&serde_json::from_str(nothing).unwrap()).is_none(),
            "{nothing}"
        );
    }
}

#[test]
fn a_long_body_is_cut() {
    let error = from_response(500, "é ".repeat(100_000).as_bytes(), None);
    assert!(error.message().len() < 1_100, "{}", error.message().len());
    assert!(error.message().ends_with('…'));
    assert!(quote(&"é".repeat(10_000)).len() < 1_010);
}
