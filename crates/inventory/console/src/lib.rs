//! The web console of the hub, as files in the program.
//!
//! `npm run build` in `web` makes the console; `build.rs` embeds it from `web/dist`, or from the folder that the variable
//! `TRUSTPLANE_CONSOLE_DIST` names. Without either, a plain `cargo build` embeds a stub page, and [`IS_STUB`] says so: the hub
//! builds without Node.
//!
//! ```
//! use trustplane_inventory_console as console;
//!
//! let page = console::index(Some("gzip, br"));
//! assert_eq!(page.content_type, "text/html; charset=utf-8");
//! assert!(console::file("../Cargo.toml", None).is_none());
//! ```
//!
//! This crate answers no requests: the hub decides which path is a page, and sets status and security headers.

use std::borrow::Cow;

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The cache rule of files whose name changes with their content.
const CACHE_FOREVER: &str = "public, max-age=31536000, immutable";
/// The cache rule of all other files: a browser asks each time, and mostly hears that nothing changed.
const CACHE_ASK: &str = "no-cache";
/// The page that serves every path of the console.
const INDEX: &str = "index.html";

/// A file of the console, ready to be sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The value of `Content-Encoding`, if the bytes are compressed. Send `Vary: Accept-Encoding` in either case.
    pub encoding: Option<&'static str>,
    /// The value of `Cache-Control`.
    pub cache: &'static str,
    /// The value of `ETag`, with its quotes.
    pub etag: String,
    /// The body.
    pub bytes: Cow<'static, [u8]>,
}

/// A file as `build.rs` lists it.
struct Embedded {
    path: &'static str,
    content_type: &'static str,
    hashed: bool,
    digest: &'static str,
    plain: &'static [u8],
    brotli: Option<&'static [u8]>,
}

/// Finds the file at a path such as `/assets/main-1a2b.js`, with or without the leading slash.
///
/// `accept_encoding` is the header of the request. `None` is answered for every path that is not a file of the console, pages
/// such as `/resources` included: they are served by [`index`].
pub fn file(path: &str, accept_encoding: Option<&str>) -> Option<File> {
    let path = path.strip_prefix('/').unwrap_or(path);
    let found = FILES.binary_search_by(|file| file.path.cmp(path)).ok()?;
    FILES.get(found).map(|file| file.answer(accept_encoding))
}

/// The page of the console, for every path that a person can open.
pub fn index(accept_encoding: Option<&str>) -> File {
    file(INDEX, accept_encoding).unwrap_or_else(|| File {
        content_type: "text/plain; charset=utf-8",
        encoding: None,
        cache: CACHE_ASK,
        etag: "\"none\"".to_owned(),
        bytes: Cow::Borrowed(b"this program was built without a console\n"),
    })
}

impl Embedded {
    fn answer(&self, accept_encoding: Option<&str>) -> File {
        let packed = self
            .brotli
            .filter(|_| accept_encoding.is_some_and(accepts_brotli));
        let suffix = if packed.is_some() { "-br" } else { "" };
        File {
            content_type: self.content_type,
            encoding: packed.map(|_| "br"),
            cache: if self.hashed { CACHE_FOREVER } else { CACHE_ASK },
            etag: format!("\"{}{suffix}\"", self.digest),
            bytes: Cow::Borrowed(packed.unwrap_or(self.plain)),
        }
    }
}

/// Whether an `Accept-Encoding` header permits brotli: it is named, and not with a weight of zero.
fn accepts_brotli(header: &str) -> bool {
    header.split(',').any(|part| {
        let mut words = part.split(';').map(str::trim);
        let named = words
            .next()
            .is_some_and(|coding| coding.eq_ignore_ascii_case("br"));
        let refused = words.any(|word| {
            let weight = word.strip_prefix("q=").or_else(|| word.strip_prefix("Q="));
            weight.is_some_and(|weight| weight.parse() == Ok(0.0_f32))
        });
        named && !refused
    })
}

#[cfg(test)]
mod tests;
