//! Neither values nor PINs are in logs, errors or metrics.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use tracing_subscriber::fmt::MakeWriter;
use trustplane_api::hsm::v1::{ChangePinRequest, ListSecretsRequest};
use trustplane_pkcs11_shim::pkcs11::CKR_DEVICE_REMOVED;
use trustplane_pkcs11_shim::{Action, Control, Fault};

use super::probes::Port;
use super::{Agent, read, write};
use crate::stage::PIN;

const CANARY: &str = "canary-9f1c";

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

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

#[tokio::test]
async fn values_and_pins_are_nowhere_but_where_they_belong() {
    let log = Log::default();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::TRACE)
        .with_writer(log.clone());
    let _kept = tracing::subscriber::set_default(subscriber.finish());
    let agent = Agent::start().await;
    let (mut client, port) = (agent.client(), Port::of(&agent));
    let mut told = String::new();
    let mut tell = |answer: Result<(), tonic::Status>| told.push_str(&format!("{answer:?}"));
    tell(
        client
            .write_secret(write("a", "k", CANARY.as_bytes()))
            .await
            .map(drop),
    );
    tell(
        client
            .write_secret(write("a", "a/b", CANARY.as_bytes()))
            .await
            .map(drop),
    );
    tell(
        client
            .write_secret(write("a", "k", CANARY.repeat(100_000).as_bytes()))
            .await
            .map(drop),
    );
    let stale = super::methods::version(7);
    let mut request = write("a", "k", CANARY.as_bytes());
    request.expected = stale;
    tell(client.write_secret(request).await.map(drop));
    let pins = ChangePinRequest {
        old_pin: CANARY.to_owned(),
        new_pin: PIN.to_owned(),
    };
    tell(client.change_pin(pins).await.map(drop));
    let gone = Fault::before(3, Action::Answer(CKR_DEVICE_REMOVED));
    agent.stage.set(Control::fault(gone.of("C_CreateObject")));
    tell(
        client
            .write_secret(write("a", "k", format!("{CANARY}2").as_bytes()))
            .await
            .map(drop),
    );
    crate::stage::serving(&agent.host).await;
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
    told.push_str(&String::from_utf8_lossy(&log.0.lock().unwrap()));
    assert!(told.contains("the token is"), "there is a log");
    for secret in [CANARY, PIN, "99, 97, 110, 97, 114, 121"] {
        assert!(!told.contains(secret), "{secret} in {told}");
    }
}
