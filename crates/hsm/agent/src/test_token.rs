//! `trustplane-agent test-token`: one token, without a cluster.
//!
//! If an agent on this machine holds the token, the tool asks that one; else it holds the token itself and opens it, without a
//! service or a child process. What it changes it changes as the agent does, behind the journal. A PIN is tried once at most.

mod args;
mod bench;
mod explain;
mod opened;
mod secrets;
mod tokens;

use std::io::{BufRead, Write};

use trustplane_hsm_token::{Attempt, Module, Pin, Selector, Store, TokenInfo};
use zeroize::Zeroizing;

pub use args::{Action, TestTokenArgs};
pub use explain::TestTokenError;
use opened::{Opened, Own, Served};

use crate::hold::{Hold, HoldError, Place, usual_folder};

/// Does what was asked, and prints what came of it.
pub fn run(
    args: &TestTokenArgs,
    input: &mut impl BufRead,
    out: &mut impl Write,
) -> Result<(), TestTokenError> {
    let path = args.module.as_deref();
    let path = path.ok_or_else(|| TestTokenError::Argument("say which module: --module".to_owned()))?;
    let pin = pin(args, input)?;
    let mut module = Module::load(path).map_err(|error| explain::module(path, error))?;
    match &args.action {
        Action::Info => tokens::info(args, &module, pin.as_ref(), out),
        Action::Init { label, so_pin_file } => {
            tokens::init(args, &mut module, label, so_pin_file, pin.as_ref(), out)
        }
        action => {
            let chosen = choose(args, &module)?;
            let mut token = open(args, &module, &chosen, pin.as_ref(), out)?;
            act(action, &mut *token, out)
        }
    }
}

fn act(action: &Action, token: &mut dyn Opened, out: &mut impl Write) -> Result<(), TestTokenError> {
    match action {
        Action::List => secrets::list(token, out),
        Action::Read { path, key, show } => secrets::read(token, path, key.as_deref(), *show, out),
        Action::Write {
            path,
            from_file,
            from_literal,
        } => secrets::write(token, path, from_file, from_literal, out),
        Action::Delete { path, key, purge } => secrets::delete(token, path, key.as_deref(), *purge, out),
        Action::Benchmark { count, size } => bench::run(token, *count, *size as usize, out),
        Action::Info | Action::Init { .. } => Ok(()),
    }
}

/// The PIN, if one was given.
fn pin(args: &TestTokenArgs, input: &mut impl BufRead) -> Result<Option<Pin>, TestTokenError> {
    let mut line = Zeroizing::new(String::new());
    match &args.pin_file {
        Some(file) => {
            let unreadable = |source| TestTokenError::File {
                file: file.clone(),
                source,
            };
            line = Zeroizing::new(std::fs::read_to_string(file).map_err(unreadable)?);
        }
        None if args.pin_stdin => {
            input.read_line(&mut line)?;
        }
        None => return Ok(None),
    }
    match line.lines().next() {
        Some(pin) if !pin.is_empty() => Ok(Some(Pin::new(pin))),
        _ => Err(TestTokenError::Argument(
            "the PIN is empty; it was not tried".to_owned(),
        )),
    }
}

/// The token that is meant, or the only one.
fn choose(args: &TestTokenArgs, module: &Module) -> Result<TokenInfo, TestTokenError> {
    let inventory = module.inventory()?;
    let [serial, label, reader] =
        [&args.token_serial, &args.token_label, &args.reader_serial].map(Option::as_deref);
    let Some(selector) = Selector::of(serial, label, reader) else {
        let in_slot = |slot: u64| inventory.tokens.iter().find(|token| token.slot == slot);
        return match (args.slot, &inventory.tokens[..]) {
            (Some(slot), _) => in_slot(slot).cloned().ok_or_else(|| TestTokenError::Slot {
                slot,
                seen: explain::seen(&inventory),
            }),
            (None, [token]) => Ok(token.clone()),
            (None, _) => Err(TestTokenError::Argument(format!(
                "say which token, by --token-serial, --token-label or --slot; there is {}",
                explain::seen(&inventory)
            ))),
        };
    };
    let chosen = inventory.choose(&selector)?;
    match args.slot {
        Some(slot) if slot != chosen.slot => Err(TestTokenError::Argument(format!(
            "the token with {selector} is in slot {}, not in slot {slot}; leave --slot out, or name the token in that slot: there is {}",
            chosen.slot,
            explain::seen(&inventory)
        ))),
        _ => Ok(chosen.clone()),
    }
}

/// Where others meet us over a token.
fn place(args: &TestTokenArgs, token: &TokenInfo) -> Place {
    let folder = args.runtime_dir.clone().unwrap_or_else(usual_folder);
    Place::of(&folder, token)
}

/// The right to open the token.
fn hold(place: &Place) -> Result<Hold, HoldError> {
    place.take(&format!(
        "trustplane-agent test-token, process {}",
        std::process::id()
    ))
}

/// Has the token opened: by the agent that holds it, or by ourselves.
fn open<'module>(
    args: &TestTokenArgs,
    module: &'module Module,
    chosen: &TokenInfo,
    pin: Option<&Pin>,
    out: &mut impl Write,
) -> Result<Box<dyn Opened + 'module>, TestTokenError> {
    let place = place(args, chosen);
    let hold = match hold(&place) {
        Ok(hold) => hold,
        Err(held @ HoldError::Held { .. }) => {
            let served = Served::by(&place)?.ok_or(held)?;
            return Ok(Box::new(served));
        }
        Err(error) => return Err(error.into()),
    };
    let pin = pin.ok_or(TestTokenError::NoPin)?;
    let attempt = match args.try_anyway {
        true => Attempt::Ordered,
        false => Attempt::Automatic,
    };
    let token = module.open(chosen)?;
    token.log_in(pin, attempt).map_err(|error| {
        let tries = token.info().ok().map(|info| info.pin_tries);
        explain::login(error, tries)
    })?;
    let mut store = Store::open(token, args.limits())?;
    for ended in store.interrupted() {
        writeln!(out, "a change was interrupted: {}", crate::child::told(&ended))?;
    }
    Ok(Box::new(Own { store, _hold: hold }))
}
