//! What there is before any secret: tokens, and how one becomes ours.

use std::io::Write;
use std::path::Path;

use trustplane_hsm_token::{Module, Pin};

use super::{TestTokenArgs, TestTokenError, choose, open};

pub(super) fn info(
    args: &TestTokenArgs,
    module: &Module,
    pin: Option<&Pin>,
    out: &mut impl Write,
) -> Result<(), TestTokenError> {
    let inventory = module.inventory()?;
    if inventory.tokens.is_empty() && inventory.bad.is_empty() {
        writeln!(out, "the module sees no token")?;
    }
    for token in &inventory.tokens {
        writeln!(out, "slot {}", token.slot)?;
        let about = [
            ("label", &token.label),
            ("serial", &token.serial),
            ("reader", &token.reader),
            ("manufacturer", &token.manufacturer),
            ("model", &token.model),
            ("firmware", &token.firmware),
        ];
        for (name, text) in about {
            writeln!(out, "  {name:<13}{text}")?;
        }
        let state = match (token.initialised, token.has_user_pin) {
            (true, true) => "in use",
            _ => "blank: it has no user PIN",
        };
        writeln!(out, "  {:<13}{state}", "state")?;
        writeln!(out, "  {:<13}{}", "PIN", token.pin_tries)?;
    }
    for bad in &inventory.bad {
        writeln!(out, "slot {}\n  cannot be read: {}", bad.slot, bad.error)?;
    }
    if pin.is_none() {
        return Ok(());
    }
    let chosen = choose(args, module)?;
    let mut store = open(args, module, &chosen, pin)?;
    let capacity = store.capacity()?;
    let free = |free: Option<usize>| free.map_or("as many as it takes".to_owned(), |free| free.to_string());
    writeln!(out, "slot {} is open", chosen.slot)?;
    writeln!(
        out,
        "  {:<13}{}, free {}",
        "objects",
        capacity.usage.objects,
        free(capacity.room.objects)
    )?;
    writeln!(
        out,
        "  {:<13}{}, free {}",
        "bytes",
        capacity.usage.bytes,
        free(crate::meters::free_bytes(&capacity))
    )?;
    for ended in store.interrupted() {
        writeln!(out, "  a change was interrupted: {}", crate::child::told(&ended))?;
    }
    Ok(())
}

pub(super) fn init(
    args: &TestTokenArgs,
    module: &mut Module,
    label: &str,
    so_pin_file: &Path,
    pin: Option<&Pin>,
    out: &mut impl Write,
) -> Result<(), TestTokenError> {
    let pin = pin.ok_or(TestTokenError::NoPin)?;
    let officer = crate::serve::secret_line(so_pin_file)
        .map_err(|error| TestTokenError::Argument(error.to_string()))?;
    let named = args.slot.is_some() || args.token_label.is_some() || args.token_serial.is_some();
    let blank = match named {
        true => choose(args, module)?,
        false => module.inventory()?.blank()?.clone(),
    };
    module.provision(&blank, label, &Pin::new(officer.expose().as_str()), pin)?;
    writeln!(
        out,
        "the token in slot {} is now {label:?}; keep the security officer's PIN",
        blank.slot
    )?;
    Ok(())
}
