//! What a run tells: each stage's time against its budget, the slowest tests, and the closing line.

use std::{collections::BTreeMap, time::Duration};

use anyhow::{Context, Result, bail};
use quick_junit::{Report as Junit, TestCaseStatus};
use serde::Deserialize;

use crate::run;

/// How many of the slowest tests are named at the end.
const SLOWEST: usize = 8;

/// One test that ran, or was skipped.
#[derive(Debug)]
pub struct Test {
    name: String,
    took: Duration,
    verdict: Verdict,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    Passed,
    Failed,
    Skipped,
}

/// What a stage did.
#[derive(Debug)]
pub enum Outcome {
    /// It checked something and found no fault.
    Checked,
    /// It ran tests.
    Tests(Vec<Test>),
}

impl Outcome {
    /// Reads the runner's JUnit report.
    pub fn from_junit(xml: &str) -> Result<Self> {
        let report = Junit::deserialize_from_str(xml).context("failed to read the test runner's report")?;
        let suites = report.test_suites.iter();
        let tests = suites.flat_map(|suite| {
            suite
                .test_cases
                .iter()
                .map(|case| (suite.name.as_str().to_owned(), case))
        });
        let tests = tests.map(|(suite, case)| Test {
            name: format!("{suite} {}", case.name.as_str()),
            took: case.time.unwrap_or_default(),
            verdict: match case.status {
                TestCaseStatus::Success { .. } => Verdict::Passed,
                TestCaseStatus::NonSuccess { .. } => Verdict::Failed,
                TestCaseStatus::Skipped { .. } => Verdict::Skipped,
            },
        });
        Ok(Self::Tests(tests.collect()))
    }

    /// Reads the lines that Rust's own test harness prints.
    pub fn from_libtest(stage: &str, text: &str) -> Self {
        let tests = text.lines().filter_map(|line| {
            let (name, verdict) = line.strip_prefix("test ")?.rsplit_once(" ... ")?;
            let verdict = match verdict {
                "ok" => Verdict::Passed,
                "FAILED" => Verdict::Failed,
                verdict if verdict.starts_with("ignored") => Verdict::Skipped,
                _ => return None,
            };
            Some(Test {
                name: format!("{stage} {name}"),
                took: Duration::ZERO,
                verdict,
            })
        });
        Self::Tests(tests.collect())
    }

    /// Whether one of its tests failed.
    pub fn has_failed(&self) -> bool {
        matches!(self, Self::Tests(tests) if tests.iter().any(|test| test.verdict == Verdict::Failed))
    }
}

#[derive(Deserialize)]
struct Budget {
    cold: u64,
    warm: u64,
}

/// Collects what the stages did and prints it.
pub struct Report {
    budgets: BTreeMap<String, Budget>,
    cold: bool,
    rows: Vec<String>,
    faults: Vec<String>,
    tests: Vec<Test>,
    total: Duration,
}

impl Report {
    /// Begins a report with the committed table of budgets.
    pub fn new(cold: bool) -> Result<Self> {
        let table = std::fs::read_to_string(run::root().join("xtask/budgets.yaml"))?;
        let budgets = serde_saphyr::from_str(&table).context("failed to read xtask/budgets.yaml")?;
        let (rows, faults, tests) = Default::default();
        Ok(Self {
            budgets,
            cold,
            rows,
            faults,
            tests,
            total: Duration::ZERO,
        })
    }

    /// Announces a stage.
    pub fn begin(&self, stage: &str) {
        println!("── {stage}");
    }

    /// Takes down what a stage did.
    pub fn end(&mut self, stage: &str, took: Duration, outcome: Result<Outcome>) {
        self.total += took;
        let verdict = match outcome {
            Ok(Outcome::Checked) => "ok".to_owned(),
            Ok(Outcome::Tests(tests)) => {
                let failed = tests
                    .iter()
                    .filter(|test| test.verdict == Verdict::Failed)
                    .count();
                let line = format!("{} tests, {failed} failed", tests.len());
                self.tests.extend(tests);
                line
            }
            Err(error) => {
                self.faults.push(format!("{stage}: {error:#}"));
                "FAILED".to_owned()
            }
        };
        let budget = self
            .budgets
            .get(stage)
            .map(|b| if self.cold { b.cold } else { b.warm });
        let against = budget.map_or("no budget".to_owned(), |budget| {
            let over = if took.as_secs() > budget { ", over" } else { "" };
            format!("budget {budget} s{over}")
        });
        let row = format!(
            "{stage:<10} {:>7.1} s  ({against})  {verdict}",
            took.as_secs_f64()
        );
        println!("   {row}");
        self.rows.push(row);
    }

