//! A blank token is made ours, if somebody has said that it may be. It is written down before it begins, with the security
//! officer's PIN as a try of its own, so that it is not done twice, and that PIN is not tried twice if it is wrong.

use std::time::Duration;

use trustplane_api::hsm::record::{OFFICER, Outcome};
use trustplane_hsm_core::pin_record::{Account, Flags};
use trustplane_hsm_core::secret::Value;
use trustplane_hsm_token::TokenInfo;
use trustplane_process::secret::Secret;

use super::actor::{Actor, Pause};
use super::opening::senseless;
use super::permit::{identity, outcome_of};
use crate::error::{AgentError, PinProblem};
use crate::frame::Message;
use crate::health::Provisioning;
use crate::record::{Asked, Denial, Grant};
use crate::wire::{Failure, Kind, Reply, Request};

/// How a blank token is made ours.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Provision {
    /// The security officer's PIN, which has to be kept elsewhere already. Without it a blank token is told of and left as it is.
    pub officer: Option<Secret<String>>,
    /// The label that the token gets: 1 to 32 bytes.
    pub label: String,
}

impl Actor {
    /// Finds the token, or makes the one blank token it if that is wanted.
    pub async fn find_or_provision(&mut self) -> Result<TokenInfo, Pause> {
        let found = self.find().await;
        let is_ours = found.as_ref().is_ok_and(|token| token.has_user_pin);
        // A token that was served is not blank, whatever it says; and without a child nothing can be found.
        if is_ours || self.token.is_some() || self.process.is_none() {
            return found;
        }
        // It is there, in the hands of another process: no other one is made in its place.
        if found.is_err() && matches!(self.excuse, AgentError::Held(_)) {
            return found;
        }
        let (Some(provision), Some(_)) = (self.provision.clone(), &self.book) else {
            return found;
        };
        // The token does not take this PIN: only another one helps.
        if self.useless.is_some() && self.useless.as_ref() == self.login.given() {
            return found;
        }
        match self.provision(&provision).await? {
            true => self.find().await,
            false => found,
        }
    }

    /// Makes the one blank token ours; says whether it did.
    async fn provision(&mut self, provision: &Provision) -> Result<bool, Pause> {
        let find = Request::FindBlank(self.search(self.settings.wanted.clone()));
        let blank = match self.ask_to_open(&find.into()).await?.head {
            Reply::Found(blank) => blank,
            Reply::Failed(failure) => return Ok(self.skipped(failure.text)),
            _ => return Ok(self.skipped(senseless().text)),
        };
        if self.has_provisioned(&blank).await? {
            return Ok(false);
        }
        let Some(officer) = &provision.officer else {
            self.show(Provisioning::SoPinWanted);
            return Ok(false);
        };
        let Some(grant) = self.may_provision(officer, &blank).await? else {
            return Ok(false);
        };
        self.show(Provisioning::Running);
        if grant.is_over() {
            return Err(Some(Duration::ZERO));
        }
        if let Some(book) = &mut self.book {
            book.sent(&grant);
        }
        let pins = [Some(officer), self.login.given().map(|given| &given.pin)];
        let order = Message {
            head: Request::Provision {
                label: provision.label.clone(),
            },
            secrets: pins
                .into_iter()
                .flatten()
                .map(|pin| Value::new(pin.expose().as_bytes()))
                .collect(),
        };
        let answer = self.ask_to_open(&order).await;
        let answer = answer.inspect_err(|_| self.failed("the module did not answer".to_owned()))?;
        Ok(match answer.head {
            Reply::Done => {
                self.settle(grant, Outcome::Accepted);
                self.show(Provisioning::Done);
                tracing::info!(label = provision.label, "a blank token was made ours");
                true
            }
            Reply::Failed(failure) => self.could_not_provision(grant, failure),
            _ => self.could_not_provision(grant, senseless()),
        })
    }

    /// Whether this agent has set up a token before: no agent sets up a second one.
    async fn has_provisioned(&mut self, blank: &TokenInfo) -> Result<bool, Pause> {
        let Some(book) = &mut self.book else {
            return Ok(true);
        };
        match book.has_provisioned().await {
            Ok(false) => Ok(false),
            Ok(true) => {
                let text = "this agent has made a token its own before, and does so once";
                self.skipped(text.to_owned());
                Ok(true)
            }
            Err(error) => Err(self.denied(Denial::Ledger(error), blank)),
        }
    }

    /// Whether the record allows to try the security officer's PIN.
    async fn may_provision(
        &mut self,
        officer: &Secret<String>,
        blank: &TokenInfo,
    ) -> Result<Option<Grant>, Pause> {
        let Some(book) = &mut self.book else {
            return Ok(None);
        };
        let asked = Asked {
            token: identity(blank),
            secret: OFFICER,
            pin: officer,
            again: "",
            account: Account::Automatic,
            flags: Flags::Clear,
            opening: self.settings.opening,
        };
        match book.permit(&asked).await {
            Ok(grant) => Ok(Some(grant)),
            Err(Denial::Refused(why)) => {
                let text = format!("the security officer's PIN is not tried again: {why:?}");
                self.failed(text);
                Ok(None)
            }
            Err(Denial::AnotherToken(known)) => {
                let text = format!("this agent belongs to the token with serial {:?}", known.serial);
                self.skipped(text);
                Ok(None)
            }
            Err(denial) => Err(self.denied(denial, blank)),
        }
    }

    fn could_not_provision(&mut self, grant: Grant, failure: Failure) -> bool {
        match failure.kind {
            _ if !failure.begun => {
                self.settle(grant, Outcome::Withdrawn);
                return self.skipped(failure.text);
            }
            Kind::Pin(problem @ (PinProblem::Rejected | PinProblem::Locked)) => {
                self.settle(grant, outcome_of(problem));
            }
            Kind::Pin(_) => {
                self.settle(grant, Outcome::Withdrawn);
                self.useless = self.login.given().cloned();
            }
            // It may have begun: it is done once more, and then no more.
            _ => {}
        }
        self.failed(failure.text);
        false
    }

    fn settle(&mut self, grant: Grant, outcome: Outcome) {
        if let Some(book) = &mut self.book {
            book.settle(grant, outcome);
        }
    }

    fn skipped(&self, why: String) -> bool {
        self.show(Provisioning::Skipped(why));
        false
    }

    fn failed(&self, why: String) {
        tracing::warn!(why, "a blank token could not be made ours");
        self.show(Provisioning::Failed(why));
    }

    fn show(&self, provisioning: Provisioning) {
        self.health.send_if_modified(|health| {
            let changed = health.provisioning.as_ref() != Some(&provisioning);
            health.provisioning = Some(provisioning);
            changed
        });
    }
}
