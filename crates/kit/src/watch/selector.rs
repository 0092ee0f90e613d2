//! Which labels a label selector selects, in the notation of the API.

use std::collections::BTreeMap;

/// Whether a label selector selects an object with these labels. A selector that cannot be read selects nothing.
pub(super) fn selects(selector: &str, labels: &BTreeMap<String, String>) -> bool {
    terms(selector).all(|term| matches(term.trim(), labels))
}

/// The terms between the commas that stand outside of parentheses.
fn terms(selector: &str) -> impl Iterator<Item = &str> {
    let mut depth = 0_usize;
    selector.split(move |c| {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        c == ',' && depth == 0
    })
}

fn matches(term: &str, labels: &BTreeMap<String, String>) -> bool {
    if let Some((key, value)) = term.split_once("!=") {
        return labels.get(key.trim()).is_none_or(|has| has != value.trim());
    }
    if let Some((key, value)) = term.split_once("==").or_else(|| term.split_once('=')) {
        return labels.get(key.trim()).is_some_and(|has| has == value.trim());
    }
    if let Some((key, set)) = term.split_once(" notin ") {
        return labels.get(key.trim()).is_none_or(|has| !is_in(set, has));
    }
    if let Some((key, set)) = term.split_once(" in ") {
        return labels.get(key.trim()).is_some_and(|has| is_in(set, has));
    }
    match term.strip_prefix('!') {
        Some(key) => !labels.contains_key(key.trim()),
        None => labels.contains_key(term),
    }
}

fn is_in(set: &str, value: &str) -> bool {
    let inner = set.trim().strip_prefix('(').and_then(|set| set.strip_suffix(')'));
    inner.is_some_and(|inner| inner.split(',').any(|one| one.trim() == value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_selects_as_the_api_server_does() {
        let labels = [("app", "shop"), ("tier", "web")];
        let labels = labels
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into();
        let selected = [
            "app=shop",
            "app==shop,tier",
            "app in (cart, shop),tier!=db",
            "app notin (cart,pay)",
            "!owner,app",
            "owner notin (us)",
        ];
        for selector in selected {
            assert!(selects(selector, &labels), "{selector}");
        }
        let left_out = [
            "app=cart",
            "app in (cart,pay)",
            "!app",
            "owner",
            "app notin (shop)",
            "tier!=web",
        ];
        for selector in left_out {
            assert!(!selects(selector, &labels), "{selector}");
        }
    }
}
