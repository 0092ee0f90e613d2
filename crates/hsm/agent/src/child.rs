//! What runs in the child process: the module, and nothing else.
//!
//! One thread serves one request at a time. A module that hangs or crashes does so here. The child keeps no PIN: it gets one
//! with each order to log in, and wipes it after that.

mod blank;
mod requests;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, set_dumpable_behavior, set_parent_process_death_signal,
    setrlimit,
};
use trustplane_hsm_core::limits::Limits;
use trustplane_hsm_core::recover::{End, Ended};
use trustplane_hsm_core::secret::Value;
use trustplane_hsm_token::{Attempt, Module, Store, Token, TokenInfo};

use crate::frame::{self, FrameError, Message};
use crate::wire::{Failure, Kind, Reply, Request, Tried, Wanted};
pub(crate) use requests::same;
use requests::{carry_out, info, pin};

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
    set_dumpable_behavior(DumpableBehavior::NotDumpable).map_err(io::Error::from)?;
    let none = Rlimit {
        current: Some(0),
        maximum: Some(0),
    };
    setrlimit(Resource::Core, none).map_err(io::Error::from)?;
    // If it has ended before this, the socket says so.
    set_parent_process_death_signal(Some(Signal::KILL)).map_err(io::Error::from)?;
    let socket: OwnedFd = io::stdin().as_fd().try_clone_to_owned()?;
    Line(UnixStream::from(socket)).serve()
}

/// The socket to the agent.
struct Line(UnixStream);

/// A module that is loaded, and the token in it that was found.
struct Loaded {
    path: PathBuf,
    module: Module,
    found: Option<TokenInfo>,
}

impl Loaded {
    /// Initialises the module again, and finds the same token.
    fn find_again(&mut self) -> Result<(), Failure> {
        let gone = || Failure::new(Kind::Unavailable, "the token is not open");
        let known = self.found.take().ok_or_else(gone)?;
        self.module.initialise_again()?;
        let mut tokens = self.module.inventory()?.tokens.into_iter();
        let missing = || Failure::new(Kind::Unavailable, format!("the token is gone: {known}"));
        let found = tokens.find(|token| same(token, &known)).ok_or_else(missing)?;
        self.found = Some(found);
        Ok(())
    }
}

impl Line {
    fn next(&mut self) -> Result<Option<Message<Request>>, FrameError> {
        frame::read(&mut self.0)
    }

    fn answer(&mut self, reply: impl Into<Message<Reply>>) -> Result<(), FrameError> {
        match frame::write(&mut self.0, &reply.into()) {
            Err(FrameError::TooLarge) => {
                let failure = Failure::new(Kind::ResourceExhausted, "the answer is too large");
                frame::write(&mut self.0, &Reply::Failed(failure).into())
            }
            sent => sent,
        }
    }

