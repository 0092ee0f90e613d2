//! How fast a token is.

use std::io::Write;
use std::time::{Duration, Instant};

use trustplane_hsm_core::path::{KeyName, SecretPath};
use trustplane_hsm_core::secret::{Data, Value};

use super::TestTokenError;
use super::opened::{New, Opened};

const FOLDER: &str = "trustplane-benchmark";
/// What tells the secrets that we make from those that somebody else has put there.
const MARK: &str = "made by trustplane-agent test-token benchmark";

/// Writes, reads, lists and removes so many secrets. What was made is removed also if something fails.
pub(super) fn run(
    token: &mut dyn Opened,
    count: u32,
    size: usize,
    out: &mut impl Write,
) -> Result<(), TestTokenError> {
    let paths = (0..count)
        .map(|number| SecretPath::parse(&format!("{FOLDER}/{number}")))
        .collect::<Result<Vec<_>, _>>()?;
    let measured = measure(token, &paths, size, out);
    let begun = Instant::now();
    let removed = remove(token, &paths);
    measured?;
    removed?;
    tell(out, "delete and purge", paths.len(), begun.elapsed())
}

fn measure(
    token: &mut dyn Opened,
    paths: &[SecretPath],
    size: usize,
    out: &mut impl Write,
) -> Result<(), TestTokenError> {
    let begun = Instant::now();
    for path in paths {
        token.write(path, secret(size)?)?;
    }
    tell(out, "write", paths.len(), begun.elapsed())?;
    let begun = Instant::now();
    for path in paths {
        token.read(path)?;
    }
    tell(out, "read", paths.len(), begun.elapsed())?;
    let begun = Instant::now();
    token.list()?;
    tell(out, "list", 1, begun.elapsed())
}

fn secret(size: usize) -> Result<New, TestTokenError> {
    Ok(New {
        data: Data::from([(KeyName::parse("value")?, Value::new(vec![b'x'; size]))]),
        description: MARK.to_owned(),
        only_if_absent: true,
    })
}

/// Only what we have made: of a secret that was there before, the write has failed.
fn remove(token: &mut dyn Opened, paths: &[SecretPath]) -> Result<(), TestTokenError> {
    let there = token.list()?;
    let live = |path: &&SecretPath| {
        there
            .iter()
            .any(|entry| entry.path == path.as_str() && !entry.deleted && entry.fault.is_empty())
    };
    for path in paths.iter().filter(live) {
        let metadata = token.read(path)?.metadata.unwrap_or_default();
        if metadata.description == MARK {
            let version = token.delete(path, None)?;
            token.purge(path, version)?;
        }
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
