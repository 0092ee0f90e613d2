//! Rules about what documents say of tests: a test that is named there exists.
//!
//! A test is named as the runner prints it, in one piece of code: the package, perhaps with the binary, and the path of the test.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::Result;
use cargo_metadata::Metadata;

use super::texts::files;

/// The names of functions, by package.
type Functions = BTreeMap<String, BTreeSet<String>>;

/// Every test that is named in a document and does not exist.
pub fn check(root: &Path, metadata: &Metadata) -> Result<Vec<String>> {
    let functions = functions(root, metadata)?;
    let mut faults = Vec::new();
    for file in files(root, &["*.md"])? {
        faults.extend(missing(
            &file,
            &std::fs::read_to_string(root.join(&file))?,
            &functions,
        ));
    }
    Ok(faults)
}

fn functions(root: &Path, metadata: &Metadata) -> Result<Functions> {
    let mut functions = Functions::new();
    let packages = metadata.workspace_packages();
    for file in files(root, &["*.rs"])? {
        let path = root.join(&file);
        let folder =
            |package: &cargo_metadata::Package| package.manifest_path.parent().map(ToOwned::to_owned);
        let of = packages
            .iter()
            .find(|package| folder(package).is_some_and(|folder| path.starts_with(folder)));
        if let Some(package) = of {
            let known = functions.entry(package.name.to_string()).or_default();
            known.extend(
                std::fs::read_to_string(path)?
                    .lines()
                    .filter_map(function)
                    .map(str::to_owned),
            );
        }
    }
    Ok(functions)
}

/// The name of the function that begins in a line.
fn function(line: &str) -> Option<&str> {
    let line = line.trim_start();
    let line = line.strip_prefix("pub ").unwrap_or(line);
    let line = line.strip_prefix("async ").unwrap_or(line);
    let name = line.strip_prefix("fn ")?;
    name.split_once(['(', '<']).map(|(name, _)| name)
}

fn missing(file: &str, text: &str, functions: &Functions) -> Vec<String> {
    let mut faults = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        for (package, test) in named(line) {
            let known = functions.get(package).is_some_and(|known| known.contains(test));
            if !known {
                faults.push(format!("{file}:{number}: {package} has no test {test}"));
            }
        }
    }
    faults
}

/// The tests that a line names, with their packages.
fn named(line: &str) -> impl Iterator<Item = (&str, &str)> {
    line.split('`').skip(1).step_by(2).filter_map(|code| {
        let (binary, path) = code.split_once(' ')?;
        let is_test = code.starts_with("trustplane-") && code.contains("::") && !path.contains(' ');
        let package = binary.split("::").next()?;
        let test = path.rsplit("::").next()?;
        is_test.then_some((package, test))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn faults(text: &str) -> Vec<String> {
        let source = "    fn one() {\n  pub async fn two<T>(t: T) {\n// fn three() {}\nlet x = fn_four(1);\n";
        let known = source.lines().filter_map(function).map(str::to_owned).collect();
        missing("d.md", text, &[("trustplane-a".to_owned(), known)].into())
    }

    #[test]
    fn a_test_that_exists_is_no_fault() {
        assert_eq!(
            faults("`trustplane-a m::tests::one`, and `trustplane-a::binary two`"),
            [""; 0]
        );
    }

    #[test]
    fn a_test_that_does_not_exist_is_one_with_its_line() {
        assert_eq!(
            faults("| a |\n| `trustplane-a m::one`, `trustplane-a m::on`, `trustplane-b m::one` |"),
            [
                "d.md:2: trustplane-a has no test on",
                "d.md:2: trustplane-b has no test one"
            ]
        );
        assert_eq!(faults("`trustplane-a::m three` `trustplane-a m::four`").len(), 2);
    }

    #[test]
    fn what_is_no_name_of_a_test_is_passed_over() {
        let others = "`trustplane-agent test-token --module FILE`, `trustplane_a::b`, trustplane-a m::x, `cargo a::b c`";
        assert_eq!(faults(others), [""; 0]);
    }
}
