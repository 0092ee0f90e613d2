//! Secrets that are lines of the form `NAME=value`.

use zeroize::Zeroizing;

use super::{Field, Fields, NOT_TEXT, Place, Wrong, few};
use crate::data::Value;

/// Lines of the form `NAME=value`, as shells and many libraries read them: comments, `export`, quotes.
pub(crate) fn dotenv(bytes: &[u8]) -> Result<Fields, Wrong> {
    let text = std::str::from_utf8(bytes).map_err(|_| NOT_TEXT)?;
    let mut fields = Fields::new();
    let (mut number, mut line, mut counted) = (0, 1, text);
    let mut rest = text.trim_start();
    while !rest.is_empty() {
        line += count_lines(counted, rest);
        counted = rest;
        if rest.starts_with('#') {
            rest = next_line(rest).trim_start();
            continue;
        }
        number += 1;
        few(number)?;
        let (name, value) = rest
            .split_once('=')
            .filter(|(name, _)| !name.contains('\n'))
            .ok_or_else(|| format!("has a line {line} that is not of the form NAME=value"))?;
        let name = name.strip_prefix("export ").unwrap_or(name).trim();
        let value = value.trim_start_matches([' ', '\t']);
        let read = match value.chars().next().filter(|c| matches!(c, '"' | '\'')) {
            // A quoted value may go on over lines.
            Some(quote) => {
                let (read, end) = quoted(&value[1..], quote)
                    .ok_or_else(|| format!("has a quote on line {line} that does not end"))?;
                rest = next_line(&value[1 + end..]);
                read
            }
            None => {
                let line = value.split('\n').next().unwrap_or_default();
                rest = next_line(value);
                let bare = line.find(" #").map_or(line, |comment| &line[..comment]);
                Value::new(bare.trim())
            }
        };
        let field = Field {
            place: Place::Line(line),
            value: Some(read),
        };
        fields.insert(name.to_owned(), field);
        rest = rest.trim_start();
    }
    Ok(fields)
}

/// How many lines end between two places of one text.
fn count_lines(from: &str, to: &str) -> usize {
    let between = from.get(..from.len() - to.len()).unwrap_or_default();
    between.matches('\n').count()
}

fn next_line(text: &str) -> &str {
    text.split_once('\n').map_or("", |(_, after)| after)
}

/// Reads up to the closing quote; gives the value and where the text goes on.
fn quoted(text: &str, quote: char) -> Option<(Value, usize)> {
    let end = closing(text, quote)?;
    // No value is longer than what stands between the quotes, so nothing is left behind by a buffer that grows.
    let mut value = Zeroizing::new(String::with_capacity(end));
    let mut characters = text[..end].chars();
    while let Some(c) = characters.next() {
        match c {
            '\\' if quote == '"' => value.push(match characters.next()? {
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                other => other,
            }),
            c => value.push(c),
        }
    }
    Some((Value::new(value.as_bytes()), end + 1))
}

/// Where the closing quote is.
fn closing(text: &str, quote: char) -> Option<usize> {
    let mut characters = text.char_indices();
    while let Some((at, c)) = characters.next() {
        match c {
            c if c == quote => return Some(at),
            '\\' if quote == '"' => drop(characters.next()),
            _ => {}
        }
    }
    None
}
