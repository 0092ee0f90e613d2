//! The use of a record that lies in memory, by several processes.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use trustplane_api::hsm::record::{Outcome, Record, TokenIdentity};
use trustplane_hsm_core::pin_record::{Account, DigestKey, Flags, Refusal};
use trustplane_process::secret::Secret;

use super::*;

mod changes;
mod states;

/// A record in memory. Each call takes a turn of the others.
#[derive(Debug, Default)]
struct Memory {
    data: Mutex<(u64, BTreeMap<String, String>)>,
    away: Mutex<bool>,
    /// Whether the next writes are made, and nobody is told.
    silent: Mutex<usize>,
    /// What somebody else writes right before the next write.
    meanwhile: Mutex<Option<Record>>,
}

impl Memory {
    fn reach(&self) -> Result<(), LedgerError> {
        match *self.away.lock().unwrap() {
            true => Err(LedgerError::Unreachable("away".to_owned())),
            false => Ok(()),
        }
    }

    fn record(&self) -> Record {
        Record::read(&self.data.lock().unwrap().1).unwrap()
    }

    fn outcomes(&self) -> Vec<Outcome> {
        self.record().tries.iter().map(|tried| tried.outcome).collect()
    }
}

impl Ledger for Memory {
    fn load(&self) -> Answer<'_, Loaded> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.reach()?;
            let version = self.data.lock().unwrap().0.to_string();
            let record = self.record();
            Ok(Loaded { record, version })
        })
    }

    fn store(&self, change: Change) -> Answer<'_, ()> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            self.reach()?;
            let mut data = self.data.lock().unwrap();
            if let Some(theirs) = self.meanwhile.lock().unwrap().take() {
                data.0 += 1;
                data.1.extend(theirs.data());
            }
            if change
                .version
                .is_some_and(|version| version != data.0.to_string())
            {
                return Err(LedgerError::Conflict);
            }
            data.0 += 1;
            data.1.extend(change.data);
            let mut silent = self.silent.lock().unwrap();
            match *silent {
                0 => Ok(()),
                _ => {
                    *silent -= 1;
                    Err(LedgerError::Unreachable("no answer".to_owned()))
                }
            }
        })
    }
}

fn book(memory: &Arc<Memory>, pod: &str) -> Book {
    Book::new(memory.clone(), DigestKey::new(&[1; 32]).unwrap(), pod)
}

fn asked(pin: &Secret<String>) -> Asked<'_> {
    Asked {
        token: TokenIdentity {
            serial: "t".to_owned(),
            ..TokenIdentity::default()
        },
        secret: "uid",
        pin,
        again: "",
        account: Account::Automatic,
        flags: Flags::Clear,
        opening: Duration::from_secs(30),
    }
}

fn pin(text: &str) -> Secret<String> {
    Secret::new(text.to_owned())
}

#[tokio::test]
async fn of_many_processes_one_may_try() {
    let memory = Arc::new(Memory::default());
    let tasks = (0..6).map(|pod| {
        let mut book = book(&memory, &format!("pod-{pod}"));
        tokio::spawn(async move { book.permit(&asked(&pin("1"))).await })
    });
    let mut granted = 0;
    for task in tasks.collect::<Vec<_>>() {
        match task.await.unwrap() {
            Ok(_) => granted += 1,
            Err(Denial::Wait(_)) => {}
            Err(denial) => panic!("{denial:?}"),
        }
    }
    assert_eq!(granted, 1);
    assert_eq!(memory.outcomes(), [Outcome::Pending]);
    assert_eq!(memory.record().token.unwrap().serial, "t");
}

#[tokio::test]
async fn what_came_of_a_try_is_written_as_soon_as_that_is_possible() {
    let memory = Arc::new(Memory::default());
    let mut first = book(&memory, "pod-a");
    let grant = first.permit(&asked(&pin("1"))).await.unwrap();
    first.sent(&grant);
    *memory.away.lock().unwrap() = true;
    first.settle(grant, Outcome::Rejected);
    tokio::task::yield_now().await;
    assert_eq!(memory.outcomes(), [Outcome::Pending]);
    *memory.away.lock().unwrap() = false;
    assert!(first.written(Duration::from_secs(30)).await);
    assert_eq!(memory.outcomes(), [Outcome::Rejected]);
    let denial = book(&memory, "pod-b").permit(&asked(&pin("1"))).await;
    assert_eq!(denial, Err(Denial::Refused(Refusal::Rejected)));
}

