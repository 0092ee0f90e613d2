//! Known secret values, planted, and then searched for wherever a value must never show.
//!
//! A value that leaks seldom leaks as it is: it shows up in base64 (at any alignment, when it is part of something
//! larger), in hex, escaped in JSON or in a URL. The scanner looks for all of these.
//!
//! ```
//! use trustplane_testkit::canary::{Canary, Search};
//!
//! let canary = Canary::new("database password");
//! let mut search = Search::for_canaries([&canary]);
//! search.text("the log", "level=info msg=\"secret synced\"");
//! search.assert_clean();
//! ```

use std::fmt::Write as _;

use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};

/// A secret value that stands nowhere else in the world.
#[derive(Clone)]
pub struct Canary {
    about: String,
    value: String,
    forms: Vec<(&'static str, Vec<u8>)>,
}

impl Canary {
    /// A new value; `about` says in a failure which one leaked.
    pub fn new(about: &str) -> Self {
        // The signs behind the searched part are those that careless code trips over.
        let value = format!(
            "canary-{:032x}-\"ÿ?/+\\~{:016x}",
            rand::random::<u128>(),
            rand::random::<u64>()
        );
        Self {
            about: about.to_owned(),
            forms: forms(&value),
            value,
        }
    }

    /// The value, to be planted.
    pub fn value(&self) -> &str {
        &self.value
    }

    /// What it is planted as.
    pub fn about(&self) -> &str {
        &self.about
    }
}

/// The value must not show in the output of a failed test either.
impl std::fmt::Debug for Canary {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Canary({})", self.about)
    }
}

/// A part of the value that no escape touches: enough to be sure, and it finds values that were cut.
const PLAIN: std::ops::Range<usize> = 0.."canary-".len() + 32;

fn forms(value: &str) -> Vec<(&'static str, Vec<u8>)> {
    let bytes = &value.as_bytes()[PLAIN];
    let mut forms = vec![
        ("plain", bytes.to_vec()),
        ("hex", hex(bytes, false)),
        ("upper-case hex", hex(bytes, true)),
    ];
    for shift in 0..3 {
        forms.push(("base64", inner_base64(&STANDARD_NO_PAD, bytes, shift)));
        forms.push(("URL-safe base64", inner_base64(&URL_SAFE_NO_PAD, bytes, shift)));
    }
    forms
}

/// What the base64 form looks like when `shift` bytes stand before the value: without the characters at either end, which
/// mix bits of the value with bits of its neighbours.
fn inner_base64(engine: &impl base64::Engine, value: &[u8], shift: usize) -> Vec<u8> {
    let mut shifted = vec![0; shift];
    shifted.extend_from_slice(value);
    let encoded = engine.encode(&shifted);
    let start = if shift == 0 { 0 } else { shift + 1 };
    let whole = shifted.len() / 3 * 4;
    encoded.as_bytes()[start..whole].to_vec()
}

fn hex(bytes: &[u8], upper: bool) -> Vec<u8> {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a String cannot fail.
        let _ = if upper {
            write!(text, "{byte:02X}")
        } else {
            write!(text, "{byte:02x}")
        };
    }
    text.into_bytes()
}

/// A search for leaked values.
#[derive(Debug)]
pub struct Search {
    canaries: Vec<Canary>,
    searched: Vec<String>,
    leaks: Vec<String>,
}

