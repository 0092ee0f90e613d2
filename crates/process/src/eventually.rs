//! Waiting on a condition in a test, with a deadline.

use std::time::Duration;

/// Returns once the condition holds; fails the test when it does not in time.
pub(crate) async fn eventually(mut condition: impl AsyncFnMut() -> bool) {
    let holds = async {
        while !condition().await {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), holds)
        .await
        .expect("the condition never held");
}
