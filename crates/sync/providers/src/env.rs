//! Secrets from the environment of the process, under a prefix that the admin chose: never the whole environment.

use futures::future::BoxFuture;
use trustplane_sync_core::data::{Payload, Value};
use trustplane_sync_core::fetch::{FetchError, Fetched};

use crate::{Locator, Provider};

/// Reads variables whose names begin with a prefix. The rest of the name is the path, to the letter: a rule that made one
/// name of two paths would let one namespace read what belongs to another.
pub struct Env {
    prefix: String,
    read: fn(&str) -> Option<String>,
}

impl Env {
    /// Reads variables that begin with this prefix; `None` for an empty one, which would mean the whole environment.
    pub fn new(prefix: &str) -> Option<Self> {
        (!prefix.is_empty()).then(|| Self {
            prefix: prefix.to_owned(),
            read: |name| std::env::var(name).ok(),
        })
    }

    fn answer(&self, locator: &Locator) -> Result<Fetched, FetchError> {
        if locator.version.is_some() {
            return Err(FetchError::Invalid {
                what: "the environment has no versions".to_owned(),
            });
        }
        // A name with these cannot be asked for.
        let name = format!("{}{}", self.prefix, locator.path);
        if name.contains(['=', '\0']) {
            return Err(FetchError::NotFound);
        }
        let value = (self.read)(&name).ok_or(FetchError::NotFound)?;
        Ok(Fetched {
            provider: "env",
            payload: Payload::Bytes(Value::new(value)),
            version: None,
            lease: None,
        })
    }
}

impl Provider for Env {
    fn name(&self) -> &'static str {
        "env"
    }

    fn fetch<'a>(&'a self, wanted: &'a [Locator]) -> BoxFuture<'a, Vec<Result<Fetched, FetchError>>> {
        Box::pin(async move { wanted.iter().map(|locator| self.answer(locator)).collect() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn only_what_has_the_prefix_is_there() {
        let env = Env {
            prefix: "SECRET_".to_owned(),
            read: |name| (name == "SECRET_shop/db" || name == "PATH").then(|| "x".to_owned()),
        };
        let locator = |path: &str, version: Option<&str>| Locator {
            path: path.to_owned(),
            version: version.map(str::to_owned),
            on_behalf_of: crate::Principal::Process,
        };
        let wanted = [
            locator("shop/db", None),
            locator("PATH", None),
            locator("SHOP_DB", None),
            locator("a=b", None),
            locator("shop/db", Some("1")),
        ];
        let answers = env.fetch(&wanted).await;
        let payload = answers[0].as_ref().map(|fetched| fetched.payload.clone());
        assert_eq!(payload, Ok(Payload::Bytes(Value::new("x"))));
        for missing in &answers[1..4] {
            assert_eq!(missing.as_ref().err(), Some(&FetchError::NotFound));
        }
        assert!(matches!(answers[4], Err(FetchError::Invalid { .. })));
        assert!(Env::new("").is_none());
    }
}
