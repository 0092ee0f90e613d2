//! Tells whether the value of an annotation is a manifest of Kubernetes: tools keep whole objects there, and among them Secrets.
//!
//! A manifest is JSON or YAML with `kind`, `data`, `stringData` or `binaryData` at the top, or a list of such; or that as a JSON
//! string, in base64, or compressed and in base64. The rules find what tools write. They do not find what a person hides on
//! purpose: whoever may write an annotation can write a secret into it in any form.

use std::fmt;
use std::io::Read;

use base64::Engine;
use base64::alphabet::STANDARD;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use flate2::read::{GzDecoder, ZlibDecoder};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// Keys by which a manifest is known.
const KEYS: [&str; 4] = ["kind", "data", "stringData", "binaryData"];
/// How often a manifest may be packed into something else and still be looked for. What is packed more often is dropped.
const MOST_LAYERS: u8 = 4;
/// The most bytes that are looked at for one value, all that is unpacked from it included. What holds more is dropped.
const MOST_EXAMINED: usize = 16 * 1024;
/// Beginnings of archives that are not opened: zip, zstd, xz. A value in base64 that is such an archive is dropped.
const ARCHIVES: [&[u8]; 3] = [b"PK\x03\x04", b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00"];

/// Both alphabets are read (the other one is translated), with and without padding.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// Whether a value is a manifest, as text or packed.
pub(super) fn is_manifest(value: &str) -> bool {
    let mut search = Search { left: MOST_EXAMINED };
    search.text(value, MOST_LAYERS)
}

/// A search in one value. The work is bounded by what is left, however often parts of the value are packed.
struct Search {
    left: usize,
}

impl Search {
    fn text(&mut self, text: &str, layers: u8) -> bool {
        if layers == 0 || !self.spend(text.len()) {
            return true;
        }
        // Blanks at the beginning stay: they are the indentation of a first line of YAML.
        let text = text.trim_start_matches('\u{feff}');
        match text.trim_start().as_bytes().first() {
            None => false,
            Some(b'{' | b'[' | b'"') => match self.json(text, layers) {
                Ok(verdict) => verdict,
                // A flow mapping of YAML, several documents, or JSON that was cut off.
                Err(_) => has_manifest_key(text),
            },
            Some(_) => is_manifest_yaml(text) || self.packed(text, layers),
        }
    }

    fn json(&mut self, text: &str, layers: u8) -> serde_json::Result<bool> {
        let mut deserializer = serde_json::Deserializer::from_str(text);
        let top = Top { search: self, layers };
        let verdict = top.deserialize(&mut deserializer)?;
        deserializer.end()?;
        Ok(verdict)
    }

    fn packed(&mut self, text: &str, layers: u8) -> bool {
        let Some(bytes) = decode_base64(text) else {
            return false;
        };
        if ARCHIVES.iter().any(|begin| bytes.starts_with(begin)) {
            return true;
        }
        let unpacked = decompress(&bytes, self.left + 1);
        if !self.spend(unpacked.len()) {
            return true;
        }
        let bytes = if unpacked.is_empty() { bytes } else { unpacked };
        str::from_utf8(&bytes).is_ok_and(|text| self.text(text, layers - 1))
    }

    /// Whether this much more may be looked at.
    fn spend(&mut self, bytes: usize) -> bool {
        let left = self.left.checked_sub(bytes);
        self.left = left.unwrap_or_default();
        left.is_some()
    }
}

/// Looks at the keys of the object at the top, or of each object in the list at the top.
struct Top<'s> {
    search: &'s mut Search,
    layers: u8,
}

impl<'de> DeserializeSeed<'de> for Top<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Top<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<bool, A::Error> {
        let mut found = false;
        while let Some(key) = access.next_key::<String>()? {
            access.next_value::<IgnoredAny>()?;
            found |= is_manifest_key(&key);
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<bool, A::Error> {
        let mut found = false;
        loop {
            let item = Top {
                search: &mut *self.search,
                layers: self.layers,
            };
            match access.next_element_seed(item)? {
                Some(is_manifest) => found |= is_manifest,
                None => return Ok(found),
            }
        }
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<bool, E> {
        Ok(self.search.text(text, self.layers - 1))
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_unit<E: Error>(self) -> Result<bool, E> {
        Ok(false)
    }
}

fn is_manifest_key(key: &str) -> bool {
    KEYS.iter().any(|known| known.eq_ignore_ascii_case(key))
}

/// Whether a key of a manifest stands anywhere in the text, at any depth.
fn has_manifest_key(text: &str) -> bool {
    text.split(':').any(|before| {
        let before = before.trim_end().trim_end_matches(['"', '\'', '\\']);
        let is_part = |letter: char| letter.is_alphanumeric() || matches!(letter, '_' | '-' | '.' | '/');
        is_manifest_key(
            before
                .rsplit(|letter: char| !is_part(letter))
                .next()
                .unwrap_or(before),
        )
    })
}

/// Whether a key of a manifest stands in a line of the outermost mapping of a YAML document, or of a mapping in a list.
fn is_manifest_yaml(text: &str) -> bool {
    let mut outermost = usize::MAX;
    for line in text.lines() {
        if line.starts_with("---") {
            outermost = usize::MAX;
        }
        let Some((column, key)) = yaml_key(line) else {
            continue;
        };
        // The first key of a document is an outermost one.
        outermost = outermost.min(column);
        if column == outermost && is_manifest_key(key) {
            return true;
        }
    }
    false
}

/// The key that a line begins with, and the column where it stands. Dashes of lists count as blanks.
fn yaml_key(line: &str) -> Option<(usize, &str)> {
    let mut rest = line.trim_start_matches(' ');
    while let Some(item) = rest.strip_prefix("- ") {
        rest = item.trim_start_matches(' ');
    }
    let column = line.len() - rest.len();
    let colon = rest
        .match_indices(':')
        .map(|(index, _)| index)
        .find(|index| rest[index + 1..].chars().next().is_none_or(char::is_whitespace))?;
    Some((column, rest[..colon].trim_end().trim_matches(['"', '\''])))
}

/// Base64 in lines or in one piece, of either alphabet.
fn decode_base64(text: &str) -> Option<Vec<u8>> {
    let mut plain = Vec::with_capacity(text.len());
    for byte in text.bytes().filter(|byte| !byte.is_ascii_whitespace()) {
        plain.push(match byte {
            b'-' => b'+',
            b'_' => b'/',
            b'+' | b'/' | b'=' => byte,
            _ if byte.is_ascii_alphanumeric() => byte,
            _ => return None,
        });
    }
    BASE64.decode(plain).ok()
}

/// Reads gzip or zlib up to a limit, and of a stream that was cut off the part before the cut. Other bytes give nothing.
fn decompress(bytes: &[u8], limit: usize) -> Vec<u8> {
    let mut unpacked = Vec::new();
    let limit = limit as u64;
    // An error ends the reading; what was read before it is looked at.
    let _ = match bytes {
        [0x1f, 0x8b, ..] => GzDecoder::new(bytes).take(limit).read_to_end(&mut unpacked),
        [first, ..] if first & 0x0f == 8 => ZlibDecoder::new(bytes).take(limit).read_to_end(&mut unpacked),
        _ => Ok(0),
    };
    unpacked
}
