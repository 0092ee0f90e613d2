//! Where the keys and values of a secret come from: files, literals, env files and JSON documents.

mod parse;

use std::collections::BTreeMap;
use std::fs::File;
use std::io::Read;

use anyhow::{Context, Result, anyhow, bail};
use trustplane_hsm_core::limits::{MOST_BYTES, check_secret};
use trustplane_hsm_core::path::KeyName;
use trustplane_hsm_core::secret::{Data, Value};
use trustplane_process::secret::Secret;

/// The path that means standard input.
const STDIN: &str = "-";
/// The most bytes that are read of one file: a document with the largest secret has no more, however much it escapes.
const LONGEST_FILE: u64 = 8 * MOST_BYTES as u64;

/// Where keys and values come from. All can be given several times and combined.
#[derive(Debug, Default, clap::Args)]
#[group(required = true, multiple = true)]
pub struct Sources {
    /// A file whose bytes are the value of KEY; without KEY the file's name is the key. The PATH - is standard input.
    #[arg(long, value_name = "[KEY=]PATH")]
    from_file: Vec<String>,
    /// A key and its value. The value stays in the history of your shell; it does not reach the audit log of the cluster.
    #[arg(long, value_name = "KEY=VALUE")]
    from_literal: Vec<Secret<String>>,
    /// A file with a line KEY=VALUE for each key. Empty lines and lines that begin with # are skipped; - is standard input.
    #[arg(long, value_name = "FILE")]
    from_env_file: Vec<String>,
    /// A file with one JSON object, whose fields are strings: a key and its value each; - is standard input.
    #[arg(long, value_name = "FILE")]
    from_json: Vec<String>,
}

/// Keys and values, and the flag that each key is from.
#[derive(Default)]
struct Collected {
    data: Data,
    from: BTreeMap<KeyName, &'static str>,
}

impl Collected {
    fn add(&mut self, flag: &'static str, pairs: impl IntoIterator<Item = (KeyName, Value)>) -> Result<()> {
        for (key, value) in pairs {
            if let Some(first) = self.from.insert(key.clone(), flag) {
                bail!("key {key} is given twice: by {first} and by {flag}");
            }
            self.data.insert(key, value);
        }
        Ok(())
    }
}

impl Sources {
    /// Reads every source. No error holds a value.
    pub fn read(&self, stdin: &mut impl Read) -> Result<Data> {
        let mut input = Input { stdin: Some(stdin) };
        let mut collected = Collected::default();
        for text in &self.from_literal {
            collected.add(
                "--from-literal",
                [parse::literal(text).context("--from-literal")?],
            )?;
        }
        for text in &self.from_file {
            let (key, path) = parse::keyed_path(text).with_context(|| format!("--from-file {text}"))?;
            let content = input.read(path).context("--from-file")?;
            collected.add("--from-file", [(key, content)])?;
        }
        for path in &self.from_env_file {
            let content = input.read(path).context("--from-env-file")?;
            let pairs = parse::env_file(content.expose());
            let pairs = pairs.with_context(|| format!("--from-env-file {path}"))?;
            collected.add("--from-env-file", pairs)?;
        }
        for path in &self.from_json {
            let content = input.read(path).context("--from-json")?;
            let pairs = parse::json(content.expose()).with_context(|| format!("--from-json {path}"))?;
            collected.add("--from-json", pairs)?;
        }
        if collected.data.is_empty() {
            bail!("the sources have no key; a secret needs at least one")
        }
        check_secret(&collected.data)?;
        Ok(collected.data)
    }
}

/// Reads files, and standard input once.
struct Input<'a, R> {
    stdin: Option<&'a mut R>,
}

impl<R: Read> Input<'_, R> {
    fn read(&mut self, path: &str) -> Result<Value> {
        if path == STDIN {
            let stdin = self.stdin.take();
            let stdin = stdin.ok_or_else(|| anyhow!("standard input (-) can be read by one source only"))?;
            return read(stdin).context("read standard input");
        }
        let opened = File::open(path).map_err(anyhow::Error::from);
        opened
            .and_then(|mut file| read(&mut file))
            .with_context(|| format!("read {path}"))
    }
}

fn read(from: &mut impl Read) -> Result<Value> {
    let mut bytes = Vec::new();
    let count = from.take(LONGEST_FILE + 1).read_to_end(&mut bytes);
    let value = Value::new(bytes);
    match count? as u64 > LONGEST_FILE {
        true => bail!("it has more than {LONGEST_FILE} bytes"),
        false => Ok(value),
    }
}

#[cfg(test)]
mod tests;
