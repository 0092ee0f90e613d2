//! What the API server saw: the strongest witness that a test can have.
//!
//! A [`Mark`] is set before the act; [`Mark::since`] reads everything that was answered between. The audit log says who
//! did what, and by which right. It is not for what never reached the API server: the journal of the fault proxy has that.
//!
//! ```no_run
//! # async fn example(sandbox: trustplane_testkit::Sandbox, instance: trustplane_testkit::Instance) -> anyhow::Result<()> {
//! use trustplane_testkit::audit::Mark;
//!
//! let mark = Mark::now(sandbox.plane()).await?;
//! // … a full resync …
//! mark.since().await?.by(&instance).assert_silent();
//! # Ok(())
//! # }
//! ```

mod event;
mod log;
mod rights;

use std::collections::BTreeSet;

pub use event::Event;
pub use log::Mark;
pub use rights::{Right, granted};

use crate::{Account, Instance};

/// Requests of some requester in some time.
#[derive(Debug, Clone)]
pub struct Audit {
    events: Vec<Event>,
}

impl Audit {
    /// One event for each request: a watch counts when it begins, all else when it is answered.
    fn new(events: Vec<Event>) -> Self {
        let counts = |event: &Event| match event.verb.as_str() {
            "watch" => event.stage == "ResponseStarted",
            _ => event.stage == "ResponseComplete" || event.stage == "Panic",
        };
        Self {
            events: events.into_iter().filter(counts).collect(),
        }
    }

    /// Only what one instance asked, by its token.
    #[must_use]
    pub fn by(&self, instance: &Instance) -> Self {
        self.only(|event| event.used(instance.credential()))
    }

    /// Only what an account asked, in all its instances.
    #[must_use]
    pub fn by_account(&self, account: &Account) -> Self {
        let user = account.user();
        self.only(|event| event.user() == user)
    }

    /// Only what came with this user agent.
    #[must_use]
    pub fn by_agent(&self, agent: &str) -> Self {
        self.only(|event| event.agent() == agent)
    }

    /// Only what was asked in this namespace.
    #[must_use]
    pub fn in_namespace(&self, namespace: &str) -> Self {
        self.only(|event| event.namespace() == namespace)
    }

    /// Only what was asked of this kind, by its plural.
    #[must_use]
    pub fn of(&self, resource: &str) -> Self {
        self.only(|event| event.resource() == resource)
    }

    /// Everything but what was asked of this kind.
    #[must_use]
    pub fn except(&self, resource: &str) -> Self {
        self.only(|event| event.resource() != resource)
    }

    fn only(&self, wanted: impl Fn(&Event) -> bool) -> Self {
        Self {
            events: self
                .events
                .iter()
                .filter(|event| wanted(event))
                .cloned()
                .collect(),
        }
    }

    /// All of it, in the order of the answers.
    pub fn events(&self) -> &[Event] {
        &self.events
    }

    /// What was asked to change something, whether or not it was let through. Renewals of a lease do not count: they are
    /// the named exception from silence.
    pub fn writes(&self) -> Vec<&Event> {
        self.events
            .iter()
            .filter(|event| event.is_write() && event.resource() != "leases")
            .collect()
    }

    /// Who wrote what, a line for each write.
    pub fn story(&self) -> String {
        self.writes().iter().map(|event| format!("{event}\n")).collect()
    }

    /// Fails the test if anything was written.
    pub fn assert_silent(&self) {
        let story = self.story();
        assert!(
            story.is_empty(),
            "expected silence, but these writes were sent:\n{story}"
        );
    }

    /// Fails the test if anything was refused for want of a right.
    pub fn assert_nothing_denied(&self) {
        let denied: String = self
            .events
            .iter()
            .filter(|event| event.denied())
            .map(|event| format!("{event}\n"))
            .collect();
        assert!(denied.is_empty(), "these requests were forbidden:\n{denied}");
    }

    /// Compares what an account did with what it may do, both ways.
    pub fn rights(&self, account: &Account) -> RightsReport {
        let granted = granted(account.rules());
        let asked = self.by_account(account);
        let used: BTreeSet<Right> = asked
            .events
            .iter()
            .flat_map(|event| rights::used(&granted, event))
            .cloned()
            .collect();
        let beyond = |event: &&Event| {
            event.denied() || (rights::used(&granted, event).is_empty() && !rights::is_everybodys(event))
        };
        RightsReport {
            unused: granted.difference(&used).cloned().collect(),
            beyond: asked
                .events
                .iter()
                .filter(beyond)
                .map(ToString::to_string)
                .collect(),
            used,
        }
    }

    /// Fails the test unless an account used exactly its rights.
    pub fn assert_rights_used_are_rights_granted(&self, account: &Account) {
        let report = self.rights(account);
        assert!(report.is_exact(), "{report}");
    }
}

/// How rights and their use compare.
#[derive(Debug, Clone)]
pub struct RightsReport {
    /// Rights that were used.
    pub used: BTreeSet<Right>,
    /// Rights that were granted and never used.
    pub unused: BTreeSet<Right>,
    /// Requests that no granted right allows.
    pub beyond: Vec<String>,
}

impl RightsReport {
    /// Whether exactly the granted rights were used.
    pub fn is_exact(&self) -> bool {
        self.unused.is_empty() && self.beyond.is_empty() && !self.used.is_empty()
    }
}

impl std::fmt::Display for RightsReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        writeln!(f, "{} rights were used", self.used.len())?;
        for right in &self.unused {
            writeln!(f, "granted, but never used: {right}")?;
        }
        for request in &self.beyond {
            writeln!(f, "asked for without a right to it: {request}")?;
        }
        Ok(())
    }
}