    /// Finds tokens and opens them. While one is open, [`Line::serve_token`] has the line.
    fn serve(&mut self) -> Result<(), ChildError> {
        let mut loaded: Option<Loaded> = None;
        let mut pending = self.next()?;
        while let Some(request) = pending {
            if let Request::Renew { limits } = request.head {
                pending = self.renew(loaded.as_mut(), &request.secrets, limits)?;
                continue;
            }
            if let Request::Provision { label } = &request.head {
                let done = blank::provision(loaded.as_mut(), label, &request.secrets);
                self.answer(done.map_or_else(Reply::Failed, |()| Reply::Done))?;
                pending = self.next()?;
                continue;
            }
            pending = match (request.head, &loaded) {
                (Request::FindBlank { module, wanted }, _) => {
                    let found = blank::find(&mut loaded, &module, &wanted);
                    self.answer(found.map_or_else(Reply::Failed, Reply::Found))?;
                    self.next()?
                }
                (Request::Find { module, wanted }, _) => {
                    let reply = find(&mut loaded, &module, &wanted).map_or_else(Reply::Failed, Reply::Found);
                    self.answer(reply)?;
                    self.next()?
                }
                (
                    Request::LogIn { attempt },
                    Some(Loaded {
                        module,
                        found: Some(found),
                        ..
                    }),
                ) => match log_in(module, found, &request.secrets, attempt) {
                    Ok(token) => self.serve_token(module, found, token)?,
                    Err((failure, tried)) => {
                        self.answer(Reply::NotLoggedIn { failure, tried })?;
                        self.next()?
                    }
                },
                _ => {
                    let failure = Failure::new(Kind::Unavailable, "the token is not open");
                    self.answer(Reply::Failed(failure))?;
                    self.next()?
                }
            };
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
        let mut store = match Store::open(token, limits) {
            Ok(store) => store,
            Err(error) => {
                self.answer(Reply::Failed(error.into()))?;
                return Ok(self.next()?);
            }
        };
        let interrupted = store.interrupted().iter().map(told).collect();
        self.answer(Reply::Serving { interrupted })?;
        self.serve_store(module, found, store)
    }

    /// Begins anew with a token that was being served, and goes on.
    fn renew(
        &mut self,
        loaded: Option<&mut Loaded>,
        secrets: &[Value],
        limits: Limits,
    ) -> Result<Option<Message<Request>>, ChildError> {
        let Some(loaded) = loaded else {
            let failure = Failure::new(Kind::Unavailable, "the token is not open");
            self.answer(Reply::Failed(failure))?;
            return Ok(self.next()?);
        };
        if let Err(failure) = loaded.find_again() {
            self.answer(Reply::Failed(Failure {
                lost: true,
                ..failure
            }))?;
            return Ok(self.next()?);
        }
        let Loaded {
            module,
            found: Some(found),
            ..
        } = &*loaded
        else {
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
            Ok(store) => {
                self.answer(Reply::Done)?;
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
                Ok(reply) => self.answer(reply)?,
                Err(failure) => {
                    let lost = failure.lost;
                    self.answer(Reply::Failed(failure))?;
                    if lost {
                        drop(store);
                        return Ok(self.next()?);
                    }
                }
            }
        }
    }
}

/// Whether a login by nobody's order could be made if the token were closed.
fn may_log_in(module: &Module, found: &TokenInfo) -> Result<(), Failure> {
    let tries = info(module, found)?.pin_tries;
    match Attempt::Automatic.may(tries) {
        true => Ok(()),
        false => {
            let text = format!("the module is not initialised again: {tries}");
            Err(Failure::new(Kind::FailedPrecondition, text))
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

fn find(loaded: &mut Option<Loaded>, path: &Path, wanted: &Wanted) -> Result<TokenInfo, Failure> {
    let selector = wanted
        .selector()
        .ok_or_else(|| Failure::new(Kind::InvalidArgument, "nothing says which token is wanted"))?;
    let loaded = load(loaded, path)?;
    let found = loaded.module.inventory()?.choose(&selector)?.clone();
    loaded.found = Some(found.clone());
    Ok(found)
}

/// Loads the module, or initialises it again.
fn load<'loaded>(loaded: &'loaded mut Option<Loaded>, path: &Path) -> Result<&'loaded mut Loaded, Failure> {
    match loaded {
        Some(loaded) if loaded.path == path => {
            loaded.found = None;
            loaded.module.initialise_again()?;
        }
        Some(_) => {
            return Err(Failure::new(
                Kind::InvalidArgument,
                "this process has another module",
            ));
        }
        None => {
            *loaded = Some(Loaded {
                path: path.to_owned(),
                module: Module::load(path)?,
                found: None,
            });
        }
    }
    let missing = || Failure::new(Kind::Unavailable, "the module is not loaded");
    loaded.as_mut().ok_or_else(missing)
}

fn log_in<'module>(
    module: &'module Module,
    found: &TokenInfo,
    secrets: &[Value],
    attempt: Attempt,
) -> Result<Token<'module>, (Failure, Tried)> {
    let pin = secrets.first().and_then(pin);
    let pin = pin.ok_or_else(|| (Failure::new(Kind::InvalidArgument, "no PIN"), Tried::No))?;
    let token = module.open(found).map_err(|error| (error.into(), Tried::No))?;
    token.log_in(&pin, attempt).map_err(|error| {
        // The token is asked other things first.
        let is_of_login = error.is_of_login();
        let failure = Failure::from(error);
        let tried = match failure.kind {
            Kind::Pin(problem) if problem.may_pass() => Tried::No,
            _ if !is_of_login => Tried::No,
            Kind::Pin(_) => Tried::Refused,
            _ => Tried::Unanswered,
        };
        (failure, tried)
    })?;
    Ok(token)
}
