//! From what JavaScript threw to a failure.

use rquickjs::{Ctx, Error, Function, Object, Value, function::This};

use crate::failure::{Failure, FailureKind};

/// Most bytes of a thrown value that are passed on.
const SHOWN: usize = 1024 * 1024;

/// The failure that an error of the engine's interface stands for.
pub(crate) fn caught(ctx: &Ctx<'_>, error: &Error) -> Failure {
    match error {
        Error::Exception => from_value(ctx, &ctx.catch()),
        Error::Allocation => memory(),
        other => Failure::error(other.to_string()),
    }
}

/// The failure that a thrown value stands for.
pub(crate) fn from_value<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> Failure {
    if let Some(object) = value.as_object() {
        return from_object(ctx, object);
    }
    if value.is_null() {
        let mut failure = Failure::error(
            "the script threw `null` (which is also what is thrown when there is no memory left \
             for an error)",
        );
        failure.short_of_memory = true;
        return failure;
    }
    let shown = text_of(ctx, value);
    let mut failure = Failure::error(match value.is_string() {
        true => shown,
        false => format!("the script threw {shown}"),
    });
    failure.value = json_of(ctx, value);
    failure
}

fn from_object<'js>(ctx: &Ctx<'js>, object: &Object<'js>) -> Failure {
    let field = |name: &str| -> Option<String> {
        let value = get(ctx, object, name)?;
        value.is_string().then(|| text_of(ctx, &value))
    };
    let message = field("message");
    let is_error = object.as_value().is_error() || (message.is_some() && field("stack").is_some());
    if !is_error {
        let json = json_of(ctx, object.as_value());
        let shown = match (message, &json) {
            (Some(message), _) => message,
            (None, Some(json)) => format!("the script threw {json}"),
            (None, None) => "the script threw an object".to_owned(),
        };
        let mut failure = Failure::error(shown);
        failure.value = json;
        return failure;
    }
    let message = message.unwrap_or_default();
    if message == "out of memory" {
        return memory();
    }
    let name = field("name").filter(|name| name != "Error");
    let mut failure = Failure::error(match name {
        Some(name) if message.is_empty() => name,
        Some(name) => format!("{name}: {message}"),
        None if message.is_empty() => "Error".to_owned(),
        None => message,
    });
    if let Some(cause) = get(ctx, object, "cause").filter(|cause| !cause.is_undefined()) {
        let cause = from_value(ctx, &cause);
        failure.message = format!("{}: {}", failure.message, cause.message);
    }
    failure.stack = field("stack").map(|stack| own_frames(&stack));
    failure
}

/// A stack without the host's own frames and the engine's: an author can do
/// nothing about them.
fn own_frames(stack: &str) -> String {
    let own = |line: &&str| !line.contains("(haft:") && !line.ends_with("(native)");
    let mut own: Vec<&str> = stack.lines().filter(own).collect();
    // As the engine ends it.
    own.push("");
    own.join("\n")
}

/// What the skill is told when its memory is used up.
pub(crate) fn memory() -> Failure {
    Failure::new(
        FailureKind::Memory,
        "out of memory: the skill reached its limit (`memory_limit_mb` in manifest.json)",
    )
}

/// A property, unless getting it throws.
fn get<'js>(ctx: &Ctx<'js>, object: &Object<'js>, name: &str) -> Option<Value<'js>> {
    match object.get(name) {
        Ok(value) => Some(value),
        Err(_) => {
            ctx.catch();
            None
        }
    }
}

/// A value as JavaScript's `String` shows it.
pub(crate) fn text_of<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> String {
    let shown = || -> rquickjs::Result<String> {
        let string: Function<'js> = ctx.globals().get("String")?;
        let text: rquickjs::String<'js> = string.call((value.clone(),))?;
        text_from(ctx, &text)
    };
    shown().unwrap_or_else(|_| {
        ctx.catch();
        format!("a value of type {}", value.type_name())
    })
}

/// A string's text; halves of surrogate pairs become U+FFFD.
///
/// # Errors
/// If there is no memory for it.
pub(crate) fn text_from<'js>(
    ctx: &Ctx<'js>,
    text: &rquickjs::String<'js>,
) -> rquickjs::Result<String> {
    match text.to_string() {
        Err(Error::Utf8(_)) => {
            let constructor: Object<'js> = ctx.globals().get("String")?;
            let prototype: Object<'js> = constructor.get("prototype")?;
            let repair: Function<'js> = prototype.get("toWellFormed")?;
            let whole: rquickjs::String<'js> = repair.call((This(text.clone()),))?;
            whole.to_string()
        }
        other => other,
    }
}

fn json_of<'js>(ctx: &Ctx<'js>, value: &Value<'js>) -> Option<String> {
    match crate::json::stringify(ctx, value, SHOWN) {
        Ok(json) => json,
        Err(_) => {
            ctx.catch();
            None
        }
    }
}
