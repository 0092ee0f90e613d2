//! The connection between a server and a follower, with the faults that it can have.

use std::{sync::Arc, time::Instant};

use proptest::prelude::*;
use tokio::sync::watch;

use super::{
    Action, View,
    server::{Connection, Server},
};
use crate::watch::{
    destination::Destination,
    failure::Failure,
    follower::Follower,
    hub::Hub,
    lines::Line,
    machine::{Ask, Step},
};

pub(super) struct Link<D: Destination> {
    server: Server,
    pub(super) now: Instant,
    pub(super) follower: Follower<D>,
    relists: watch::Receiver<u64>,
    open: Option<Connection>,
    lost_events: bool,
}

impl<D: Destination> Link<D> {
    pub(super) fn new(server: Server, hub: &Arc<Hub<D::Kept>>, follower: Follower<D>) -> Self {
        Self {
            server,
            now: Instant::now(),
            follower,
            relists: hub.relists(),
            open: None,
            lost_events: false,
        }
    }

    /// Another follower takes over, as after a crash.
    pub(super) fn restart(&mut self, hub: &Arc<Hub<D::Kept>>, follower: Follower<D>) {
        self.hang_up();
        self.follower = follower;
        self.relists = hub.relists();
    }

    /// What happens at the server or on the way; nothing else happens here.
    pub(super) fn act(&mut self, action: Action) {
        match action {
            Action::Write(name) => self.server.write(name),
            Action::Delete(name) => self.server.delete(name),
            Action::Recreate(name) => {
                self.server.delete(name);
                self.server.write(name);
            }
            Action::Compact => self.server.compact(),
            Action::Deliver(lines) => {
                for _ in 0..lines {
                    self.deliver();
                }
            }
            Action::Fail(reason) => {
                self.hang_up();
                self.follower.failed(Failure::new(reason, ""), self.now);
            }
            Action::Duplicate => self.open.iter_mut().for_each(Connection::duplicate),
            Action::Reorder => self.open.iter_mut().for_each(Connection::reorder),
            Action::Drop => self.lost_events |= self.open.as_mut().is_some_and(Connection::lose),
            Action::StaleList(back) => self.server.serve_past(back),
            Action::Take(..) | Action::Join | Action::Restart => {}
        }
    }

    /// The server behaves from now on until all is delivered; gives what is true.
    pub(super) fn settle(&mut self, hub: &Arc<Hub<D::Kept>>) -> Result<View, TestCaseError> {
        self.server.serve_past(0);
        if self.lost_events {
            hub.relist();
        }
        let mut exchanges = 0;
        while self.deliver() {
            exchanges += 1;
            prop_assert!(exchanges < 1000, "it does not come to rest");
        }
        Ok(self.server.truth())
    }

    /// A connection that ends between two events that changed places has lost one of them.
    fn hang_up(&mut self) {
        self.lost_events |= self.open.take().is_some_and(|open| open.is_between_swapped());
    }

    /// One exchange with the server; `false` if there is nothing to do.
    fn deliver(&mut self) -> bool {
        if self.relists.has_changed().unwrap_or(false) && !self.follower.is_listing() {
            self.relists.mark_unchanged();
            self.follower.relist(self.now);
        }
        if !self.follower.is_open() {
            self.hang_up();
        }
        let Some(open) = &mut self.open else {
            self.connect();
            return true;
        };
        open.fetch(&self.server);
        let Some(line) = open.next_line() else {
            return false;
        };
        self.follower.line(&Line::Whole(line.into()), self.now);
        true
    }

    fn connect(&mut self) {
        if let Step::Wait(until) = self.follower.step(self.now) {
            self.now = until;
        }
        let Step::Send(ask) = self.follower.step(self.now) else {
            panic!("it waits longer than it said")
        };
        let opened = match ask {
            Ask::Page { token, size } => {
                match self.server.page(token.as_deref(), size) {
                    Ok(body) => self.follower.page(body.as_bytes(), self.now),
                    Err(reason) => self.follower.failed(Failure::new(reason, ""), self.now),
                }
                return;
            }
            Ask::Stream => self.server.stream(),
            Ask::Watch { from } => self.server.watch(&from),
        };
        match opened {
            Ok(connection) => {
                self.open = Some(connection);
                self.follower.accepted(self.now);
            }
            Err(reason) => self.follower.failed(Failure::new(reason, ""), self.now),
        }
    }
}
