//! The issuer of JWT SVIDs: the URL at which others look for the keys.

use thiserror::Error;

/// An issuer that the OIDC discovery provider can serve.
///
/// It serves `SCHEME://HOST[:PORT][/PATH]`. The host is a DNS name or an IPv4 address, in ASCII; the path has no part that an HTTP server
/// would read in another way.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issuer {
    /// The URL as it was written: tokens name it so.
    pub url: String,
    /// The host without port.
    pub host: String,
    /// The path without a slash at its end; empty if there is none.
    pub path: String,
    /// Whether the URL is `https://` and the host, no more.
    pub is_plain: bool,
    /// Whether the scheme is `http`: whoever reads the keys cannot tell that they are genuine.
    pub is_insecure: bool,
}

/// Why a text is no issuer that can be served.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum IssuerError {
    /// It has another scheme, or none.
    #[error("must begin with https:// or http://")]
    Scheme,
    /// It has a query or a fragment.
    #[error("must have neither query nor fragment")]
    Query,
    /// It has a user or a password.
    #[error("must have neither user nor password")]
    User,
    /// The host makes no sense to the discovery provider.
    #[error(
        "must have a DNS name in lower case or an IPv4 address as its host, in ASCII: the discovery provider answers for no other; \
         write an international name in its xn-- form"
    )]
    Host,
    /// The port is no port.
    #[error("must have a port between 1 and 65535, or none")]
    Port,
    /// The path is one that the discovery provider cannot serve.
    #[error(
        "must have a path of letters, digits and the characters -._~!&'()*+,;=:@ between single slashes, or none: \
         the discovery provider serves no other"
    )]
    Path,
}

impl Issuer {
    /// Reads an issuer.
    pub fn parse(url: &str) -> Result<Self, IssuerError> {
        let (scheme, rest) = url.split_once("://").ok_or(IssuerError::Scheme)?;
        let is_insecure = match scheme.to_ascii_lowercase().as_str() {
            "https" => false,
            "http" => true,
            _ => return Err(IssuerError::Scheme),
        };
        if rest.contains(['?', '#']) {
            return Err(IssuerError::Query);
        }
        let (authority, path) = match rest.find('/') {
            Some(slash) => rest.split_at(slash),
            None => (rest, ""),
        };
        if authority.contains('@') {
            return Err(IssuerError::User);
        }
        let (host, port) = match authority.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (authority, None),
        };
        // Clients ask for the host as it is written.
        if !is_host(host) {
            return Err(IssuerError::Host);
        }
        if port.is_some_and(|port| !is_port(port)) {
            return Err(IssuerError::Port);
        }
        let path = path.strip_suffix('/').unwrap_or(path);
        if !is_path(path) {
            return Err(IssuerError::Path);
        }
        Ok(Self {
            is_plain: url == format!("https://{host}"),
            url: url.to_owned(),
            path: path.to_owned(),
            host: host.to_owned(),
            is_insecure,
        })
    }
}

/// What `idna.Lookup.ToASCII` of Go leaves as it is: the discovery provider stops at start with a host that it does not.
fn is_host(host: &str) -> bool {
    let is_label = |label: &str| {
        let bytes = label.as_bytes();
        let inner = |byte: &u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-';
        (1..=63).contains(&bytes.len())
            && bytes.iter().all(inner)
            && !label.starts_with('-')
            && !label.ends_with('-')
            // Hyphens in this place are for names in Punycode alone.
            && (bytes.get(2..4) != Some(b"--") || label.starts_with("xn--"))
    };
    host.len() <= 253 && host.split('.').all(is_label)
}

fn is_port(port: &str) -> bool {
    port.bytes().all(|byte| byte.is_ascii_digit()) && port.parse::<u16>().is_ok_and(|port| port != 0)
}

/// Whether it is a path whose every part a router of Go takes literally. Without the slash at its end.
fn is_path(path: &str) -> bool {
    let Some(parts) = path.strip_prefix('/') else {
        return path.is_empty();
    };
    parts.split('/').all(|part| {
        let sound = |c: char| c.is_ascii_alphanumeric() || "-._~!&'()*+,;=:@".contains(c);
        !matches!(part, "" | "." | "..") && part.chars().all(sound)
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn an_issuer_may_have_port_and_path() {
        let issuer = Issuer::parse("https://oidc.example.org:8443/tenants/a/").unwrap();
        assert_eq!((&*issuer.host, &*issuer.path), ("oidc.example.org", "/tenants/a"));
        assert_eq!(issuer.url, "https://oidc.example.org:8443/tenants/a/");
        assert!(!issuer.is_plain && !issuer.is_insecure);
    }

    #[test]
    fn only_https_and_a_host_are_plain() {
        let plain = |url| Issuer::parse(url).unwrap().is_plain;
        assert!(plain("https://oidc.example.org"));
        for other in [
            "https://oidc.example.org/",
            "https://oidc.example.org:443",
            "http://oidc.example.org",
            "HTTPS://oidc.example.org",
            "https://oidc.example.org/a",
        ] {
            assert!(!plain(other), "{other}");
        }
    }

    #[test]
    fn an_issuer_is_refused_when_it_cannot_be_served() {
        for (url, error) in [
            ("oidc.example.org", IssuerError::Scheme),
            ("spiffe://example.org", IssuerError::Scheme),
            ("", IssuerError::Scheme),
            ("https://a.org?x=1", IssuerError::Query),
            ("https://a.org/#top", IssuerError::Query),
            ("https://me:pw@a.org", IssuerError::User),
            ("https://", IssuerError::Host),
            ("https:///path", IssuerError::Host),
            ("https://a..org", IssuerError::Host),
            ("https://-a.org", IssuerError::Host),
            ("https://ab--c.org", IssuerError::Host),
            ("https://a_b.org", IssuerError::Host),
            ("https://A.org", IssuerError::Host),
            ("https://münchen.example", IssuerError::Host),
            ("https://[::1]", IssuerError::Host),
            ("https://a.org:", IssuerError::Port),
            ("https://a.org:0", IssuerError::Port),
            ("https://a.org:65536", IssuerError::Port),
            ("https://a.org:+80", IssuerError::Port),
            ("https://a.org/a//b", IssuerError::Path),
            ("https://a.org//", IssuerError::Path),
            ("https://a.org/../b", IssuerError::Path),
            ("https://a.org/{tenant}", IssuerError::Path),
            ("https://a.org/a b", IssuerError::Path),
            ("https://a.org/a%20b", IssuerError::Path),
            ("https://a.org/$HOME", IssuerError::Path),
        ] {
            assert_eq!(Issuer::parse(url), Err(error), "{url}");
        }
    }

    proptest! {
        #[test]
        fn an_issuer_never_loses_what_tokens_name(url in ".{0,60}") {
            if let Ok(issuer) = Issuer::parse(&url) {
                prop_assert_eq!(&issuer.url, &url);
                prop_assert!(!issuer.path.ends_with('/') && !issuer.host.is_empty());
            }
        }
    }
}
