//! Annotations that were read, so that a text is read once and not at every look at a pod.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::Annotation;
use crate::reason::Problem;
use crate::request::{Keys, Request};

/// The most annotations that are kept.
const MOST_ENTRIES: usize = 2048;
/// The most bytes that they may need, with their texts.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// What was read from an annotation.
pub type Parsed = Arc<Result<Annotation, Problem>>;

/// The annotations that were used last. Pods of one workload have the same text, and share what was read from it.
///
/// **Guarantees.** It holds at most 2048 annotations and 16 MiB; what was not used for the longest time goes first.
#[derive(Debug, Default)]
pub struct ParseCache {
    entries: BTreeMap<Arc<str>, Kept>,
    /// The texts in the order of their last use.
    order: BTreeMap<u64, Arc<str>>,
    uses: u64,
    bytes: usize,
}

#[derive(Debug)]
struct Kept {
    parsed: Parsed,
    used: u64,
    bytes: usize,
}

impl ParseCache {
    /// What was read from this text.
    pub fn get(&mut self, text: &str) -> Option<Parsed> {
        let kept = self.entries.get_mut(text)?;
        if let Some(text) = self.order.remove(&kept.used) {
            self.uses += 1;
            kept.used = self.uses;
            self.order.insert(self.uses, text);
        }
        Some(kept.parsed.clone())
    }

    /// Keeps what was read from this text.
    pub fn put(&mut self, text: &Arc<str>, parsed: &Parsed) {
        let bytes = text.len() + memory(parsed);
        if bytes > MOST_BYTES || self.get(text).is_some() {
            return;
        }
        self.bytes += bytes;
        self.uses += 1;
        self.order.insert(self.uses, text.clone());
        let kept = Kept {
            parsed: parsed.clone(),
            used: self.uses,
            bytes,
        };
        self.entries.insert(text.clone(), kept);
        while self.entries.len() > MOST_ENTRIES || self.bytes > MOST_BYTES {
            let Some((_, oldest)) = self.order.pop_first() else {
                return;
            };
            let gone = self.entries.remove(&oldest);
            self.bytes -= gone.map_or(0, |gone| gone.bytes);
        }
    }
}

/// How many bytes of memory the requests and warnings hold, compiled patterns included.
fn memory(parsed: &Result<Annotation, Problem>) -> usize {
    let annotation = match parsed {
        Err(problem) => return size_of::<Problem>() + problem.text.capacity(),
        Ok(annotation) => annotation,
    };
    let mut patterns = BTreeSet::new();
    let mut bytes = size_of::<Annotation>();
    for request in &annotation.requests {
        bytes += match request {
            Err(problem) => size_of::<Request>() + problem.text.capacity(),
            Ok(request) => {
                let all = request.shape.include.iter().chain(&request.shape.exclude);
                let all = all.chain(request.shape.rename.iter().map(|(pattern, _)| pattern));
                patterns.extend(all.map(|pattern| (pattern.as_str(), pattern.size())));
                of_request(request)
            }
        };
    }
    let warnings = annotation.warnings.iter();
    bytes += warnings
        .map(|warning| size_of::<Problem>() + warning.text.capacity())
        .sum::<usize>();
    bytes
        + patterns
            .iter()
            .map(|(text, size)| text.len() + size)
            .sum::<usize>()
}