impl Search {
    /// A search for these values.
    pub fn for_canaries<'a>(canaries: impl IntoIterator<Item = &'a Canary>) -> Self {
        Self {
            canaries: canaries.into_iter().cloned().collect(),
            searched: Vec::new(),
            leaks: Vec::new(),
        }
    }

    /// Looks through bytes; `place` says in a failure where the value showed.
    pub fn bytes(&mut self, place: &str, bytes: &[u8]) {
        self.searched.push(format!("{place} ({} bytes)", bytes.len()));
        for canary in &self.canaries {
            for (form, needle) in &canary.forms {
                if contains(bytes, needle) {
                    self.leaks
                        .push(format!("the {} shows in {place}, in {form}", canary.about));
                }
            }
        }
    }

    /// Looks through text.
    pub fn text(&mut self, place: &str, text: &str) {
        self.bytes(place, text.as_bytes());
    }

    /// Looks through anything that has a JSON form.
    pub fn json(&mut self, place: &str, value: &impl serde::Serialize) -> anyhow::Result<()> {
        self.bytes(place, &serde_json::to_vec(value)?);
        Ok(())
    }

    /// What was found.
    pub fn leaks(&self) -> &[String] {
        &self.leaks
    }

    /// Fails the test if a value showed anywhere, or if there was nothing to look through.
    pub fn assert_clean(&self) {
        assert!(!self.searched.is_empty(), "nothing was searched");
        assert!(
            self.leaks.is_empty(),
            "secret values leaked:\n{}",
            self.leaks.join("\n")
        );
    }
}

fn contains(haystack: &[u8], needle: &[u8]) -> bool {
    // Every form is long, and its first byte seldom: looking for that first keeps the search of a large log quick.
    let Some(first) = needle.first() else { return false };
    let mut rest = haystack;
    while let Some(at) = rest.iter().position(|byte| byte == first) {
        rest = &rest[at..];
        if rest.starts_with(needle) {
            return true;
        }
        rest = &rest[1..];
    }
    false
}

#[cfg(test)]
mod tests {
    use base64::Engine as _;
    use base64::engine::general_purpose::{STANDARD, URL_SAFE};

    use super::*;

    fn leaks_in(text: &[u8], canary: &Canary) -> usize {
        let mut search = Search::for_canaries([canary]);
        search.bytes("a text", text);
        search.leaks().len()
    }

    #[test]
    fn every_planted_leak_is_found() {
        let canary = Canary::new("password");
        let value = canary.value();
        let mut planted = vec![
            format!("password={value}!").into_bytes(),
            serde_json::to_vec(&serde_json::json!({"deep": [value]})).unwrap(),
            [b"0x".as_slice(), &hex(value.as_bytes(), false)].concat(),
            hex(value.as_bytes(), true),
            value.as_bytes()[..45].to_vec(),
        ];
        for before in ["", "a", "ab", "abc", "user:"] {
            for after in ["", "x", "xy", "xyz"] {
                let text = format!("{before}{value}{after}");
                planted.push(format!("Basic {}", STANDARD.encode(&text)).into_bytes());
                planted.push(URL_SAFE.encode(&text).into_bytes());
                planted.push(STANDARD_NO_PAD.encode(&text).into_bytes());
            }
        }
        for text in planted {
            assert!(
                leaks_in(&text, &canary) > 0,
                "not found in {}",
                String::from_utf8_lossy(&text)
            );
        }
    }

    #[test]
    fn another_value_is_no_leak() {
        let (canary, other) = (Canary::new("one"), Canary::new("other"));
        for text in [other.value().to_owned(), STANDARD.encode(other.value())] {
            assert_eq!(leaks_in(text.as_bytes(), &canary), 0);
        }
        assert_eq!(leaks_in(b"", &canary), 0);
    }

    #[test]
    #[should_panic(expected = "the password shows in the log, in plain")]
    fn a_leak_fails_the_test() {
        let canary = Canary::new("password");
        let mut search = Search::for_canaries([&canary]);
        search.text("the log", canary.value());
        search.assert_clean();
    }

    #[test]
    #[should_panic(expected = "nothing was searched")]
    fn an_empty_search_proves_nothing() {
        Search::for_canaries([&Canary::new("password")]).assert_clean();
    }

    #[test]
    fn a_canary_keeps_its_value_to_itself() {
        let canary = Canary::new("password");
        assert_eq!(leaks_in(format!("{canary:?}").as_bytes(), &canary), 0);
    }
}
