//! What is done with the secrets of a token, and shown.

use std::io::Write;

use trustplane_hsm_core::path::{KeyName, SecretPath};
use trustplane_hsm_core::secret::{Data, Value};

use super::TestTokenError;
use super::opened::{New, Opened};

pub(super) fn list(token: &mut dyn Opened, out: &mut impl Write) -> Result<(), TestTokenError> {
    let entries = token.list()?;
    for entry in &entries {
        let (path, version) = (&entry.path, entry.version);
        match entry {
            entry if !entry.fault.is_empty() => writeln!(out, "{path}  cannot be read: {}", entry.fault)?,
            entry if entry.deleted => writeln!(out, "{path}  version {version}, deleted")?,
            entry => writeln!(
                out,
                "{path}  version {version}, {} keys, {}",
                entry.keys, entry.checksum
            )?,
        }
    }
    writeln!(out, "{} secrets", entries.len())?;
    Ok(())
}

pub(super) fn read(
    token: &mut dyn Opened,
    path: &str,
    key: Option<&str>,
    show: bool,
    out: &mut impl Write,
) -> Result<(), TestTokenError> {
    let wanted = key.map(KeyName::parse).transpose()?;
    let secret = token.read(&SecretPath::parse(path)?)?;
    let deleted = if secret.deleted { ", deleted" } else { "" };
    writeln!(out, "version {}{deleted}, {}", secret.version, secret.checksum)?;
    // In the order of their names.
    let data: std::collections::BTreeMap<_, _> = secret
        .secret_data
        .unwrap_or_default()
        .data
        .into_iter()
        .map(|(name, value)| (name, Value::new(value)))
        .filter(|(name, _)| wanted.as_ref().is_none_or(|wanted| wanted.as_str() == name))
        .collect();
    if let (true, Some(wanted)) = (data.is_empty(), &wanted) {
        return Err(TestTokenError::Argument(format!(
            "{path}: there is no key {wanted}"
        )));
    }
    for (name, value) in data {
        match show {
            true => writeln!(out, "{name}: {}", value.expose().escape_ascii())?,
            false => writeln!(out, "{name}: {} bytes", value.len())?,
        }
    }
    Ok(())
}

pub(super) fn write(
    token: &mut dyn Opened,
    path: &str,
    from_file: &[String],
    from_literal: &[String],
    out: &mut impl Write,
) -> Result<(), TestTokenError> {
    let path = SecretPath::parse(path)?;
    let parted = |text: &'_ String| match text.split_once('=') {
        Some((key, rest)) => Ok((KeyName::parse(key)?, rest.to_owned())),
        None => Err(TestTokenError::Argument("want KEY=… for each value".to_owned())),
    };
    let mut data = Data::new();
    for text in from_literal {
        let (key, value) = parted(text)?;
        data.insert(key, Value::new(value));
    }
    for text in from_file {
        let (key, file) = parted(text)?;
        let unreadable = |source| TestTokenError::File {
            file: file.clone().into(),
            source,
        };
        data.insert(key, Value::new(std::fs::read(&file).map_err(unreadable)?));
    }
    let new = New {
        data,
        description: String::new(),
        only_if_absent: false,
    };
    let written = token.write(&path, new)?;
    writeln!(out, "{path}: version {}, {}", written.version, written.checksum)?;
    Ok(())
}

pub(super) fn delete(
    token: &mut dyn Opened,
    path: &str,
    key: Option<&str>,
    purge: bool,
    out: &mut impl Write,
) -> Result<(), TestTokenError> {
    let path = SecretPath::parse(path)?;
    let key = key.map(KeyName::parse).transpose()?;
    if !purge {
        let version = token.delete(&path, key.as_ref())?;
        writeln!(out, "{path}: version {version}")?;
        return Ok(());
    }
    let there = token.read(&path)?;
    let version = match there.deleted {
        true => there.version,
        false => token.delete(&path, None)?,
    };
    token.purge(&path, version)?;
    writeln!(out, "{path}: nothing is left")?;
    Ok(())
}
