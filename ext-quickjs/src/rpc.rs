//! From methods that a program calls to hooks of a skill.

/// All hooks, in the order of the documentation.
pub(crate) const HOOKS: &[&str] = &[
    "onLoad",
    "onPing",
    "onSync",
    "onTick",
    "onCronTrigger",
    "onServerEvent",
    "onSetupStart",
    "onSetupSubmit",
    "onSetupCancel",
    "onListOptions",
    "onSetOption",
    "onSessionStart",
    "onSessionEnd",
    "onOAuthComplete",
    "onOAuthRevoked",
    "onError",
    "onRpc",
];

/// What a hook is given of a method's parameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Given {
    Nothing,
    /// The parameters as one argument.
    Params,
    /// `event` and `data` of the parameters, as two.
    Event,
    /// `{method, params}`.
    Whole,
}

/// What happens besides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Besides {
    Nothing,
    /// The answer says how the skill is.
    Health,
    /// The parameters are kept as the credential, before.
    KeepCredential,
    /// The credential is forgotten, before: a crash in between ends revoked.
    ForgetCredential,
}

/// Where a method goes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Route {
    pub(crate) method: &'static str,
    pub(crate) hook: &'static str,
    pub(crate) given: Given,
    pub(crate) besides: Besides,
}

const fn route(method: &'static str, hook: &'static str, given: Given) -> Route {
    Route {
        method,
        hook,
        given,
        besides: Besides::Nothing,
    }
}

/// The methods there are.
pub(crate) const ROUTES: &[Route] = &[
    route("load", "onLoad", Given::Params),
    Route {
        besides: Besides::Health,
        ..route("ping", "onPing", Given::Nothing)
    },
    route("sync", "onSync", Given::Nothing),
    route("tick", "onTick", Given::Nothing),
    route("event", "onServerEvent", Given::Event),
    route("setup/start", "onSetupStart", Given::Nothing),
    route("setup/submit", "onSetupSubmit", Given::Params),
    route("setup/cancel", "onSetupCancel", Given::Nothing),
    route("options/list", "onListOptions", Given::Nothing),
    route("options/set", "onSetOption", Given::Params),
    route("session/start", "onSessionStart", Given::Params),
    route("session/end", "onSessionEnd", Given::Params),
    Route {
        besides: Besides::KeepCredential,
        ..route("oauth/complete", "onOAuthComplete", Given::Params)
    },
    Route {
        besides: Besides::ForgetCredential,
        ..route("oauth/revoked", "onOAuthRevoked", Given::Params)
    },
];

/// Where a method goes; one that isn't known goes to `onRpc`.
pub(crate) fn find(method: &str) -> Route {
    let known = ROUTES.iter().find(|route| route.method == method);
    known.copied().unwrap_or(route("", "onRpc", Given::Whole))
}

impl Given {
    /// The hook's arguments, as a JSON array.
    pub(crate) fn arguments(self, method: &str, params: &serde_json::Value) -> String {
        use serde_json::json;
        match self {
            Self::Nothing => json!([]),
            Self::Params => json!([params]),
            Self::Event => json!([params["event"], params["data"]]),
            Self::Whole => json!([{"method": method, "params": params}]),
        }
        .to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Hooks that the host calls by itself, or by no method of their own.
    const BY_THE_HOST: &[&str] = &["onCronTrigger", "onError", "onRpc"];

    #[test]
    fn every_hook_is_reached_by_exactly_one_way() {
        for hook in HOOKS {
            let methods = ROUTES.iter().filter(|route| route.hook == *hook).count();
            let expected = usize::from(!BY_THE_HOST.contains(hook));
            assert_eq!(methods, expected, "{hook}");
        }
        for route in ROUTES {
            assert!(HOOKS.contains(&route.hook), "{}", route.hook);
            assert_eq!(find(route.method).hook, route.hook);
        }
        assert_eq!(find("anything").hook, "onRpc");
    }

    #[test]
    fn arguments_are_as_the_hook_wants_them() {
        let params = serde_json::json!({"event": "e", "data": 1});
        for (given, expected) in [
            (Given::Nothing, r#"[]"#),
            (Given::Params, r#"[{"data":1,"event":"e"}]"#),
            (Given::Event, r#"["e",1]"#),
            (
                Given::Whole,
                r#"[{"method":"m","params":{"data":1,"event":"e"}}]"#,
            ),
        ] {
            assert_eq!(given.arguments("m", &params), expected);
        }
    }
}
