use std::sync::atomic::{AtomicU32, Ordering};

use futures::future::{BoxFuture, join_all};
use futures::stream::BoxStream;

use super::*;
use crate::mock::Mock;

fn question(path: &str) -> Question {
    let source = Source {
        provider: Some("mock".to_owned()),
        store: None,
        path: path.to_owned(),
        version: None,
    };
    Question::of(&source, "shop", None)
}

/// Asks where nobody is to find out about accounts.
async fn ask(exchange: &Exchange, question: &Question) -> Answer {
    exchange
        .ask(question, async { panic!("nobody wants to know") })
        .await
}

fn exchange(mock: &Mock) -> Exchange {
    Exchange::new(Registry::default().with(mock.clone()), None, &Metrics::new())
}

#[tokio::test(start_paused = true)]
async fn a_thousand_questions_about_fifty_secrets_are_one_call() {
    let mock = Mock::default();
    (0..50).for_each(|n| mock.set(&format!("p{n}"), "x"));
    let exchange = exchange(&mock);
    let questions: Vec<_> = (0..1000).map(|n| question(&format!("p{}", n % 50))).collect();
    let answers = join_all(questions.iter().map(|question| ask(&exchange, question))).await;
    assert!(answers.iter().all(Result::is_ok));
    assert_eq!(mock.calls().iter().map(Vec::len).collect::<Vec<_>>(), [50]);
}

#[tokio::test(start_paused = true)]
async fn a_long_list_is_asked_in_parts() {
    let mock = Mock::default();
    mock.delay(Duration::from_secs(1));
    let exchange = exchange(&mock);
    let questions: Vec<_> = (0..450).map(|n| question(&format!("p{n}"))).collect();
    let answers = join_all(questions.iter().map(|question| ask(&exchange, question))).await;
    assert!(
        answers
            .iter()
            .all(|answer| answer.as_ref().err() == Some(&FetchError::NotFound))
    );
    assert_eq!(
        mock.calls().iter().map(Vec::len).collect::<Vec<_>>(),
        [200, 200, 50]
    );
}

