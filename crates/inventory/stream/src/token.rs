//! The access token of a platform: fetched once, renewed before it ends, and renewed when the platform refuses it.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;
use trustplane_process::secret::Secret;

/// How long before its end a token is renewed, unless half of its life is shorter.
const AHEAD: Duration = Duration::from_secs(300);
/// How long a token is used of which the platform does not say how long it is good.
const UNTOLD: Duration = Duration::from_secs(300);
/// How long after a failed renewal the next one is tried, while the old token is good.
const AGAIN: Duration = Duration::from_secs(30);

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
}

/// Keeps the token of one platform. Whoever needs one while it is fetched waits for the same answer.
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
    pub async fn get<E>(
        &self,
        refused: Option<&Arc<Token>>,
        fetch: impl Future<Output = Result<Grant, E>>,
    ) -> Result<Arc<Token>, E> {
        if let Some(token) = self.usable(refused) {
            return Ok(token);
        }
        let _alone = self.fetching.lock().await;
        match self.usable(refused) {
            Some(token) => Ok(token),
            None => Ok(self.keep(fetch.await?)),
        }
    }

    /// Renews the token although it is good.
    pub async fn renew<E>(&self, fetch: impl Future<Output = Result<Grant, E>>) -> Result<(), E> {
        let _alone = self.fetching.lock().await;
        match fetch.await {
            Ok(grant) => drop(self.keep(grant)),
            Err(error) => {
                self.lock().renew = Some(Instant::now() + AGAIN);
                return Err(error);
            }
        }
        Ok(())
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

    fn keep(&self, grant: Grant) -> Arc<Token> {
        let life = grant.expires_in.map_or(UNTOLD, Duration::from_secs);
        let now = Instant::now();
        let token = Arc::new(Token {
            text: grant.text,
            end: now + life,
        });
        let mut state = self.lock();
        state.renew = Some(now + life - AHEAD.min(life / 2));
        state.token = Some(token.clone());
        token
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;

    fn grant(number: u32, expires_in: Option<u64>) -> Grant {
        Grant {
            text: Secret::new(format!("t{number}")),
            expires_in,
        }
    }

    async fn get(tokens: &Tokens, refused: Option<&Arc<Token>>, fetched: &AtomicU32) -> Arc<Token> {
        let fetch = async {
            tokio::task::yield_now().await;
            Ok::<_, Infallible>(grant(fetched.fetch_add(1, Ordering::SeqCst), Some(3600)))
        };
        tokens.get(refused, fetch).await.unwrap()
    }

    #[tokio::test(start_paused = true)]
    async fn many_who_need_a_token_fetch_one() {
        let (tokens, fetched) = (Tokens::default(), AtomicU32::new(0));
        let all = futures::future::join_all((0..16).map(|_| get(&tokens, None, &fetched))).await;
        assert!(all.iter().all(|token| token.text.expose() == "t0"));
        let renewed = futures::future::join_all((0..16).map(|_| get(&tokens, Some(&all[0]), &fetched))).await;
        assert!(
            renewed.iter().all(|token| token.text.expose() == "t1"),
            "a refused token is renewed once"
        );
        assert_eq!(fetched.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_token_is_renewed_five_minutes_before_its_end_or_at_half_of_a_shorter_life() {
        for (expires_in, after) in [(Some(3600), 3300), (Some(600), 300), (Some(100), 50), (None, 150)] {
            let tokens = Tokens::default();
            tokens
                .renew(async { Ok::<_, Infallible>(grant(0, expires_in)) })
                .await
                .unwrap();
            let wait = tokens.renewal().unwrap() - Instant::now();
            assert_eq!(wait.as_secs(), after, "{expires_in:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_renewal_keeps_the_old_token() {
        let (tokens, fetched) = (Tokens::default(), AtomicU32::new(0));
        let old = get(&tokens, None, &fetched).await;
        assert_eq!(tokens.renew(async { Err("away") }).await, Err("away"));
        assert!(Arc::ptr_eq(&old, &get(&tokens, None, &fetched).await));
        assert_eq!(tokens.renewal(), Some(Instant::now() + AGAIN));
        tokio::time::advance(Duration::from_secs(3601)).await;
        assert_eq!(
            get(&tokens, None, &fetched).await.text.expose(),
            "t1",
            "it has ended"
        );
    }
}
