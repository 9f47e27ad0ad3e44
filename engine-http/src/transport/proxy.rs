//! The proxy on the way to a server.

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use haft_api::{Error, ErrorKind, Result};
use http::{HeaderValue, Uri};
use hyper_util::client::proxy::matcher::Matcher;
use percent_encoding::percent_decode_str;
use url::{Host, Url};

use crate::endpoint::shown;
use crate::server::PROXY_OF_ENVIRONMENT;

/// An HTTP proxy.
#[derive(Clone)]
pub(super) struct Proxy {
    uri: Uri,
    is_https: bool,
    /// The user and password of its URL, as a header's value.
    authorization: Option<HeaderValue>,
    shown: String,
}

impl Proxy {
    /// The proxy that the setting names for this server. `variable` reads the
    /// environment, which is asked only if the setting says so.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for what isn't an HTTP proxy's URL. It isn't
    /// quoted: it may hold a password.
    pub(super) fn of_setting(
        setting: &str,
        server: &Url,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>> {
        match setting {
            "" => Ok(None),
            PROXY_OF_ENVIRONMENT => Self::of_environment(server, variable),
            url => Self::parse(url, "proxy").map(Some),
        }
    }

    fn of_environment(
        server: &Url,
        variable: impl Fn(&str) -> Option<String>,
    ) -> Result<Option<Self>> {
        let set = |name: &str| variable(name).filter(|value| !value.is_empty());
        let either = |upper: &'static str, lower: &'static str| {
            [upper, lower]
                .into_iter()
                .find_map(|name| Some((name, set(name)?)))
        };
        if is_of_this_machine(server) {
            return Ok(None);
        }
        let own = match server.scheme() {
            "https" => either("HTTPS_PROXY", "https_proxy"),
            // To a CGI program it is a header of whoever asks it.
            _ if set("REQUEST_METHOD").is_some() => either("http_proxy", "http_proxy"),
            _ => either("HTTP_PROXY", "http_proxy"),
        };
        let Some((name, url)) = own.or_else(|| either("ALL_PROXY", "all_proxy")) else {
            return Ok(None);
        };
        let excepted = either("NO_PROXY", "no_proxy").is_some_and(|(_, list)| {
            let others = Matcher::builder().all("http://p").no(list).build();
            uri_of_server(server).is_some_and(|uri| others.intercept(&uri).is_none())
        });
        match excepted {
            true => Ok(None),
            false => Self::parse(&url, name).map(Some),
        }
    }

    fn parse(text: &str, name: &str) -> Result<Self> {
        let refuse = || {
            Error::new(
                ErrorKind::InvalidInput,
                format!("`{name}` isn't the URL of an HTTP proxy (http://… or https://…)"),
            )
        };
        // A host and a port alone mean HTTP.
        let text = match text.contains("://") {
            true => text.to_owned(),
            false => format!("http://{text}"),
        };
        let url = Url::parse(&text).map_err(|_| refuse())?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(refuse());
        }
        Ok(Self {
            uri: uri_of_server(&url).ok_or_else(refuse)?,
            is_https: url.scheme() == "https",
            authorization: basic_authorization(&url),
            shown: shown(&text),
        })
    }

    /// Scheme, host and port.
    pub(super) fn uri(&self) -> &Uri {
        &self.uri
    }

    pub(super) fn is_https(&self) -> bool {
        self.is_https
    }

    /// What tells it who asks.
    pub(super) fn authorization(&self) -> Option<&HeaderValue> {
        self.authorization.as_ref()
    }

    /// As it may be shown.
    pub(super) fn shown(&self) -> &str {
        &self.shown
    }
}

fn is_of_this_machine(server: &Url) -> bool {
    match server.host() {
        Some(Host::Ipv4(address)) => address.is_loopback(),
        Some(Host::Ipv6(address)) => address.is_loopback(),
        Some(Host::Domain(name)) => name == "localhost" || name.ends_with(".localhost"),
        None => false,
    }
}

/// The user and password that stand in a URL, as a header's value.
pub(super) fn basic_authorization(url: &Url) -> Option<HeaderValue> {
    if url.username().is_empty() && url.password().is_none() {
        return None;
    }
    let mut login: Vec<u8> = percent_decode_str(url.username()).collect();
    login.push(b':');
    login.extend(percent_decode_str(url.password().unwrap_or_default()));
    let value = format!("Basic {}", BASE64_STANDARD.encode(login));
    let mut value = HeaderValue::try_from(value).ok()?;
    value.set_sensitive(true);
    Some(value)
}

