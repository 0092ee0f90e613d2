//! What runs in the child process: the module, and nothing else.
//!
//! One thread serves one request at a time. A module that hangs or crashes does so here. The child keeps no PIN: it gets one
//! with each order to log in, and wipes it after that.

mod blank;
mod module;
mod requests;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;

use rustix::process::{Signal, set_parent_process_death_signal};
use trustplane_hsm_core::limits::Limits;
use trustplane_hsm_core::recover::{End, Ended};
use trustplane_hsm_core::secret::Value;
use trustplane_hsm_token::{Attempt, Module, Store, Token, TokenInfo};
use trustplane_process::protection::protect;

use crate::frame::{self, FrameError, Message};
use crate::wire::{Answer, Failure, Kind, Reply, Request};
use module::{Loaded, find, load, log_in, may_log_in, not_open};
pub(crate) use requests::same;
use requests::{carry_out, pin};

/// Why the child has ended otherwise than by order.
#[derive(Debug, thiserror::Error)]
pub enum ChildError {
    /// It cannot be protected, or its standard input is no socket.
    #[error("set up the module's process: {0}")]
    SetUp(#[from] io::Error),
    /// A request cannot be understood, or an answer cannot be sent.
    #[error("serve the module: {0}")]
    Frame(#[from] FrameError),
}

/// Serves the module over the socket that standard input is, until its other side is closed.
///
/// Nobody can read this process's memory or trace it, it leaves no core, and it ends with the one that started it.
pub fn run() -> Result<(), ChildError> {
    protect()?;
    // If it has ended before this, the socket says so.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)?;
    let socket: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    Line(UnixStream::from(socket)).serve()
}

/// The socket to the agent.
struct Line(UnixStream);

impl Line {
    fn next(&mut self) -> Result<Option<Message<Request>>, FrameError> {
        frame::read(&mut self.0)
    }

    fn answer(&mut self, reply: impl Into<Message<Reply>>) -> Result<(), FrameError> {
        self.send(reply.into().into())
    }

    /// Answers, and tells of changes that were found interrupted since the last answer.
    fn answer_of(
        &mut self,
        store: &mut Store<'_>,
        reply: impl Into<Message<Reply>>,
    ) -> Result<(), FrameError> {
        let mut answer: Message<Answer> = reply.into().into();
        answer.head.interrupted = store.interrupted().iter().map(told).collect();
        self.send(answer)
    }

    fn send(&mut self, answer: Message<Answer>) -> Result<(), FrameError> {
        match frame::write(&mut self.0, &answer) {
            Err(FrameError::TooLarge) => {
                let failure = Failure::new(Kind::ResourceExhausted, "the answer is too large");
                let reply = Reply::Failed(failure);
                let interrupted = answer.head.interrupted;
                frame::write(&mut self.0, &Answer { reply, interrupted }.into())
            }
            sent => sent,
        }
    }

    /// Finds tokens and opens them. While one is open, [`Line::serve_token`] has the line.
    fn serve(&mut self) -> Result<(), ChildError> {
        let mut loaded: Option<Loaded> = None;
        let mut pending = self.next()?;
        while let Some(request) = pending {
            let reply = match request.head {
                Request::Renew { limits } => {
                    pending = self.renew(loaded.as_mut(), &request.secrets, limits)?;
                    continue;
                }
                Request::LogIn { attempt } => match loaded.as_ref().and_then(Loaded::to_open) {
                    Some((module, found)) => match log_in(module, found, &request.secrets, attempt) {
                        Ok(token) => {
                            pending = self.serve_token(module, found, token)?;
                            continue;
                        }
                        Err((failure, tried)) => Reply::NotLoggedIn { failure, tried },
                    },
                    None => Reply::Failed(not_open()),
                },
                Request::Provision { label } => blank::provision(loaded.as_mut(), &label, &request.secrets)
                    .map_or_else(Reply::Failed, |()| Reply::Done),
                Request::FindBlank(search) => {
                    blank::find(&mut loaded, &search).map_or_else(Reply::Failed, Reply::Found)
                }
                Request::Find(search) => find(&mut loaded, &search).map_or_else(Reply::Failed, Reply::Found),
                Request::LetGo => {
                    loaded.iter_mut().for_each(Loaded::let_go);
                    Reply::Done
                }
                _ => Reply::Failed(not_open()),
            };
            self.answer(reply)?;
            pending = self.next()?;
        }
        Ok(())
    }

    /// Serves a token that is logged in until it is lost, or another order is to be followed, which is given back.
    fn serve_token(
        &mut self,
        module: &Module,
        found: &TokenInfo,
        token: Token<'_>,
    ) -> Result<Option<Message<Request>>, ChildError> {
        self.answer(Reply::Done)?;
        let limits = match self.next()? {
            Some(Message {
                head: Request::Serve { limits },
                ..
            }) => limits,
            other => return Ok(other),
        };
        match Store::open(token, limits) {
            Ok(mut store) => {
                self.answer_of(&mut store, Reply::Done)?;
                self.serve_store(module, found, store)
            }
            Err(error) => {
                self.answer(Reply::Failed(error.into()))?;
                Ok(self.next()?)
            }
        }
    }

    /// Begins anew with a token that was being served, and goes on.
    fn renew(
        &mut self,
        loaded: Option<&mut Loaded>,
        secrets: &[Value],
        limits: Limits,
    ) -> Result<Option<Message<Request>>, ChildError> {
        let Some(loaded) = loaded else {
            self.answer(Reply::Failed(not_open()))?;
            return Ok(self.next()?);
        };
        if let Err(failure) = loaded.find_again() {
            self.answer(Reply::Failed(Failure {
                lost: true,
                ..failure
            }))?;
            return Ok(self.next()?);
        }
        let Some((module, found)) = loaded.to_open() else {
            self.answer(Reply::Failed(not_open()))?;
            return Ok(self.next()?);
        };
        let token = match log_in(module, found, secrets, Attempt::Automatic) {
            Ok(token) => token,
            Err((failure, tried)) => {
                self.answer(Reply::NotLoggedIn { failure, tried })?;
                return Ok(self.next()?);
            }
        };
        match Store::open(token, limits) {
            Ok(mut store) => {
                self.answer_of(&mut store, Reply::Done)?;
                self.serve_store(module, found, store)
            }
            Err(error) => {
                let failure = Failure::from(error);
                self.answer(Reply::Failed(Failure {
                    lost: true,
                    ..failure
                }))?;
                Ok(self.next()?)
            }
        }
    }

    /// Serves what was opened until it is lost, or another order is to be followed, which is given back.
    fn serve_store(
        &mut self,
        module: &Module,
        found: &TokenInfo,
        mut store: Store<'_>,
    ) -> Result<Option<Message<Request>>, ChildError> {
        loop {
            let request = match self.next()? {
                Some(request) if !request.head.opens() => request,
                // What could not be opened again is not closed.
                Some(Message {
                    head: Request::Renew { .. },
                    ..
                }) if let Err(failure) = may_log_in(module, found) => {
                    self.answer(Reply::Failed(failure))?;
                    continue;
                }
                other => return Ok(other),
            };
            match carry_out(module, found, &mut store, request) {
                Ok(reply) => self.answer_of(&mut store, reply)?,
                Err(failure) => {
                    let lost = failure.lost;
                    self.answer_of(&mut store, Reply::Failed(failure))?;
                    if lost {
                        drop(store);
                        return Ok(self.next()?);
                    }
                }
            }
        }
    }
}

/// What became of a change that was interrupted. No values are in it.
pub(crate) fn told(ended: &Ended) -> String {
    let what = match &ended.path {
        Some(path) => path.to_string(),
        None => format!("the path with the mark {}", ended.mark),
    };
    match ended.end {
        End::Finished => format!("{what}: the interrupted write was finished"),
        End::Undone => format!("{what}: the interrupted write was undone"),
        End::Overtaken => format!("{what}: another tool has overtaken the interrupted write"),
        End::Lost(loss) => format!("{what}: {loss}"),
    }
}
