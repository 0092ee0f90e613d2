//! Which requests go through a proxy.

use reqwest::{NoProxy, Url};

use super::WebError;
use crate::secret::Secret;

/// Whether requests go through a proxy.
#[derive(Debug, Clone, Default)]
pub enum Proxy {
    /// Never, whatever the environment says.
    #[default]
    None,
    /// All requests, through this one: `http://` or `https://`, with name and password if the proxy wants them.
    Url(Secret<String>),
    /// As the environment says: `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`, or their lower-case forms.
    FromEnvironment,
}

impl Proxy {
    /// What the client is told; the first rule that applies to a request wins.
    pub(super) fn rules(&self) -> Result<Vec<reqwest::Proxy>, WebError> {
        match self {
            Self::None => Ok(Vec::new()),
            Self::Url(url) => {
                let url = parse("proxy URL", url.expose())?;
                Ok(vec![made("proxy URL", reqwest::Proxy::all(url))?])
            }
            Self::FromEnvironment => from_variables(|name| std::env::var(name).ok()),
        }
    }
}

/// What the variables of an environment choose.
pub(super) fn from_variables(
    variable: impl Fn(&'static str) -> Option<String>,
) -> Result<Vec<reqwest::Proxy>, WebError> {
    let value = |names: [&'static str; 2]| {
        names
            .into_iter()
            .find_map(|name| Some((name, variable(name).filter(|value| !value.trim().is_empty())?)))
    };
    let spared = value(["NO_PROXY", "no_proxy"]).and_then(|(_, list)| NoProxy::from_string(&list));
    let mut rules = Vec::new();
    if let Some((name, url)) = value(["HTTP_PROXY", "http_proxy"]) {
        rules.push(made(name, reqwest::Proxy::http(lenient(name, &url)?))?);
    }
    if let Some((name, url)) = value(["HTTPS_PROXY", "https_proxy"]) {
        rules.push(made(name, reqwest::Proxy::https(lenient(name, &url)?))?);
    }
    Ok(rules
        .into_iter()
        .map(|rule| rule.no_proxy(spared.clone()))
        .collect())
}

/// Variables may leave the scheme out.
fn lenient(field: &'static str, url: &str) -> Result<Url, WebError> {
    match url.contains("://") {
        true => parse(field, url),
        false => parse(field, &format!("http://{url}")),
    }
}

/// The library passes over a proxy that it cannot use, and calls directly: so everything is checked here.
fn parse(field: &'static str, url: &str) -> Result<Url, WebError> {
    let parsed = Url::parse(url.trim()).ok();
    let usable = parsed.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    usable.ok_or(unusable(field))
}

fn made(
    field: &'static str,
    rule: Result<reqwest::Proxy, reqwest::Error>,
) -> Result<reqwest::Proxy, WebError> {
    rule.map_err(|_| unusable(field))
}

fn unusable(field: &'static str) -> WebError {
    WebError::Setting {
        field,
        problem: "must start with http:// or https:// and name a host",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(variables: &[(&str, &str)]) -> Result<Vec<String>, WebError> {
        let found = from_variables(|wanted| {
            let found = variables.iter().find(|(name, _)| *name == wanted)?;
            Some(found.1.to_owned())
        });
        Ok(found?.iter().map(|rule| format!("{rule:?}")).collect())
    }

    #[test]
    fn variables_choose_a_proxy_by_scheme_and_spare_hosts() {
        assert!(
            rules(&[("NO_PROXY", "a.example"), ("HTTP_PROXY", " ")])
                .unwrap()
                .is_empty()
        );
        let found = rules(&[
            ("HTTP_PROXY", "upper:1"),
            ("http_proxy", "lower:2"),
            ("https_proxy", "https://secure:3"),
            ("no_proxy", "a.example"),
        ])
        .unwrap();
        assert_eq!(found.len(), 2);
        assert!(
            found[0].contains("upper") && !found[0].contains("secure"),
            "{found:?}"
        );
        assert!(found[1].contains("secure"), "{found:?}");
        assert!(found.iter().all(|rule| rule.contains("a.example")), "{found:?}");
    }

    #[test]
    fn a_variable_that_cannot_be_used_is_named() {
        let error = rules(&[("https_proxy", "socks5://p:1")]).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the https_proxy must start with http:// or https:// and name a host"
        );
    }
}