/// Scheme, host and port alone.
pub(super) fn uri_of_server(url: &Url) -> Option<Uri> {
    let host = url.host_str().filter(|host| !host.is_empty())?;
    let port = url.port_or_known_default()?;
    let uri = Uri::builder()
        .scheme(url.scheme())
        .authority(format!("{host}:{port}"));
    uri.path_and_query("/").build().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(url: &str) -> Url {
        Url::parse(url).unwrap()
    }

    #[test]
    fn proxies_are_read_with_their_passwords() {
        let check = |text: &str, uri: &str, authorization: Option<&str>| {
            let proxy = Proxy::parse(text, "proxy").unwrap();
            assert_eq!(proxy.uri().to_string(), uri, "{text}");
            let value = proxy.authorization().map(|value| value.to_str().unwrap());
            assert_eq!(value, authorization, "{text}");
            assert!(!proxy.shown().contains("sesame"), "{}", proxy.shown());
        };
        check("http://p.test", "http://p.test:80/", None);
        check("p.test:3128", "http://p.test:3128/", None);
        check("https://p.test/ignored?x", "https://p.test:443/", None);
        check("http://[::1]:8080", "http://[::1]:8080/", None);
        // `Aladdin:open sesame`, as in RFC 7617.
        let basic = "Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ==";
        check(
            "http://Aladdin:open%20sesame@p.test:1",
            "http://p.test:1/",
            Some(basic),
        );
        for text in ["::", "", "socks5://u:sesame@p.test", "http://"] {
            let error = Proxy::parse(text, "proxy").err().expect(text);
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            assert!(error.message().contains("`proxy`"), "{error}");
            assert!(!error.to_string().contains("sesame"), "{error}");
        }
    }

    #[test]
    fn the_environment_says_which_proxy_and_for_whom_none() {
        let check = |url: &str, variables: &[(&str, &str)], expected: Option<&str>| {
            let read = |name: &str| {
                let found = variables.iter().find(|(known, _)| *known == name);
                found.map(|(_, value)| (*value).to_owned())
            };
            let proxy = Proxy::of_setting(PROXY_OF_ENVIRONMENT, &server(url), read).unwrap();
            let uri = proxy.map(|proxy| proxy.uri().to_string());
            assert_eq!(uri.as_deref(), expected, "{url} {variables:?}");
        };
        let https = "https://api.test/v1";
        let http = "http://api.test/v1";
        let p = Some("http://p:1/");
        check(https, &[], None);
        check(https, &[("HTTPS_PROXY", "http://p:1")], p);
        check(https, &[("https_proxy", "p:1")], p);
        check(https, &[("HTTPS_PROXY", ""), ("https_proxy", "p:1")], p);
        check(https, &[("HTTP_PROXY", "http://p:1")], None);
        check(https, &[("all_proxy", "http://p:1")], p);
        check(
            https,
            &[("HTTPS_PROXY", "http://p:1"), ("ALL_PROXY", "http://q:1")],
            p,
        );
        check(http, &[("HTTP_PROXY", "http://p:1")], p);
        check(http, &[("HTTPS_PROXY", "http://p:1")], None);
        // A header `Proxy:` would otherwise choose a CGI program's proxy.
        let cgi = ("REQUEST_METHOD", "GET");
        check(http, &[cgi, ("HTTP_PROXY", "http://p:1")], None);
        check(http, &[cgi, ("http_proxy", "http://p:1")], p);

        let except = |url: &str, list: &str, expected: Option<&str>| {
            check(
                url,
                &[("HTTPS_PROXY", "http://p:1"), ("NO_PROXY", list)],
                expected,
            );
        };
        except(https, "api.test", None);
        except(https, "other.test, .test", None);
        except(https, "*", None);
        except(https, "i.test", p);
        except("https://10.1.2.3/v1", "10.0.0.0/8", None);
        except("https://11.1.2.3/v1", "10.0.0.0/8", p);
        // What runs on this machine is never asked through a proxy.
        except("https://localhost:8080/v1", "", None);
        except("https://127.0.0.1:8080/v1", "", None);
        except("https://[::1]:8080/v1", "", None);
    }

    #[test]
    fn a_variable_that_names_no_proxy_is_named() {
        let read = |name: &str| (name == "HTTPS_PROXY").then(|| "socks5://p".to_owned());
        let refused =
            |setting: &str| Proxy::of_setting(setting, &server("https://api.test"), read).err();
        let error = refused(PROXY_OF_ENVIRONMENT).unwrap();
        assert!(error.message().contains("`HTTPS_PROXY`"), "{error}");
        assert!(refused("http://q").is_none(), "the environment isn't asked");
        let none = Proxy::of_setting("", &server("https://api.test"), read);
        assert!(none.unwrap().is_none(), "nor here");
    }
}
