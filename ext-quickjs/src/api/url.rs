//! URLs, by the crate that browsers' standard is written into.

use std::rc::Rc;

use rquickjs::{Ctx, Function, Object};
use url::{Url, form_urlencoded, quirks};

use crate::native::Native;

/// Its parts, in the order that `url.js` reads them.
fn parts(url: &Url) -> Vec<String> {
    let origin = quirks::origin(url);
    [
        quirks::href(url),
        &origin,
        quirks::protocol(url),
        quirks::username(url),
        quirks::password(url),
        quirks::host(url),
        quirks::hostname(url),
        quirks::port(url),
        quirks::pathname(url),
        quirks::search(url),
        quirks::hash(url),
    ]
    .map(str::to_owned)
    .to_vec()
}

fn parse(text: &str, base: Option<&str>) -> Option<Url> {
    match base {
        Some(base) => Url::parse(base).ok()?.join(text).ok(),
        None => Url::parse(text).ok(),
    }
}

/// Sets a part; what a part can't be leaves the URL as it is.
fn set(url: &mut Url, part: &str, value: &str) -> bool {
    match part {
        "href" => return quirks::set_href(url, value).is_ok(),
        "protocol" => quirks::set_protocol(url, value).is_ok(),
        "username" => quirks::set_username(url, value).is_ok(),
        "password" => quirks::set_password(url, value).is_ok(),
        "host" => quirks::set_host(url, value).is_ok(),
        "hostname" => quirks::set_hostname(url, value).is_ok(),
        "port" => quirks::set_port(url, value).is_ok(),
        "pathname" => {
            quirks::set_pathname(url, value);
            true
        }
        "search" => {
            quirks::set_search(url, value);
            true
        }
        _ => {
            quirks::set_hash(url, value);
            true
        }
    };
    true
}

pub(super) fn equip<'js>(
    ctx: &Ctx<'js>,
    table: &Object<'js>,
    _: &Rc<Native>,
) -> rquickjs::Result<()> {
    let parsed = |text: String, base: Option<String>| -> Option<Vec<String>> {
        parse(&text, base.as_deref()).as_ref().map(parts)
    };
    table.set("urlParse", Function::new(ctx.clone(), parsed)?)?;
    let changed = |href: String, part: String, value: String| -> Option<Vec<String>> {
        let mut url = Url::parse(&href).ok()?;
        set(&mut url, &part, &value).then(|| parts(&url))
    };
    table.set("urlSet", Function::new(ctx.clone(), changed)?)?;
    let read = |text: String| -> Vec<Vec<String>> {
        form_urlencoded::parse(text.as_bytes())
            .map(|(name, value)| vec![name.into_owned(), value.into_owned()])
            .collect()
    };
    table.set("formRead", Function::new(ctx.clone(), read)?)?;
    let write = |pairs: Vec<Vec<String>>| -> String {
        let mut text = form_urlencoded::Serializer::new(String::new());
        for pair in &pairs {
            if let [name, value] = &**pair {
                text.append_pair(name, value);
            }
        }
        text.finish()
    };
    table.set("formWrite", Function::new(ctx.clone(), write)?)
}