/// The bytes of a request, without its patterns.
fn of_request(request: &Request) -> usize {
    let text = |text: &String| size_of::<String>() + text.capacity();
    let (source, shape) = (&request.source, &request.shape);
    let parts = [&source.provider, &source.store, &source.version]
        .into_iter()
        .flatten();
    let keys: usize = match &shape.keys {
        Keys::All => 0,
        Keys::Map(map) => map
            .iter()
            .map(|(target, source)| text(target) + text(source))
            .sum(),
        Keys::List(list) => list.iter().map(text).sum(),
    };
    size_of::<Request>()
        + parts.map(text).sum::<usize>()
        + source.path.capacity()
        + request.secret_name.as_str().len()
        + request.secret_type.capacity()
        + shape.key.capacity()
        + shape.select.iter().map(text).sum::<usize>()
        + keys
        + size_of::<usize>() * (shape.include.capacity() + shape.exclude.capacity())
        + shape
            .rename
            .iter()
            .map(|(_, target)| size_of::<usize>() + text(target))
            .sum::<usize>()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::grammar::{self, LONGEST_ANNOTATION};

    fn parsed(text: &str) -> (Arc<str>, Parsed) {
        (text.into(), Arc::new(grammar::parse(text, &["mock"])))
    }

    fn request(index: usize, more: &str) -> (Arc<str>, Parsed) {
        let (text, parsed) = parsed(&format!(
            "{{provider: mock, path: 'p{index}', secretName: s, {more}}}"
        ));
        assert!(
            parsed.as_ref().as_ref().unwrap().requests[0].is_ok(),
            "{parsed:?}"
        );
        (text, parsed)
    }

    #[test]
    fn cache_gives_the_same_annotation_for_the_same_text() {
        let mut cache = ParseCache::default();
        let (text, parsed) = request(1, "");
        assert!(cache.get(&text).is_none());
        cache.put(&text, &parsed);
        let again: String = text.to_string();
        assert!(Arc::ptr_eq(&cache.get(&again).unwrap(), &parsed));
    }

    #[test]
    fn cache_drops_what_was_not_used_for_the_longest_time() {
        let mut cache = ParseCache::default();
        let (first, of_first) = request(0, "");
        cache.put(&first, &of_first);
        for index in 1..=MOST_ENTRIES {
            assert!(cache.get(&first).is_some(), "{index}");
            let (text, parsed) = request(index, "");
            cache.put(&text, &parsed);
        }
        assert_eq!(
            (cache.entries.len(), cache.order.len()),
            (MOST_ENTRIES, MOST_ENTRIES)
        );
        assert!(cache.get(&first).is_some() && cache.get(&request(1, "").0).is_none());
    }

    #[test]
    fn cache_is_bounded_in_bytes_with_large_annotations() {
        let mut cache = ParseCache::default();
        for index in 0..600 {
            let (text, parsed) = request(index, &format!("keys: ['{}']", "k".repeat(16 * 1024)));
            cache.put(&text, &parsed);
            assert!(cache.bytes <= MOST_BYTES);
            assert_eq!(
                cache.bytes,
                cache.entries.values().map(|kept| kept.bytes).sum::<usize>()
            );
        }
        assert!(
            (300..600).contains(&cache.entries.len()),
            "{}",
            cache.entries.len()
        );
    }

    /// Annotations that copy a lot: long texts, many small texts, defaults for many items.
    fn annotations() -> impl Strategy<Value = String> {
        let list = (1_usize..256, 1_usize..400).prop_map(|(count, length)| {
            let names: Vec<_> = (0..count)
                .map(|index| format!("{index}{}", "n".repeat(length)))
                .collect();
            format!("[{}]", names.join(","))
        });
        let defaults = (list.clone(), 1_usize..33).prop_map(|(list, items)| {
            let items: String = (0..items)
                .map(|index| format!("- {{path: a, secretName: s{index}}}\n"))
                .collect();
            format!("defaults: {{provider: mock, keys: {list}, include: {list}}}\nsecrets:\n{items}")
        });
        prop_oneof![
            defaults,
            list.prop_map(|list| format!("{{provider: mock, path: a, secretName: s, keys: {list}}}")),
            (1_usize..16_000).prop_map(|n| format!(
                "{{provider: mock, path: a, secretName: s, select: '{}'}}",
                ".".repeat(n)
            )),
        ]
    }

    proptest! {
        #[test]
        fn requests_need_at_most_four_times_their_text(text in annotations()) {
            prop_assume!(text.len() <= LONGEST_ANNOTATION);
            let (_, parsed) = parsed(&text);
            let patterns = grammar::patterns::MOST_BYTES;
            prop_assert!(memory(&parsed) <= 4 * text.len() + 512 * 1024 + patterns, "{} {}", text.len(), memory(&parsed));
        }
    }
}
