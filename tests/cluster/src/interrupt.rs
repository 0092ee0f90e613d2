//! Ctrl-C and termination, turned into an error that unwinds through the guards which clean up.
//!
//! While a [`Guard`] lives, SIGINT, SIGTERM and SIGHUP only set a flag, and every wait of this crate looks at it
//! through [`check`]. Without a guard the signals do what they always do: they end the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use anyhow::{Context, Result, anyhow};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::flag;

struct Handlers {
    guards: usize,
    requested: Arc<AtomicBool>,
    unguarded: Arc<AtomicBool>,
}

static HANDLERS: Mutex<Option<Handlers>> = Mutex::new(None);

/// Keeps the signals from ending the process before its owner has cleaned up.
#[derive(Debug)]
pub struct Guard(());

impl Guard {
    /// Begins a guarded section; sections nest, also across threads.
    pub fn begin() -> Result<Self> {
        let mut slot = handlers();
        let handlers = match slot.take() {
            Some(handlers) => slot.insert(handlers),
            None => slot.insert(install()?),
        };
        handlers.guards += 1;
        handlers.unguarded.store(false, Ordering::SeqCst);
        Ok(Self(()))
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if let Some(handlers) = handlers().as_mut() {
            handlers.guards -= 1;
            handlers.unguarded.store(handlers.guards == 0, Ordering::SeqCst);
        }
    }
}

/// Whether an end was asked for. It stays true: who was asked to end once is not to begin anew.
pub fn requested() -> bool {
    handlers()
        .as_ref()
        .is_some_and(|handlers| handlers.requested.load(Ordering::SeqCst))
}

/// Fails once an end was asked for.
pub fn check() -> Result<()> {
    if requested() {
        Err(anyhow!("interrupted"))
    } else {
        Ok(())
    }
}

fn handlers() -> MutexGuard<'static, Option<Handlers>> {
    HANDLERS.lock().unwrap_or_else(PoisonError::into_inner)
}

fn install() -> Result<Handlers> {
    let requested = Arc::new(AtomicBool::new(false));
    let unguarded = Arc::new(AtomicBool::new(true));
    for signal in [SIGINT, SIGTERM, SIGHUP] {
        flag::register(signal, Arc::clone(&requested)).context("listen for interruptions")?;
        flag::register_conditional_default(signal, Arc::clone(&unguarded))
            .context("listen for interruptions")?;
    }
    Ok(Handlers {
        guards: 0,
        requested,
        unguarded,
    })
}
