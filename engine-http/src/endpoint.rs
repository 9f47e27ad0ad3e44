//! A server's URLs.

use haft_api::{Error, ErrorKind, Result};
use url::Url;

/// The URLs under a base URL. They may hold secrets, so it can't be printed.
#[derive(Clone)]
pub(crate) struct Endpoint {
    base: Url,
    turn_path: &'static str,
}

impl Endpoint {
    /// # Errors
    /// [`ErrorKind::InvalidInput`] for anything but an HTTP URL with a host.
    pub(crate) fn new(base_url: &str, turn_path: &'static str) -> Result<Self> {
        let refuse = |why: String| {
            Error::new(ErrorKind::InvalidInput, format!("`base_url` {why}"))
                .context("base_url", shown(base_url))
        };
        let base = Url::parse(base_url).map_err(|e| refuse(format!("is no URL: {e}")))?;
        if !matches!(base.scheme(), "http" | "https") {
            return Err(refuse("must begin with http:// or https://".to_owned()));
        }
        Ok(Self { base, turn_path })
    }

    /// The URL that a turn is sent to.
    pub(crate) fn turn(&self) -> Url {
        self.url(self.turn_path)
    }

    /// The URL of one of the API's paths, which may bring a query. A query of
    /// the base URL is kept before it, and a base URL that already ends in the
    /// path of a turn is understood.
    pub(crate) fn url(&self, path: &str) -> Url {
        let (path, query) = path.split_once('?').unwrap_or((path, ""));
        let mut url = self.base.clone();
        let base = url.path().trim_end_matches('/');
        let base = base
            .strip_suffix(self.turn_path)
            .and_then(|base| base.strip_suffix('/'))
            .unwrap_or(base);
        let joined = format!("{base}/{path}");
        url.set_path(&joined);
        if !query.is_empty() {
            let kept = url.query().filter(|kept| !kept.is_empty());
            let whole = kept.map(|kept| format!("{kept}&{query}"));
            url.set_query(Some(whole.as_deref().unwrap_or(query)));
        }
        url
    }

    /// The server's host.
    pub(crate) fn host(&self) -> &str {
        self.base.host_str().unwrap_or_default()
    }

    /// The base URL itself.
    pub(crate) fn base(&self) -> &Url {
        &self.base
    }

    /// The server's host, and its port where that isn't the usual one.
    pub(crate) fn authority(&self) -> String {
        match self.base.port() {
            Some(port) => format!("{}:{port}", self.host()),
            None => self.host().to_owned(),
        }
    }

    /// Whether connections are encrypted.
    pub(crate) fn is_https(&self) -> bool {
        self.base.scheme() == "https"
    }
}

/// A URL as it may be shown: without user, password and query, which may hold
/// secrets.
pub fn shown(url: &str) -> String {
    match Url::parse(url) {
        Ok(mut url) => {
            url.set_query(None);
            url.set_fragment(None);
            // Fails only for URLs that can't have either.
            let _ = url.set_username("");
            let _ = url.set_password(None);
            url.to_string()
        }
        Err(_) => url.split(['?', '#']).next().unwrap_or_default().to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_appended_and_the_query_is_kept() {
        let check = |base: &str, expected: &str| {
            let url = Endpoint::new(base, "chat/completions").unwrap();
            assert_eq!(url.turn().as_str(), expected);
            let models = expected.replace("chat/completions", "models");
            assert_eq!(url.url("models").as_str(), models);
        };
        check(
            "https://api.openai.com/v1",
            "https://api.openai.com/v1/chat/completions",
        );
        check(
            "http://127.0.0.1:8080/",
            "http://127.0.0.1:8080/chat/completions",
        );
        check(
            "https://x.test/v1/chat/completions/",
            "https://x.test/v1/chat/completions",
        );
        check(
            "https://x.test/openai/deployments/d?api-version=1",
            "https://x.test/openai/deployments/d/chat/completions?api-version=1",
        );
    }

    #[test]
    fn a_paths_query_comes_after_that_of_the_base_url() {
        let check = |base: &str, expected: &str| {
            let url = Endpoint::new(base, "messages").unwrap();
            assert_eq!(url.url("models?after=a%26b").as_str(), expected);
        };
        check("https://x.test/v1", "https://x.test/v1/models?after=a%26b");
        check("https://x.test/v1?", "https://x.test/v1/models?after=a%26b");
        check(
            "https://x.test/v1/messages?v=1",
            "https://x.test/v1/models?v=1&after=a%26b",
        );
    }

    #[test]
    fn other_urls_are_refused() {
        for bad in ["", "localhost:8080", "ftp://x", "/v1", "http://"] {
            let error = Endpoint::new(bad, "t").err().unwrap();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{bad}");
            assert!(error.to_string().contains("base_url"), "{error}");
        }
    }

    #[test]
    fn secrets_in_a_url_are_not_shown() {
        let check = |url: &str, expected: &str| assert_eq!(shown(url), expected);
        check("https://me:pw@x.test/v1?key=secret#f", "https://x.test/v1");
        check("no url?key=secret", "no url");
    }
}
