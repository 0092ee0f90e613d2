//! Takes the values out of what the API server says about an object.
//!
//! A validation error repeats the value that it complains of: `data[k]: Invalid value: "hunter2": must be …`. What we
//! pass on goes to events, conditions and logs, so only the field and the rule may stay.

/// Words of the API server after which a value follows.
const BEFORE_A_VALUE: [&str; 5] = [
    "Invalid value: ",
    "Unsupported value: ",
    "Duplicate value: ",
    "Not found: ",
    ", got ",
];

/// The longest text that is passed on.
const MAX: usize = 512;

/// The message on one line, without the values in it.
pub(super) fn scrub(message: &str) -> String {
    let mut rest = message;
    let mut clean = String::new();
    while let Some((start, word)) = first_word(rest) {
        let (before, after) = rest.split_at(start + word.len());
        clean.push_str(before);
        clean.push('…');
        rest = skip_value(after);
    }
    clean.push_str(rest);
    let clean = clean.replace(|c: char| c.is_control(), " ");
    match clean.char_indices().nth(MAX) {
        Some((end, _)) => format!("{}…", &clean[..end]),
        None => clean,
    }
}

fn first_word(text: &str) -> Option<(usize, &'static str)> {
    let found = BEFORE_A_VALUE
        .iter()
        .filter_map(|word| Some((text.find(word)?, *word)));
    found.min_by_key(|(start, _)| *start)
}

/// What follows the value. A quoted string ends at its quote and a number at its colon; of anything else the end cannot be
/// told, so nothing is kept.
fn skip_value(text: &str) -> &str {
    if let Some(quoted) = text.strip_prefix('"') {
        let mut escaped = false;
        for (index, character) in quoted.char_indices() {
            match character {
                '"' if !escaped => return &quoted[index + 1..],
                _ => escaped = character == '\\' && !escaped,
            }
        }
        return "";
    }
    let end = text
        .find(|c: char| !c.is_ascii_digit() && !matches!(c, '-' | '.'))
        .unwrap_or(text.len());
    if end > 0 && text[end..].starts_with(": ") {
        &text[end..]
    } else {
        ""
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn keeps_the_rule_and_drops_the_value() {
        let clean = |text| scrub(text);
        assert_eq!(
            clean(r#"data[k v]: Invalid value: "a \"quoted\" secret": a valid config key must consist of …"#),
            "data[k v]: Invalid value: …: a valid config key must consist of …"
        );
        assert_eq!(
            clean("spec.n: Invalid value: 9: should be at most 5"),
            "spec.n: Invalid value: …: should be at most 5"
        );
        assert_eq!(
            clean(r#"spec: Invalid value: {"password":"x: y"}: no"#),
            "spec: Invalid value: …"
        );
        assert_eq!(
            clean(".data.k: expected string, got &value.valueUnstructured{Value:5}"),
            ".data.k: expected string, got …"
        );
        assert_eq!(
            clean(r#"a: Duplicate value: "x", b: Not found: "y""#),
            "a: Duplicate value: …, b: Not found: …"
        );
    }

    proptest! {
        #[test]
        fn no_value_survives(value in "\\PC{6,40}", kept in "[a-z]{0,10}") {
            // As Go quotes a string.
            let quoted = format!("{value:?}");
            let message = format!("field: Invalid value: {quoted}: {kept}; other: Unsupported value: {quoted}: supported values: \"a\"");
            let clean = scrub(&message);
            prop_assert!(!clean.contains(&value), "{clean}");
            let plain = scrub(&format!("field: expected string, got {value}"));
            prop_assert!(!plain.contains(&value), "{plain}");
        }

        #[test]
        fn always_one_short_line(text in "(?s).{0,2000}") {
            let clean = scrub(&text);
            prop_assert!(clean.chars().count() <= MAX + 1 && !clean.chars().any(char::is_control));
        }
    }
}
