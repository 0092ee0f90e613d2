//! Tells on standard error that a token has not answered yet.

use std::pin::pin;
use std::time::Duration;

use tokio::time::{Instant, timeout};

use crate::output;

/// How often a person is told that there is no answer yet.
const EVERY: Duration = Duration::from_secs(3);

/// Waits for some work. Every few seconds it names the token that it waits for.
pub async fn told<T>(whom: &str, work: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let mut work = pin!(work);
    loop {
        match timeout(EVERY, &mut work).await {
            Ok(done) => return done,
            Err(_) => output::note(&format!("waiting for {whom}: {} s", begun.elapsed().as_secs())),
        }
    }
}
