//! How fast a token is.

use std::io::Write;
use std::time::{Duration, Instant};

use trustplane_hsm_core::metadata::Metadata;
use trustplane_hsm_core::path::{KeyName, SecretPath};
use trustplane_hsm_core::secret::{Data, Secret, Value};
use trustplane_hsm_core::version::{Expected, Stamp};
use trustplane_hsm_token::{Store, StoreError};

use super::TestTokenError;

const FOLDER: &str = "trustplane-benchmark";

/// Writes, reads, lists and removes so many secrets. What was made is removed also if something fails.
pub(super) fn run(
    store: &mut Store<'_>,
    count: u32,
    size: usize,
    out: &mut impl Write,
) -> Result<(), TestTokenError> {
    let paths = (0..count)
        .map(|number| SecretPath::parse(&format!("{FOLDER}/{number}")))
        .collect::<Result<Vec<_>, _>>()?;
    let measured = measure(store, &paths, size, out);
    let begun = Instant::now();
    let removed = paths.iter().try_for_each(|path| remove(store, path));
    measured?;
    removed?;
    tell(out, "delete and purge", paths.len(), begun.elapsed())
}

fn measure(
    store: &mut Store<'_>,
    paths: &[SecretPath],
    size: usize,
    out: &mut impl Write,
) -> Result<(), TestTokenError> {
    let secret = secret(size)?;
    let begun = Instant::now();
    for path in paths {
        store.write(path, &secret, Expected::Absent)?;
    }
    tell(out, "write", paths.len(), begun.elapsed())?;
    let begun = Instant::now();
    for path in paths {
        store.read(path)?;
    }
    tell(out, "read", paths.len(), begun.elapsed())?;
    let begun = Instant::now();
    store.list()?;
    tell(out, "list what is known", 1, begun.elapsed())?;
    let begun = Instant::now();
    store.refresh()?;
    tell(out, "read everything anew", 1, begun.elapsed())
}

fn secret(size: usize) -> Result<Secret, TestTokenError> {
    let data = Data::from([(KeyName::parse("value")?, Value::new(vec![b'x'; size]))]);
    let metadata = Metadata {
        stamp: stamp(1),
        ..Metadata::default()
    };
    Ok(Secret { data, metadata })
}

fn stamp(version: u64) -> Stamp {
    Stamp {
        version,
        ..Stamp::default()
    }
}

/// Only what we have made: of a secret that was there before, the write has failed.
fn remove(store: &mut Store<'_>, path: &SecretPath) -> Result<(), StoreError> {
    let made = store.list()?.get(path).is_some_and(|described| {
        described
            .as_ref()
            .is_ok_and(|described| described.stamp == stamp(1))
    });
    if made {
        store.delete(path, stamp(2), Expected::Version(1))?;
        store.purge(path, 2)?;
    }
    Ok(())
}

fn tell(out: &mut impl Write, what: &str, count: usize, took: Duration) -> Result<(), TestTokenError> {
    let each = took.as_secs_f64() * 1000.0 / count.max(1) as f64;
    Ok(writeln!(
        out,
        "{what:<22}{count:>5} in {took:>10.1?}  {each:.2} ms each"
    )?)
}
