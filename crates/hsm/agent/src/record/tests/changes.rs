//! A change of the PIN, and the order in which things are written.

use trustplane_hsm_core::pin_record::Exchanged;

use super::*;

const PATIENCE: Duration = Duration::from_secs(30);

fn pair() -> [Secret<String>; 2] {
    ["1", "2"].map(pin)
}

async fn changing(book: &mut Book) -> Result<Exchanging, Denial> {
    let [old, new] = pair();
    book.begin_change(("t", "uid"), [&old, &new], PATIENCE).await
}

#[tokio::test]
async fn a_change_is_in_the_record_before_it_is_made_and_after() {
    let memory = Arc::new(Memory::default());
    let mut book = book(&memory, "pod");
    let grant = book.permit(&asked(&pin("1"))).await.unwrap();
    book.sent(&grant);
    book.settle(grant, Outcome::Accepted);
    let change = changing(&mut book).await.unwrap();
    assert_eq!(memory.outcomes(), [Outcome::Changing, Outcome::Changing]);
    book.end_change(change, Exchanged::Done);
    assert!(book.written(PATIENCE).await);
    assert_eq!(memory.outcomes(), [Outcome::Replaced, Outcome::Accepted]);
}

#[tokio::test(start_paused = true)]
async fn without_the_record_no_change_begins_and_what_may_stand_there_is_taken_back() {
    let memory = Arc::new(Memory::default());
    let mut book = book(&memory, "pod");
    *memory.silent.lock().unwrap() = 1;
    let denial = changing(&mut book).await;
    assert!(matches!(denial, Err(Denial::Ledger(_))), "{denial:?}");
    assert!(book.written(PATIENCE).await);
    assert_eq!(memory.outcomes(), [Outcome::Withdrawn, Outcome::Withdrawn]);
    *memory.away.lock().unwrap() = true;
    let denial = changing(&mut book).await;
    assert!(matches!(denial, Err(Denial::Ledger(_))), "{denial:?}");
}

/// A record that takes its time over a write, whoever waits for it.
#[derive(Debug)]
struct Slow(Arc<Memory>, Duration);

impl Ledger for Slow {
    fn load(&self) -> Answer<'_, Loaded> {
        self.0.load()
    }

    fn store(&self, change: Change) -> Answer<'_, ()> {
        let (memory, takes) = (self.0.clone(), self.1);
        let stored = tokio::spawn(async move {
            tokio::time::sleep(takes).await;
            memory.store(change).await
        });
        Box::pin(async move { stored.await.unwrap() })
    }
}

#[tokio::test(start_paused = true)]
async fn a_begin_that_lands_late_does_not_stay() {
    let memory = Arc::new(Memory::default());
    let slow = Arc::new(Slow(memory.clone(), PATIENCE * 2));
    let mut book = Book::new(slow, DigestKey::new(&[1; 32]).unwrap(), "pod");
    let denial = changing(&mut book).await;
    assert!(matches!(denial, Err(Denial::Ledger(_))), "{denial:?}");
    assert!(book.written(PATIENCE * 4).await);
    tokio::time::sleep(PATIENCE * 4).await;
    assert_eq!(memory.outcomes(), [Outcome::Withdrawn, Outcome::Withdrawn]);
}

#[tokio::test(start_paused = true)]
async fn what_became_known_is_written_in_that_order_and_before_anything_new_is_asked() {
    let memory = Arc::new(Memory::default());
    let mut book = book(&memory, "pod");
    let grant = book.permit(&asked(&pin("1"))).await.unwrap();
    book.sent(&grant);
    let change = changing(&mut book).await.unwrap();
    *memory.away.lock().unwrap() = true;
    // The login became known late, and then the change: the old PIN is not right after that.
    book.settle(grant, Outcome::Accepted);
    assert!(!book.written(PATIENCE).await);
    let denial = book.permit(&asked(&pin("2"))).await;
    assert!(matches!(denial, Err(Denial::Ledger(_))), "{denial:?}");
    // The first waits for its next attempt, and the second could be made at once.
    *memory.away.lock().unwrap() = false;
    book.end_change(change, Exchanged::Done);
    assert!(book.written(PATIENCE).await);
    // On a clock that stands still: whoever else has something to write has had the time for it.
    tokio::time::sleep(PATIENCE).await;
    assert_eq!(memory.outcomes(), [Outcome::Replaced, Outcome::Accepted]);
}

#[tokio::test]
async fn a_record_of_another_key_allows_no_try_by_itself() {
    let memory = Arc::new(Memory::default());
    let mut first = book(&memory, "pod");
    first.know("t", "uid", &pin("1"), Outcome::Rejected);
    assert!(first.written(PATIENCE).await);
    let key = DigestKey::new(&[2; 32]).unwrap();
    let mut other = Book::new(memory.clone(), key, "pod");
    let denial = other.permit(&asked(&pin("2"))).await;
    assert_eq!(denial, Err(Denial::Refused(Refusal::KeyLost)));
    let pin = pin("2");
    let word = Asked {
        again: "word",
        ..asked(&pin)
    };
    other.permit(&word).await.unwrap();
}

#[tokio::test]
async fn a_try_that_the_token_has_seen_is_not_taken_back_when_others_write_before_the_next() {
    let memory = Arc::new(Memory::default());
    let mut book = book(&memory, "pod");
    let grant = book.permit(&asked(&pin("1"))).await.unwrap();
    book.sent(&grant);
    // Nobody knows what came of it, and the write of the second try meets another one.
    *memory.meanwhile.lock().unwrap() = Some(memory.record());
    let again = book.permit(&asked(&pin("1"))).await.unwrap();
    book.sent(&again);
    assert_eq!(memory.outcomes(), [Outcome::PendingAgain]);
    let denial = book.permit(&asked(&pin("1"))).await;
    assert_eq!(denial, Err(Denial::Refused(Refusal::Unanswered)));
}
