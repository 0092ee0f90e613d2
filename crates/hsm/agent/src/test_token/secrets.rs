//! What is done with the secrets of a token that is open.

use std::io::Write;

use jiff::Timestamp;
use trustplane_hsm_core::change::{Change, Terms};
use trustplane_hsm_core::checksum::checksum;
use trustplane_hsm_core::metadata::Metadata;
use trustplane_hsm_core::path::{KeyName, SecretPath};
use trustplane_hsm_core::replace::WriteError;
use trustplane_hsm_core::secret::{Data, Secret, Value};
use trustplane_hsm_core::version::{Expected, Stamp};
use trustplane_hsm_token::{Store, StoreError};

use super::TestTokenError;

pub(super) fn list(store: &mut Store<'_>, out: &mut impl Write) -> Result<(), TestTokenError> {
    let listing = store.list()?;
    for (path, described) in &listing {
        match described {
            Ok(secret) if secret.stamp.deleted => {
                writeln!(out, "{path}  version {}, deleted", secret.stamp.version)?;
            }
            Ok(secret) => writeln!(
                out,
                "{path}  version {}, {} keys, {}",
                secret.stamp.version, secret.keys, secret.checksum
            )?,
            Err(error) => writeln!(out, "{path}  cannot be read: {error}")?,
        }
    }
    writeln!(out, "{} secrets", listing.len())?;
    Ok(())
}

pub(super) fn read(
    store: &mut Store<'_>,
    path: &str,
    key: Option<&str>,
    show: bool,
    out: &mut impl Write,
) -> Result<(), TestTokenError> {
    let secret = store.read(&SecretPath::parse(path)?)?;
    let stamp = &secret.metadata.stamp;
    let deleted = if stamp.deleted { ", deleted" } else { "" };
    writeln!(
        out,
        "version {}{deleted}, {}",
        stamp.version,
        checksum(&secret.data)
    )?;
    let wanted = key.map(KeyName::parse).transpose()?;
    let mut some = secret
        .data
        .iter()
        .filter(|(name, _)| wanted.as_ref().is_none_or(|wanted| wanted == *name));
    let first = some.next();
    if let (None, Some(wanted)) = (&first, &wanted) {
        return Err(TestTokenError::Argument(format!(
            "{path}: there is no key {wanted}"
        )));
    }
    for (name, value) in first.into_iter().chain(some) {
        match show {
            true => writeln!(out, "{name}: {}", value.expose().escape_ascii())?,
            false => writeln!(out, "{name}: {} bytes", value.len())?,
        }
    }
    Ok(())
}

pub(super) fn write(
    store: &mut Store<'_>,
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
    let metadata = Metadata {
        stamp: stamp(),
        ..Metadata::default()
    };
    let secret = Secret { data, metadata };
    let written = store.write(&path, &secret, Terms::next(Expected::Any))?;
    writeln!(
        out,
        "{path}: version {}, {}",
        written.stamp.version, written.checksum
    )?;
    Ok(())
}

pub(super) fn delete(
    store: &mut Store<'_>,
    path: &str,
    key: Option<&str>,
    purge: bool,
    out: &mut impl Write,
) -> Result<(), TestTokenError> {
    let path = SecretPath::parse(path)?;
    let key = key.map(KeyName::parse).transpose()?;
    let change = match &key {
        None => Change::Delete(stamp()),
        Some(key) => Change::DeleteKey(key, stamp()),
    };
    let version = match store.change(&path, &change, Terms::next(Expected::Any)) {
        Ok(left) => left.stamp.version,
        Err(StoreError::Write(WriteError::Deleted { .. })) if purge => {
            store.read(&path)?.metadata.stamp.version
        }
        Err(error) => return Err(error.into()),
    };
    if purge {
        store.purge(&path, version)?;
        writeln!(out, "{path}: nothing is left")?;
    } else {
        writeln!(out, "{path}: version {version}")?;
    }
    Ok(())
}

/// What is written now. The token counts.
fn stamp() -> Stamp {
    Stamp {
        timestamp: Some(Timestamp::now()),
        ..Stamp::default()
    }
}