#[tokio::test]
async fn a_write_of_which_nobody_was_told_is_no_try() {
    let memory = Arc::new(Memory::default());
    let mut book = book(&memory, "pod");
    *memory.silent.lock().unwrap() = 1;
    let denial = book.permit(&asked(&pin("1"))).await;
    assert!(matches!(denial, Err(Denial::Ledger(_))), "{denial:?}");
    assert_eq!(memory.outcomes(), [Outcome::Pending]);
    // Also when another PIN is tried first.
    for text in ["2", "1"] {
        let grant = book.permit(&asked(&pin(text))).await.unwrap();
        book.sent(&grant);
        book.settle(grant, Outcome::Rejected);
        assert!(book.written(Duration::from_secs(30)).await);
    }
    assert_eq!(memory.outcomes(), [Outcome::Rejected, Outcome::Rejected]);
}

#[tokio::test]
async fn another_token_than_the_first_is_not_tried() {
    let memory = Arc::new(Memory::default());
    let mut book = book(&memory, "pod");
    book.permit(&asked(&pin("1"))).await.unwrap();
    let pin = pin("2");
    let mut other = asked(&pin);
    other.token.serial = "u".to_owned();
    let denial = book.permit(&other).await;
    assert!(matches!(denial, Err(Denial::AnotherToken(known)) if known.serial == "t"));
}

#[tokio::test]
async fn a_process_of_no_known_pod_takes_no_other_for_its_last_one() {
    let memory = Arc::new(Memory::default());
    book(&memory, "").permit(&asked(&pin("1"))).await.unwrap();
    let denial = book(&memory, "").permit(&asked(&pin("1"))).await;
    assert!(matches!(denial, Err(Denial::Wait(_))), "{denial:?}");
}

#[tokio::test]
async fn a_try_that_was_sent_is_never_taken_back() {
    let memory = Arc::new(Memory::default());
    let mut book = book(&memory, "pod");
    for outcome in [Outcome::Pending, Outcome::PendingAgain] {
        let grant = book.permit(&asked(&pin("1"))).await.unwrap();
        assert_eq!(memory.outcomes(), [outcome]);
        book.sent(&grant);
    }
    let denial = book.permit(&asked(&pin("1"))).await;
    assert_eq!(denial, Err(Denial::Refused(Refusal::Unanswered)));
}

#[tokio::test]
async fn of_what_many_write_at_once_nothing_is_lost() {
    let memory = Arc::new(Memory::default());
    let mut books: Vec<Book> = (0..6).map(|pod| book(&memory, &format!("pod-{pod}"))).collect();
    for (number, book) in books.iter_mut().enumerate() {
        book.know("t", "uid", &pin(&number.to_string()), Outcome::Rejected);
    }
    for book in &mut books {
        assert!(book.written(Duration::from_secs(30)).await);
    }
    assert_eq!(memory.outcomes(), [Outcome::Rejected; 6]);
}

#[tokio::test]
async fn the_token_is_written_down_with_the_first_try_of_its_user() {
    let memory = Arc::new(Memory::default());
    let mut book = book(&memory, "pod");
    let pin = pin("1");
    let mut officers = asked(&pin);
    officers.secret = trustplane_api::hsm::record::OFFICER;
    book.permit(&officers).await.unwrap();
    // A token that is made ours gets another serial number by that.
    assert_eq!(memory.record().token, None);
    book.permit(&asked(&pin)).await.unwrap();
    assert_eq!(memory.record().token.unwrap().serial, "t");
}

#[tokio::test(start_paused = true)]
async fn a_grant_ends_while_others_still_leave_the_try_alone() {
    let (memory, pin) = (Arc::new(Memory::default()), pin("1"));
    let asked = asked(&pin);
    let grant = book(&memory, "pod-a").permit(&asked).await.unwrap();
    assert!(!grant.is_over());
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(!grant.is_over());
    tokio::time::advance(Duration::from_millis(1)).await;
    assert!(grant.is_over());
    // What is left of their patience is as long as a token may take to answer.
    let denial = book(&memory, "pod-b").permit(&asked).await;
    assert!(
        matches!(denial, Err(Denial::Wait(left)) if left >= asked.opening),
        "{denial:?}"
    );
}
