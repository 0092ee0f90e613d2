//! Neither values nor PINs are in logs, errors or metrics.

use std::io::{self, Write};
use std::sync::{Arc, LazyLock, Mutex};

use tracing_subscriber::fmt::MakeWriter;
use trustplane_api::hsm::record::Record;
use trustplane_api::hsm::v1::{ChangePinRequest, ListSecretsRequest};
use trustplane_hsm_agent::record::{Answer, Book, Change, Ledger, LedgerError, Loaded};
use trustplane_hsm_agent::{Given, Host, Output, Provision, Provisioning, Wanted};
use trustplane_hsm_core::pin_record::DigestKey;
use trustplane_hsm_token::Attempt;
use trustplane_pkcs11_shim::pkcs11::CKR_DEVICE_REMOVED;
use trustplane_pkcs11_shim::{Action, Control, Fault};

use super::probes::Port;
use super::{Agent, read, write};
use crate::stage::{PIN, Stage, eventually, open, secret, serving};

const CANARY: &str = "canary-9f1c";
/// PINs, each in a text that nobody writes by chance.
const NEW_PIN: &str = "canary-7d20";
const OFFICER: &str = "canary-55e3";
const BLANK_PIN: &str = "canary-1b8a";
/// What a chatty module prints, in the test in which it is not shown and in the one in which it is.
pub const HIDDEN: &str = "canary-c4f6 is the PIN";
pub const SHOWN: &str = "apdu 00 20 00 81";

/// What every thread of this process logs.
static LOG: LazyLock<Log> = LazyLock::new(|| {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_ansi(false)
        .with_writer(log.clone());
    tracing::subscriber::set_global_default(subscriber.finish()).unwrap();
    log
});

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Log {
    fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl MakeWriter<'_> for Log {
    type Writer = Self;

    fn make_writer(&self) -> Self {
        self.clone()
    }
}

fn assert_clean(told: &str) {
    let bytes = format!("{:?}", CANARY.as_bytes());
    let bytes = bytes.trim_matches(['[', ']']);
    for hidden in [CANARY, PIN, NEW_PIN, OFFICER, BLANK_PIN, HIDDEN, bytes] {
        assert!(!told.contains(hidden), "{hidden} in {told}");
    }
}

#[tokio::test]
async fn values_and_pins_are_nowhere_but_where_they_belong() {
    let log = &*LOG;
    let agent = Agent::start().await;
    let (mut client, port) = (agent.client(), Port::of(&agent));
    let mut told = String::new();
    let mut tell = |answer: Result<(), tonic::Status>| told.push_str(&format!("{answer:?}"));
    let mut stale = write("a", "k", CANARY.as_bytes());
    stale.expected = super::methods::version(7);
    for request in [
        write("a", "k", CANARY.as_bytes()),
        write("a", "a/b", CANARY.as_bytes()),
        write("a", "k", CANARY.repeat(100_000).as_bytes()),
        stale,
    ] {
        tell(client.write_secret(request).await.map(drop));
    }
    let pins = |old: &str, new: &str| ChangePinRequest {
        old_pin: old.to_owned(),
        new_pin: new.to_owned(),
    };
    tell(client.change_pin(pins(CANARY, PIN)).await.map(drop));
    client.change_pin(pins(PIN, NEW_PIN)).await.unwrap();
    assert_eq!(agent.stage.answers("C_SetPIN"), [Some(0)]);
    // The token is lost in the midst of a write, and opened with the new PIN.
    let gone = Fault::before(3, Action::Answer(CKR_DEVICE_REMOVED));
    agent.stage.set(Control::fault(gone.of("C_CreateObject")));
    let late = write("a", "k", format!("{CANARY}2").as_bytes());
    tell(client.write_secret(late).await.map(drop));
    serving(&agent.host).await;
    agent.stage.heal();
    let found = client.read_secret(read("a")).await.unwrap().into_inner();
    assert!(found.secret_data.as_ref().unwrap().data["k"].starts_with(CANARY.as_bytes()));
    told.push_str(&format!("{found:?}"));
    told.push_str(&format!(
        "{:?}",
        client.list_secrets(ListSecretsRequest::default()).await.unwrap()
    ));
    told.push_str(&port.get("/metrics").await.1);
    told.push_str(&format!("{:?}", agent.host.health().borrow()));
    let logged = log.text();
    for line in ["the token is served", "the token is not served"] {
        assert!(logged.contains(line), "the host has logged: {logged}");
    }
    assert_clean(&(told + &logged));
}

/// A record that takes everything.
#[derive(Debug, Default)]
struct Memory(Mutex<(Record, u64)>);

impl Ledger for Memory {
    fn load(&self) -> Answer<'_, Loaded> {
        let (record, version) = self.0.lock().unwrap().clone();
        let version = version.to_string();
        Box::pin(async move { Ok(Loaded { record, version }) })
    }

    fn store(&self, change: Change) -> Answer<'_, ()> {
        Box::pin(async move {
            let mut known = self.0.lock().unwrap();
            let (record, version) = &mut *known;
            if change.version.is_some_and(|wanted| wanted != version.to_string()) {
                return Err(LedgerError::Conflict);
            }
            let mut data = record.data();
            data.extend(change.data);
            (*record, *version) = (Record::read(&data)?, *version + 1);
            Ok(())
        })
    }
}

#[tokio::test]
async fn the_pins_of_a_token_that_is_made_ours_are_not_told() {
    let log = &*LOG;
    let stage = Stage::new();
    let mut settings = stage.settings();
    settings.wanted = Wanted {
        label: Some("new".to_owned()),
        ..Wanted::default()
    };
    let ledger = Arc::new(Memory::default());
    let book = Book::new(ledger.clone(), DigestKey::new(&[7; 32]).unwrap(), "pod");
    let provision = Provision {
        officer: Some(secret(OFFICER)),
        label: "new".to_owned(),
    };
    let host = Host::start_recorded(settings, book, Some(provision)).unwrap();
    let given = Given {
        again: String::new(),
        pin: secret(BLANK_PIN),
        secret: "uid".to_owned(),
        attempt: Attempt::Automatic,
    };
    let mut health = host.health();
    let made = tokio::spawn(async move {
        let is_made = |health: &trustplane_hsm_agent::Health| {
            health.provisioning == Some(Provisioning::Done) || health.is_serving()
        };
        health.wait_for(is_made).await.is_ok()
    });
    host.give(given).await.unwrap();
    let health = serving(&host).await;
    assert!(made.await.unwrap());
    assert_eq!(stage.answers("C_InitPIN"), [Some(0)]);
    host.stop().await;
    let logged = log.text();
    assert!(logged.contains("a blank token was made ours"), "{logged}");
    assert_clean(&format!("{health:?} {:?} {logged}", ledger.0.lock().unwrap().0));
}

#[tokio::test]
async fn what_a_module_prints_is_shown_only_by_order() {
    let log = &*LOG;
    for (output, printed) in [(Output::Counted, HIDDEN), (Output::Shown, SHOWN)] {
        let stage = Stage::new();
        let mut settings = stage.settings();
        settings.program = stage.program("chatty");
        settings
            .program
            .environment
            .push((crate::stage::OBJECT.into(), printed.into()));
        settings.program.output = output;
        open(settings).await.stop().await;
    }
    let counted = "it prints something, which is not shown";
    eventually("all is read", || {
        let logged = log.text();
        logged.contains(counted) && logged.contains(SHOWN)
    })
    .await;
    assert_clean(&log.text());
}
