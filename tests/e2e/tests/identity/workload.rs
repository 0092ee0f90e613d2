//! A pod that reads its SVID from the Workload API, and knows nothing else of SPIRE.

use trustplane_e2e::{Arena, say, try_say};

use crate::stage::Stage;

/// Its namespace.
pub const SHOP: &str = "identity-shop";
const POD: &str = "pod/reader";
const SOCKET: &str = "/spiffe-workload-api/spire-agent.sock";

/// The pod of the guide's example.
pub struct Workload<'a> {
    pub arena: &'a Arena,
    pub stage: &'a Stage<'a>,
}

/// What the Workload API has given the pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Svid {
    pub id: String,
    /// Since when it is valid.
    pub since: String,
}

impl Workload<'_> {
    /// The SVID, as soon as there is one.
    pub fn svid(&self) -> Svid {
        let ready = ["wait", POD, "--for=condition=Ready", "--timeout=60s"];
        say(self.arena.kubectl(&["--namespace", SHOP]).args(ready))
            .inspect_err(|_| self.stage.explain())
            .unwrap();
        self.stage.until("the pod to read its SVID", || self.fetch())
    }

    /// An SVID that came later, from an agent that has attested again.
    pub fn svid_after(&self, first: &Svid) -> Svid {
        self.stage.until("the pod to read another SVID", || {
            self.fetch().filter(|svid| svid != first)
        })
    }

    /// Ends the pod, and with it the mount of its volume.
    pub fn end(&self) {
        let end = ["delete", POD, "--timeout=60s"];
        say(self.arena.kubectl(&["--namespace", SHOP]).args(end))
            .inspect_err(|_| self.stage.explain())
            .unwrap();
    }

    /// Asks from inside the pod. The client verifies the answer against the bundle that comes with it.
    fn fetch(&self) -> Option<Svid> {
        let agent = "/opt/spire/bin/spire-agent";
        let ask = [
            "exec",
            POD,
            "--",
            agent,
            "api",
            "fetch",
            "x509",
            "-socketPath",
            SOCKET,
        ];
        let said = try_say(self.arena.kubectl(&["--namespace", SHOP]).args(ask)).unwrap();
        if !said.status.success() {
            self.stage.note(&[said.out, said.err]);
            return None;
        }
        assert!(said.out.starts_with("Received 1 svid "), "{}", said.out);
        let told = |label: &str| {
            let line = said.out.lines().find_map(|line| line.strip_prefix(label));
            line.expect(&said.out).trim().to_owned()
        };
        Some(Svid {
            id: told("SPIFFE ID:"),
            since: told("SVID Valid After:"),
        })
    }
}
