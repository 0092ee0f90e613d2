//! The access token of a platform: fetched once, renewed before it ends, and renewed when the platform refuses it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use trustplane_inventory_core::sender::Outcome;
use trustplane_process::secret::Secret;

/// How long before its end a token is renewed, unless half of its life is shorter.
const AHEAD: Duration = Duration::from_secs(300);
/// How long a token is used if the platform does not say how long it is good.
const DEFAULT_LIFE: Duration = Duration::from_secs(300);
/// How long a token is used at most, whatever life the platform names.
const MAX_LIFE: Duration = Duration::from_secs(24 * 3600);
/// How long after a failed renewal the next one is tried, while the old token is good.
const RENEWAL_RETRY: Duration = Duration::from_secs(30);

/// A token and its life.
#[derive(Debug)]
pub(crate) struct Token {
    pub text: Secret<String>,
    end: Instant,
}

/// What the platform answered to a request for a token.
pub(crate) struct Grant {
    pub text: Secret<String>,
    pub expires_in: Option<u64>,
}

#[derive(Debug, Default)]
struct State {
    token: Option<Arc<Token>>,
    /// When to renew it in the background.
    renew: Option<Instant>,
    /// How many fetches have ended.
    fetches: u64,
    /// Why the last fetch failed, if it did.
    failure: Option<Outcome>,
}

/// Keeps the token of one platform. Everybody who needs a token while it is fetched gets the result of that fetch, good or bad.
#[derive(Debug, Default)]
pub(crate) struct Tokens {
    state: Mutex<State>,
    /// Held while a token is fetched.
    fetching: tokio::sync::Mutex<()>,
}

impl Tokens {
    /// A token that is good, fetched by `fetch` if there is none. A token that the platform has refused counts as none.
    ///
    /// **Errors.** If the fetch fails, the token from before stays in use for as long as it is good.
    pub async fn get(
        &self,
        refused: Option<&Arc<Token>>,
        fetch: impl Future<Output = Result<Grant, Outcome>>,
    ) -> Result<Arc<Token>, Outcome> {
        if let Some(token) = self.usable(refused) {
            return Ok(token);
        }
        let seen = self.lock().fetches;
        let _alone = self.fetching.lock().await;
        if let Some(token) = self.usable(refused) {
            return Ok(token);
        }
        if let Some(failure) = self.failure_since(seen) {
            return Err(failure);
        }
        self.fetched(fetch.await)
    }

    /// Renews the token although it is good.
    pub async fn renew(&self, fetch: impl Future<Output = Result<Grant, Outcome>>) -> Result<(), Outcome> {
        let _alone = self.fetching.lock().await;
        let renewed = self.fetched(fetch.await);
        if renewed.is_err() {
            self.lock().renew = Some(Instant::now() + RENEWAL_RETRY);
        }
        renewed.map(drop)
    }

    /// When the token is to be renewed; `None` while there is none, or while it is being renewed.
    pub fn renewal(&self) -> Option<Instant> {
        self.lock().renew
    }

    /// The renewal has begun.
    pub fn renewing(&self) {
        self.lock().renew = None;
    }

    fn usable(&self, refused: Option<&Arc<Token>>) -> Option<Arc<Token>> {
        let token = self.lock().token.clone()?;
        let is_refused = refused.is_some_and(|refused| Arc::ptr_eq(refused, &token));
        (token.end > Instant::now() && !is_refused).then_some(token)
    }

    /// Why the last fetch failed, if it ended after the first `seen` fetches.
    fn failure_since(&self, seen: u64) -> Option<Outcome> {
        let state = self.lock();
        state.failure.clone().filter(|_| state.fetches > seen)
    }

    /// Takes note of how a fetch ended.
    fn fetched(&self, ended: Result<Grant, Outcome>) -> Result<Arc<Token>, Outcome> {
        let mut state = self.lock();
        state.fetches += 1;
        state.failure = ended.as_ref().err().cloned();
        let grant = ended?;
        let life = grant.expires_in.map_or(DEFAULT_LIFE, Duration::from_secs);
        let life = life.min(MAX_LIFE);
        let now = Instant::now();
        let token = Arc::new(Token {
            text: grant.text,
            end: now + life,
        });
        state.renew = Some(now + life - AHEAD.min(life / 2));
        state.token = Some(token.clone());
        Ok(token)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
