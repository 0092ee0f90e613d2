//! What runs in the child process: the module, and nothing else.
//!
//! One thread serves one request at a time. A module that hangs or crashes does so here. The child keeps no PIN: it gets one
//! with each order to log in, and wipes it after that.

mod requests;

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, set_dumpable_behavior, set_parent_process_death_signal,
    setrlimit,
};
use trustplane_hsm_core::recover::{End, Ended};
use trustplane_hsm_core::secret::Value;
use trustplane_hsm_token::{Attempt, Module, Store, Token, TokenInfo};

use crate::frame::{self, FrameError, Message};
use crate::wire::{Failure, Kind, Reply, Request, Tried, Wanted};
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
            pending = match (request.head, &loaded) {
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
        loop {
            let request = match self.next()? {
                Some(request) if !request.head.opens() => request,
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

/// What became of a change that was interrupted. No values are in it.
fn told(ended: &Ended) -> String {
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
    let loaded = match loaded {
        Some(loaded) if loaded.path == path => {
            loaded.found = None;
            loaded.module.initialise_again()?;
            loaded
        }
        Some(_) => {
            return Err(Failure::new(
                Kind::InvalidArgument,
                "this process has another module",
            ));
        }
        None => loaded.insert(Loaded {
            path: path.to_owned(),
            module: Module::load(path)?,
            found: None,
        }),
    };
    let found = loaded.module.inventory()?.choose(&selector)?.clone();
    loaded.found = Some(found.clone());
    Ok(found)
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
        let failure = Failure::from(error);
        let tried = match failure.kind {
            Kind::Pin(problem) if problem.may_pass() => Tried::No,
            Kind::Pin(_) => Tried::Refused,
            _ => Tried::Unanswered,
        };
        (failure, tried)
    })?;
    Ok(token)
}