#[tokio::test(start_paused = true)]
async fn a_question_on_its_way_is_not_sent_twice_and_never_answered_with_the_past() {
    let mock = Mock::default();
    mock.set("p", "old");
    mock.delay(Duration::from_secs(1));
    let exchange = exchange(&mock);
    let first = tokio::spawn({
        let exchange = exchange.clone();
        async move { ask(&exchange, &question("p")).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    assert_eq!(mock.asked_for("p"), 1, "it is on its way");
    let late = question("p");
    let (one, other) = tokio::join!(ask(&exchange, &late), ask(&exchange, &late));
    assert_eq!(
        mock.asked_for("p"),
        2,
        "asked once more, after the first has come back, for both"
    );
    assert!(one.is_ok() && other.is_ok() && first.await.is_ok_and(|answer| answer.is_ok()));
}

#[tokio::test(start_paused = true)]
async fn who_gives_up_takes_nobody_along() {
    let mock = Mock::default();
    mock.set("p", "x");
    mock.delay(Duration::from_secs(1));
    let exchange = exchange(&mock);
    let asked = question("p");
    let impatient = tokio::time::timeout(Duration::from_millis(1), ask(&exchange, &asked));
    let (impatient, patient) = tokio::join!(impatient, ask(&exchange, &asked));
    assert!(impatient.is_err() && patient.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_never_answers_is_given_up_and_can_be_asked_again() {
    let mock = Mock::default();
    mock.set("p", "x");
    mock.set("q", "x");
    mock.hold_still(true);
    let exchange = exchange(&mock);
    let (stuck, later) = (question("p"), question("q"));
    let (stuck, later) = tokio::join!(ask(&exchange, &stuck), async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        ask(&exchange, &later).await
    });
    assert_eq!(stuck.err(), Some(unavailable("no answer in time")));
    assert_eq!(later.err(), Some(unavailable("no answer in time")));
    mock.hold_still(false);
    assert!(ask(&exchange, &question("p")).await.is_ok());
}

#[tokio::test]
async fn a_name_that_nobody_has_is_no_store() {
    let exchange = Exchange::new(Registry::default(), None, &Metrics::new());
    assert_eq!(
        ask(&exchange, &question("p")).await.err(),
        Some(FetchError::NoStore)
    );
}

/// Falls over at its first call.
struct Clumsy(AtomicU32);

impl Provider for Clumsy {
    fn name(&self) -> &'static str {
        "mock"
    }

    fn fetch<'a>(&'a self, wanted: &'a [Locator]) -> BoxFuture<'a, Vec<Result<Fetched, FetchError>>> {
        Box::pin(async move {
            assert!(self.0.fetch_add(1, Ordering::SeqCst) > 0, "fell over");
            wanted.iter().map(|_| Err(FetchError::NotFound)).collect()
        })
    }
}

#[tokio::test(start_paused = true)]
async fn a_provider_that_falls_over_can_be_asked_again() {
    let exchange = Exchange::new(
        Registry::default().with(Clumsy(AtomicU32::new(0))),
        None,
        &Metrics::new(),
    );
    assert_eq!(
        ask(&exchange, &question("p")).await.err(),
        Some(unavailable("the question was dropped"))
    );
    assert_eq!(
        ask(&exchange, &question("p")).await.err(),
        Some(FetchError::NotFound)
    );
}

/// Tells of changes.
struct Talkative {
    mock: Mock,
    changes: Mutex<Option<BoxStream<'static, String>>>,
}

impl Provider for Talkative {
    fn name(&self) -> &'static str {
        "mock"
    }

    fn identity(&self) -> Identity {
        self.mock.identity()
    }

    fn fetch<'a>(&'a self, wanted: &'a [Locator]) -> BoxFuture<'a, Vec<Result<Fetched, FetchError>>> {
        self.mock.fetch(wanted)
    }

    fn changes(&self) -> Option<BoxStream<'static, String>> {
        self.changes.lock().unwrap().take()
    }
}

#[tokio::test(start_paused = true)]
async fn what_a_provider_tells_can_be_read_and_namespaces_do_not_share_answers() {
    let (sender, changes) = futures::channel::mpsc::unbounded();
    let mock = Mock::default();
    mock.decide_by(Identity::Namespace);
    let talkative = Talkative {
        mock: mock.clone(),
        changes: Mutex::new(Some(Box::pin(changes))),
    };
    let exchange = Exchange::new(Registry::default().with(talkative), None, &Metrics::new());
    let source = Source {
        provider: Some("mock".to_owned()),
        store: None,
        path: "/p".to_owned(),
        version: None,
    };
    let questions = ["a", "b"].map(|namespace| Question::of(&source, namespace, None));
    let answers = join_all(questions.iter().map(|question| ask(&exchange, question))).await;
    assert_eq!(answers.len(), 2);
    assert_eq!(mock.asked_for("/p"), 2);
    for path in ["p", "q", "p"] {
        sender.unbounded_send(path.to_owned()).unwrap();
    }
    let mut news = exchange.news().await;
    if news.len() == 1 {
        news.extend(exchange.news().await);
    }
    let about: Vec<bool> = news.iter().map(|news| news.is_about(&source)).collect();
    assert_eq!(about, [true, false]);
}

/// Opens stores on a provider in memory.
struct Shelf {
    mock: Mock,
    opened: Mutex<Vec<(String, Option<u64>)>>,
    next: Mutex<Result<u64, FetchError>>,
    /// The revision that the store has; any if there is none.
    revision: Mutex<Option<&'static str>>,
}

impl Opener for Shelf {
    fn open<'a>(
        &'a self,
        _store: &'a str,
        revision: &'a str,
        before: Option<u64>,
    ) -> BoxFuture<'a, Result<Opening, FetchError>> {
        self.opened.lock().unwrap().push((revision.to_owned(), before));
        let next = self.next.lock().unwrap().clone();
        let current = *self.revision.lock().unwrap();
        Box::pin(async move {
            let content = next?;
            Ok(match before {
                _ if current.is_some_and(|current| current != revision) => Opening::OtherRevision,
                Some(before) if before == content => Opening::Unchanged,
                _ => Opening::Opened(crate::Opened {
                    provider: Arc::new(self.mock.clone()),
                    content,
                }),
            })
        })
    }
}