    /// Prints the summary; fails if anything failed.
    pub fn finish(mut self) -> Result<()> {
        println!("\n{}", self.rows.join("\n"));
        println!("{:<10} {:>7.1} s", "all", self.total.as_secs_f64());
        self.tests.sort_by_key(|test| std::cmp::Reverse(test.took));
        println!("\nslowest tests");
        for test in self.tests.iter().take(SLOWEST) {
            println!("{:>7.1} s  {}", test.took.as_secs_f64(), test.name);
        }
        let count = |verdict| self.tests.iter().filter(|test| test.verdict == verdict).count();
        for test in self.tests.iter().filter(|test| test.verdict != Verdict::Passed) {
            println!("{:?}: {}", test.verdict, test.name);
        }
        for fault in &self.faults {
            println!("FAILED {fault}");
        }
        let failed = count(Verdict::Failed) + self.faults.len();
        println!(
            "\n{} passed, {failed} failed, {} skipped",
            count(Verdict::Passed),
            count(Verdict::Skipped)
        );
        if failed > 0 {
            bail!("{failed} failed");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_the_runners_report() {
        let xml = r#"<?xml version="1.0" encoding="UTF-8"?>
            <testsuites name="run" tests="2" failures="1" errors="0" time="1.5">
              <testsuite name="kit" tests="2" disabled="0" errors="0" failures="1">
                <testcase name="a" classname="kit" time="1.25"></testcase>
                <testcase name="b" classname="kit" time="0.25"><failure type="test failure"/></testcase>
              </testsuite>
            </testsuites>"#;
        let outcome = Outcome::from_junit(xml).unwrap();
        assert!(outcome.has_failed());
        let Outcome::Tests(tests) = outcome else {
            panic!("expected tests")
        };
        assert_eq!(tests.len(), 2);
        assert_eq!(tests[0].took, Duration::from_millis(1250));
    }

    #[test]
    fn reads_the_report_of_the_consoles_runner() {
        let xml = r#"<?xml version="1.0" encoding="UTF-8" ?>
            <testsuites name="vitest tests" tests="2" failures="1" errors="0" time="0.075027566">
              <testsuite name="src/a.test.ts" timestamp="2026-01-18T08:01:38.876Z" hostname="h" tests="2" failures="1" errors="0" skipped="1" time="0.026098494">
                <testcase classname="src/a.test.ts" name="PagedList &gt; ends" time="0.005171244">
                </testcase>
                <testcase classname="src/a.test.ts" name="fails" time="0.001">
                  <failure message="expected 1 to be 2" type="AssertionError">AssertionError: expected 1 to be 2</failure>
                </testcase>
                <testcase classname="src/a.test.ts" name="waits" time="0"><skipped/></testcase>
              </testsuite>
            </testsuites>"#;
        let outcome = Outcome::from_junit(xml).unwrap();
        assert!(outcome.has_failed());
        let Outcome::Tests(tests) = outcome else {
            panic!("expected tests")
        };
        assert_eq!(tests[0].name, "src/a.test.ts PagedList > ends");
        let verdicts: Vec<_> = tests.iter().map(|test| test.verdict).collect();
        assert_eq!(verdicts, [Verdict::Passed, Verdict::Failed, Verdict::Skipped]);
    }

    #[test]
    fn reads_the_lines_of_the_harness() {
        let outcome = Outcome::from_libtest(
            "doc",
            "test a - (line 3) ... ok\ntest b ... FAILED\ntest c ... ignored\n",
        );
        assert!(outcome.has_failed());
        let Outcome::Tests(tests) = outcome else {
            panic!("expected tests")
        };
        assert_eq!(tests.iter().filter(|t| t.verdict == Verdict::Skipped).count(), 1);
    }
}
