//! Rules about the text of the sources: sizes, names, the layout of modules, unfinished words.

use std::path::Path;

use anyhow::Result;

use crate::run;

const LONGEST_FILE: usize = 600;
/// What the first line of generated code says.
const GENERATED: &str = "// This file is @generated";
const EMPTY_NAMES: [&str; 5] = ["util", "utils", "helpers", "common", "misc"];
// Written in two halves, so that this file does not report itself.
const UNFINISHED: [&str; 4] = [
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("todo", "!("),
    concat!("for", " now"),
];

/// Every fault in the texts of the tracked and new sources.
pub fn check(root: &Path) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for file in files(root, &["*.rs", "*.go"])? {
        faults.extend(source(&file, &std::fs::read_to_string(root.join(&file))?));
    }
    Ok(faults)
}

/// Tracked and new files with these endings.
pub fn files(root: &Path, patterns: &[&str]) -> Result<Vec<String>> {
    let mut list = std::process::Command::new("git");
    list.current_dir(root)
        .args(["ls-files", "--cached", "--others", "--exclude-standard", "--"])
        .args(patterns);
    let listed = run::output(&mut list)?;
    // A file that was deleted but not committed yet is still listed.
    let there = listed.lines().filter(|file| root.join(file).exists());
    Ok(there.map(str::to_owned).collect())
}

fn source(file: &str, text: &str) -> Vec<String> {
    // What nobody writes, nobody reads from top to bottom; its names and words are those of its source.
    if text.lines().next().is_some_and(|first| first.contains(GENERATED)) {
        return Vec::new();
    }
    let mut faults = Vec::new();
    let lines = text.lines().count();
    if lines > LONGEST_FILE {
        faults.push(format!(
            "{file}: {lines} lines; above {LONGEST_FILE} split by domain"
        ));
    }
    for part in file.split('/').map(|part| part.trim_end_matches(".rs")) {
        if EMPTY_NAMES.contains(&part) {
            faults.push(format!("{file}: the name {part:?} says nothing"));
        }
    }
    if let Some(module) = file.strip_suffix("/mod.rs") {
        faults.push(format!(
            "{file}: a module has one layout: {module}.rs beside the folder {module}/"
        ));
    }
    for (number, line) in (1..).zip(text.lines()) {
        if let Some(word) = UNFINISHED.into_iter().find(|word| says(line, word)) {
            faults.push(format!("{file}:{number}: {word:?} is unfinished work"));
        }
    }
    faults
}

/// Whether a line holds these words, not merely the beginning of others.
fn says(line: &str, words: &str) -> bool {
    line.match_indices(words)
        .any(|(at, _)| !line[at + words.len()..].starts_with(char::is_alphanumeric))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_long_files_empty_names_and_unfinished_work() {
        assert_eq!(source("a/b.rs", "fn main() {}\n"), Vec::<String>::new());
        assert_eq!(source("a/b.rs", &"\n".repeat(601)).len(), 1);
        let generated = format!("{GENERATED} by something.\n{}", "\n".repeat(601));
        assert_eq!(source("a/b.rs", &generated), Vec::<String>::new());
        assert_eq!(source("a/b.rs", &format!("\n{generated}")).len(), 1);
        assert_eq!(source("a/utils/b.rs", "").len(), 1);
        assert_eq!(source("a/b.rs", concat!("// TO", "DO later\n")).len(), 1);
        assert_eq!(
            source("a/b.rs", concat!("// bound for", " nowhere\n")),
            Vec::<String>::new()
        );
    }

    #[test]
    fn a_module_in_a_mod_file_is_a_fault() {
        assert_eq!(
            source("a/b/mod.rs", "fn f() {}\n"),
            ["a/b/mod.rs: a module has one layout: a/b.rs beside the folder a/b/"]
        );
        assert_eq!(source("a/b.rs", "mod mod_rs;\n"), Vec::<String>::new());
        assert_eq!(source("a/my_mod.rs", ""), Vec::<String>::new());
    }
}
