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
        Ok(grant(fetched.fetch_add(1, Ordering::SeqCst), Some(3600)))
    };
    tokens.get(refused, fetch).await.unwrap()
}

fn away() -> Outcome {
    Outcome::Unreachable("away".into())
}

#[tokio::test(start_paused = true)]
async fn tokens_are_fetched_once_for_many_callers() {
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
async fn tokens_give_the_failure_of_one_fetch_to_all_who_waited() {
    let (tokens, fetched) = (Tokens::default(), AtomicU32::new(0));
    let failing = || {
        tokens.get(None, async {
            fetched.fetch_add(1, Ordering::SeqCst);
            tokio::task::yield_now().await;
            Err(away())
        })
    };
    let all = futures::future::join_all((0..16).map(|_| failing())).await;
    assert!(all.iter().all(|one| one.as_ref().unwrap_err() == &away()));
    assert_eq!(fetched.load(Ordering::SeqCst), 1, "all 16 wait for one fetch");
    assert!(failing().await.is_err());
    assert_eq!(fetched.load(Ordering::SeqCst), 2, "who comes later tries again");
    get(&tokens, None, &fetched).await;
    assert_eq!(fetched.load(Ordering::SeqCst), 3);
}

#[tokio::test(start_paused = true)]
async fn tokens_are_renewed_before_their_end() {
    let day = 24 * 3600;
    for (expires_in, after) in [
        (Some(3600), 3300),
        (Some(600), 300),
        (Some(100), 50),
        (None, 150),
        (Some(u64::MAX), day - 300),
    ] {
        let tokens = Tokens::default();
        tokens.renew(async { Ok(grant(0, expires_in)) }).await.unwrap();
        let wait = tokens.renewal().unwrap() - Instant::now();
        assert_eq!(wait.as_secs(), after, "{expires_in:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn tokens_end_after_a_day_whatever_the_platform_says() {
    let (tokens, fetched) = (Tokens::default(), AtomicU32::new(1));
    let first = tokens
        .get(None, async { Ok(grant(0, Some(u64::MAX))) })
        .await
        .unwrap();
    tokio::time::advance(MAX_LIFE - Duration::from_secs(1)).await;
    assert!(Arc::ptr_eq(&first, &get(&tokens, None, &fetched).await));
    tokio::time::advance(Duration::from_secs(1)).await;
    assert_eq!(get(&tokens, None, &fetched).await.text.expose(), "t1");
}

#[tokio::test(start_paused = true)]
async fn tokens_stay_in_use_when_a_renewal_fails() {
    let (tokens, fetched) = (Tokens::default(), AtomicU32::new(0));
    let old = get(&tokens, None, &fetched).await;
    assert_eq!(tokens.renew(async { Err(away()) }).await, Err(away()));
    assert!(Arc::ptr_eq(&old, &get(&tokens, None, &fetched).await));
    assert_eq!(tokens.renewal(), Some(Instant::now() + RENEWAL_RETRY));
    tokio::time::advance(Duration::from_secs(3601)).await;
    assert_eq!(
        get(&tokens, None, &fetched).await.text.expose(),
        "t1",
        "it has ended"
    );
}
