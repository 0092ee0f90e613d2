//! `trustplane-agent test-token`: one token, without a cluster, a service or a child process.
//!
//! What it changes it changes as the agent does, behind the journal. A PIN is tried once at most.

mod args;
mod bench;
mod explain;
mod secrets;
mod tokens;

use std::io::{BufRead, Write};

use trustplane_hsm_token::{Attempt, Module, Pin, Selector, Store, TokenInfo};
use zeroize::Zeroizing;

pub use args::{Action, TestTokenArgs};
pub use explain::TestTokenError;

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
            let mut store = open(args, &module, &chosen, pin.as_ref())?;
            act(action, &mut store, out)
        }
    }
}

fn act(action: &Action, store: &mut Store<'_>, out: &mut impl Write) -> Result<(), TestTokenError> {
    match action {
        Action::List => secrets::list(store, out),
        Action::Read { path, key, show } => secrets::read(store, path, key.as_deref(), *show, out),
        Action::Write {
            path,
            from_file,
            from_literal,
        } => secrets::write(store, path, from_file, from_literal, out),
        Action::Delete { path, key, purge } => secrets::delete(store, path, key.as_deref(), *purge, out),
        Action::Benchmark { count, size } => bench::run(store, *count, *size as usize, out),
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
    let selector = Selector::of(args.token_serial.as_deref(), args.token_label.as_deref(), None);
    if let Some(selector) = selector {
        return Ok(inventory.choose(&selector)?.clone());
    }
    let in_slot = |slot: u64| inventory.tokens.iter().find(|token| token.slot == slot);
    match (args.slot, &inventory.tokens[..]) {
        (Some(slot), _) => in_slot(slot).cloned().ok_or_else(|| TestTokenError::Slot {
            slot,
            seen: explain::seen(&inventory),
        }),
        (None, [token]) => Ok(token.clone()),
        (None, _) => Err(TestTokenError::Argument(format!(
            "say which token, by --token-serial, --token-label or --slot; there is {}",
            explain::seen(&inventory)
        ))),
    }
}

/// Logs in, once.
fn open<'module>(
    args: &TestTokenArgs,
    module: &'module Module,
    chosen: &TokenInfo,
    pin: Option<&Pin>,
) -> Result<Store<'module>, TestTokenError> {
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
    Ok(Store::open(token, args.limits.limits())?)
}
