//! Rules about `docs/reference/limits.md`: each limit that is named there exists in the code with the value that is named.
//!
//! A row names the constant, its value and its file: ``| `CALL` | 30 s | `crates/kit/src/clients.rs` | … |``. A field of a constant is
//! named `LIMITS.idle`, a field of a type's defaults `Retry::default.bug.max`.

use std::path::Path;

use anyhow::{Context, Result};

const PAGE: &str = "docs/reference/limits.md";

/// Every row whose constant does not exist, or has another value.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let page = std::fs::read_to_string(root.join(PAGE)).with_context(|| format!("read {PAGE}"))?;
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(page.lines()) {
        let Some(row) = Row::of(line) else { continue };
        let source = std::fs::read_to_string(root.join(row.file)).unwrap_or_default();
        if let Some(fault) = row.fault(&source) {
            faults.push(format!("{PAGE}:{number}: {fault}"));
        }
    }
    Ok(faults)
}

struct Row<'a> {
    name: &'a str,
    value: &'a str,
    file: &'a str,
}

impl<'a> Row<'a> {
    fn of(line: &'a str) -> Option<Self> {
        let mut cells = line.strip_prefix("| `")?.split('|').map(str::trim);
        let row = Self {
            name: cells.next()?.trim_end_matches('`'),
            value: cells.next()?,
            file: cells.next()?.trim_matches('`'),
        };
        row.file.ends_with(".rs").then_some(row)
    }

    fn fault(&self, source: &str) -> Option<String> {
        let Some(code) = expression(source, self.name) else {
            return Some(format!("{} has no {}", self.file, self.name));
        };
        let (documented, actual) = (quantity(self.value), evaluate(&code));
        let same = documented.is_some() && documented == actual;
        (!same).then(|| {
            format!(
                "{} is {:?}, and in {} it is `{code}`",
                self.name, self.value, self.file
            )
        })
    }
}

/// The code that gives a constant or a field its value.
fn expression(source: &str, name: &str) -> Option<String> {
    if let Some((of, field)) = name.split_once("::default.") {
        return field_of(block(source, &format!("impl Default for {of} {{"))?, field);
    }
    if let Some((constant, field)) = name.split_once('.') {
        return field_of(block(source, &format!("const {constant}: "))?, field);
    }
    let rest = &source[source.find(&format!("const {name}: "))?..];
    let (declared, _) = rest.split_once(';')?;
    let (_, code) = declared.split_once('=')?;
    Some(code.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// From a beginning to the next blank line.
fn block<'a>(source: &'a str, beginning: &str) -> Option<&'a str> {
    let rest = &source[source.find(beginning)?..];
    rest.split("\n\n").next()
}

/// The value of a field; `a.b` is the field `b` of the field `a`.
fn field_of(block: &str, path: &str) -> Option<String> {
    let mut lines = block.lines().map(str::trim);
    let values = path.split('.').map(|field| {
        let value = lines.find_map(|line| line.strip_prefix(field)?.strip_prefix(':'))?;
        Some(value.trim().trim_end_matches(',').to_owned())
    });
    values.last().flatten()
}

/// A value with its dimension: milliseconds, or a plain number.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Quantity {
    Milliseconds(u64),
    Number(f64),
}

/// What a person reads: `250 ms`, `10 s`, `5 min`, `1 h`, `3 d`, `8 MiB`, `1024`, `0.2`.
fn quantity(text: &str) -> Option<Quantity> {
    let Some((number, unit)) = text.split_once(' ') else {
        return text.parse().ok().map(Quantity::Number);
    };
    let time = |factor: u64| Some(Quantity::Milliseconds(number.parse::<u64>().ok()? * factor));
    let size = |factor: f64| Some(Quantity::Number(number.parse::<f64>().ok()? * factor));
    match unit {
        "ms" => time(1),
        "s" => time(1_000),
        "min" => time(60_000),
        "h" => time(3_600_000),
        "d" => time(86_400_000),
        "KiB" => size(1024.0),
        "MiB" => size(1024.0 * 1024.0),
        _ => None,
    }
}

/// What a compiler reads: a duration by its constructor, or a product of numbers.
fn evaluate(code: &str) -> Option<Quantity> {
    let inner = code.strip_prefix("Some(").and_then(|code| code.strip_suffix(')'));
    let code = inner.unwrap_or(code);
    for (constructor, factor) in [
        ("from_millis(", 1),
        ("from_secs(", 1_000),
        ("from_mins(", 60_000),
        ("from_hours(", 3_600_000),
    ] {
        if let Some((of, rest)) = code.split_once(constructor) {
            let is_time = of == "Duration::" || of == "SignedDuration::";
            let number = product(rest.strip_suffix(')')?)?;
            return is_time.then_some(Quantity::Milliseconds(number as u64 * factor));
        }
    }
    product(code).map(Quantity::Number)
}

fn product(code: &str) -> Option<f64> {
    let plain = |text: &str| text.trim().replace('_', "").parse::<f64>().ok();
    if let Some((number, shift)) = code.split_once("<<") {
        return Some(plain(number)? * 2_f64.powf(plain(shift)?));
    }
    code.split('*').map(plain).product()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "\
const CALL: Duration = Duration::from_secs(30);
pub(crate) const LIFE: SignedDuration =
    SignedDuration::from_hours(24 * 365);
const BODY: usize = 8 << 20;

pub const LIMITS: Limits = Limits {
    connections: 64,
    idle: Duration::from_secs(10),
};

impl Default for Handshakes {
    fn default() -> Self {
        Self {
            at_once: 128,
            pause: Backoff {
                first: Duration::from_millis(500),
                max: Duration::from_secs(30),
            },
            resync: Some(Duration::from_secs(10 * 3600)),
        }
    }
}

const OTHER: Limits = Limits { at_once: 7 };
";

    fn fault(name: &str, value: &str) -> Option<String> {
        let line = format!("| `{name}` | {value} | `a.rs` | what it bounds |");
        Row::of(&line).unwrap().fault(SOURCE)
    }

    #[test]
    fn a_limit_with_its_value_is_no_fault() {
        for (name, value) in [
            ("CALL", "30 s"),
            ("LIFE", "365 d"),
            ("BODY", "8 MiB"),
            ("LIMITS.connections", "64"),
            ("LIMITS.idle", "10 s"),
            ("Handshakes::default.at_once", "128"),
            ("Handshakes::default.pause.max", "30 s"),
            ("Handshakes::default.resync", "10 h"),
        ] {
            assert_eq!(fault(name, value), None);
        }
    }

    #[test]
    fn another_value_or_name_is_a_fault() {
        assert_eq!(
            fault("CALL", "20 s").as_deref(),
            Some("CALL is \"20 s\", and in a.rs it is `Duration::from_secs(30)`")
        );
        for (name, value) in [
            ("CALL", "30"),
            ("BODY", "8 KiB"),
            ("LIMITS.connections", "65"),
            ("Handshakes::default.pause.first", "30 s"),
            ("CALL", "soon"),
        ] {
            assert!(fault(name, value).is_some(), "{name} {value}");
        }
        assert_eq!(fault("COLL", "30 s").as_deref(), Some("a.rs has no COLL"));
        assert_eq!(
            fault("LIMITS.drain", "5 s").as_deref(),
            Some("a.rs has no LIMITS.drain")
        );
    }

    #[test]
    fn other_lines_of_the_page_are_passed_over() {
        for line in [
            "",
            "# Limits",
            "|---|---|",
            "| constant | value | file | bounds |",
            "| `--log` | x | cli | y |",
        ] {
            assert!(Row::of(line).is_none(), "{line}");
        }
    }
}