fn shelf() -> (Arc<Shelf>, Exchange) {
    let mock = Mock::default();
    mock.set("p", "x");
    let shelf = Arc::new(Shelf {
        mock,
        opened: Mutex::default(),
        next: Mutex::new(Ok(1)),
        revision: Mutex::default(),
    });
    let exchange = Exchange::new(Registry::default(), Some(shelf.clone()), &Metrics::new());
    (shelf, exchange)
}

/// Asks a store, as judged with this revision.
async fn ask_store(exchange: &Exchange, revision: &str) -> Result<(), FetchError> {
    let source = Source {
        provider: None,
        store: Some("s".to_owned()),
        path: "p".to_owned(),
        version: None,
    };
    let question = Question::of(&source, "shop", Some(&revision.into()));
    ask(exchange, &question).await.map(drop)
}

#[tokio::test(start_paused = true)]
async fn a_store_is_opened_once_and_looked_at_again_from_time_to_time() {
    let (shelf, exchange) = shelf();
    let ask = async |revision: &str| ask_store(&exchange, revision).await;
    assert_eq!([ask("1").await, ask("1").await], [Ok(()), Ok(())]);
    assert_eq!(ask("2").await, Ok(()), "another revision is another store");
    tokio::time::advance(LOOK_AGAIN).await;
    assert_eq!(ask("2").await, Ok(()));
    *shelf.next.lock().unwrap() = Err(unavailable("no API server"));
    tokio::time::advance(LOOK_AGAIN).await;
    assert_eq!(ask("2").await, Ok(()), "what was read before still counts");
    assert!(ask("3").await.is_err());
    exchange.close("s");
    assert!(ask("2").await.is_err());
    let opened = [
        ("1", None),
        ("2", None),
        ("2", Some(1)),
        ("2", Some(1)),
        ("3", None),
        ("2", None),
    ];
    let opened = opened.map(|(revision, before)| (revision.to_owned(), before));
    assert_eq!(*shelf.opened.lock().unwrap(), opened);
}

#[tokio::test(start_paused = true)]
async fn a_question_is_asked_only_of_the_revision_it_was_judged_with() {
    let (shelf, exchange) = shelf();
    let changed = Err(unavailable("the store has changed since the request was judged"));
    *shelf.revision.lock().unwrap() = Some("2");
    assert_eq!(
        ask_store(&exchange, "1").await,
        changed,
        "judged before it changed"
    );
    assert_eq!(shelf.mock.calls().len(), 0, "nobody is asked");
    assert_eq!(ask_store(&exchange, "2").await, Ok(()));
    assert_eq!(ask_store(&exchange, "1").await, changed);
    assert_eq!(ask_store(&exchange, "2").await, Ok(()));
    let opened = shelf.opened.lock().unwrap().len();
    assert_eq!(opened, 3, "a late question does not close what is open");
    // What was opened before the change does not serve those who judged before it, once it is looked at again.
    *shelf.revision.lock().unwrap() = Some("3");
    tokio::time::advance(LOOK_AGAIN).await;
    assert_eq!(ask_store(&exchange, "2").await, changed);
    assert_eq!(shelf.mock.asked_for("p"), 2);
}

#[tokio::test(start_paused = true)]
async fn accounts_do_not_share_answers_and_one_that_is_not_known_gets_none() {
    let mock = Mock::default();
    mock.set("p", "x");
    mock.decide_by(Identity::ServiceAccount);
    let exchange = exchange(&mock);
    let asked = question("p");
    let named = |name: &'static str| exchange.ask(&asked, async move { Ok(name.into()) });
    let answers = tokio::join!(named("web"), named("job"), named("web"));
    assert!(answers.0.is_ok() && answers.1.is_ok() && answers.2.is_ok());
    let accounts = |name: &str| Principal::ServiceAccount {
        namespace: "shop".to_owned(),
        name: name.into(),
    };
    let asked_for: Vec<_> = mock
        .calls()
        .concat()
        .into_iter()
        .map(|locator| locator.on_behalf_of)
        .collect();
    assert_eq!(asked_for, [accounts("job"), accounts("web")]);
    let unknown = exchange.ask(&asked, async { Err(FetchError::NotFound) }).await;
    assert_eq!(unknown.err(), Some(FetchError::NotFound));
    assert_eq!(mock.asked_for("p"), 2);
}
