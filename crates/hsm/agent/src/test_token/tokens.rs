//! What there is before any secret: tokens, and how one becomes ours.

use std::io::Write;
use std::path::Path;

use trustplane_hsm_token::{Module, Pin};

use super::{TestTokenArgs, TestTokenError, choose, hold, open, place};

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
        match place(args, token).holder() {
            Ok(None) => {}
            Ok(Some(holder)) => writeln!(out, "  {:<13}{holder}", "held by")?,
            Err(error) => writeln!(out, "  {:<13}nobody knows: {error}", "held by")?,
        }
    }
    for bad in &inventory.bad {
        writeln!(out, "slot {}\n  cannot be read: {}", bad.slot, bad.error)?;
    }
    if pin.is_none() {
        return Ok(());
    }
    let chosen = choose(args, module)?;
    let capacity = open(args, module, &chosen, pin, out)?.capacity()?;
    let free = |free: Option<u64>| free.map_or("as many as it takes".to_owned(), |free| free.to_string());
    writeln!(out, "slot {} is open", chosen.slot)?;
    for (what, used, room) in [
        ("objects", capacity.slots_used, capacity.slots_free),
        ("bytes", capacity.bytes_used, capacity.bytes_free),
    ] {
        writeln!(out, "  {what:<13}{used}, free {}", free(room))?;
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
    let _hold = hold(&place(args, &blank))?;
    module.provision(&blank, label, &Pin::new(officer.expose().as_str()), pin)?;
    writeln!(
        out,
        "the token in slot {} is now {label:?}; keep the security officer's PIN",
        blank.slot
    )?;
    Ok(())
}
