//! Whether a process tells of its metrics what the reference does.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::Process;
use crate::frame::{admin_address, get};

/// A metric of the reference: its type, and the names of its labels.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Metric {
    kind: String,
    labels: BTreeSet<String>,
}

/// Every metric of a scrape is in `docs/reference/metrics.md`, with its type and its labels.
pub fn are_documented(scrape: &str) -> Result<()> {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/reference/metrics.md");
    let page = std::fs::read_to_string(page).context("read the reference of metrics")?;
    let faults = faults(&listed(&page), scrape);
    ensure!(
        faults.is_empty(),
        "docs/reference/metrics.md: {}",
        faults.join("; ")
    );
    Ok(())
}

/// The metrics of a process that logs in JSON and has told where they are served.
pub fn scrape(process: &Process) -> Result<String> {
    let log = process.log()?;
    let address = log.lines().find_map(admin_address);
    get(
        &address.with_context(|| format!("no admin port in the log:\n{log}"))?,
        "/metrics",
    )
}

/// The metrics of the page by their name without the suffix of counters.
fn listed(page: &str) -> BTreeMap<String, Metric> {
    let rows = page.lines().filter(|line| line.starts_with("| `"));
    let rows = rows.filter_map(|row| {
        let mut cells = row.trim_matches('|').split('|').map(str::trim);
        let name = cells.next()?.trim_matches('`');
        let kind = cells.next()?.to_owned();
        let labels = cells
            .next()?
            .split(", ")
            .map(|label| label.trim_matches('`').to_owned());
        let labels = labels.filter(|label| !label.is_empty()).collect();
        let family = name.strip_suffix("_total").unwrap_or(name).to_owned();
        Some((family, Metric { kind, labels }))
    });
    rows.collect()
}

fn faults(listed: &BTreeMap<String, Metric>, scrape: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let mut family: Option<(&str, &Metric)> = None;
    for line in scrape.lines() {
        if let Some((name, kind)) = line.strip_prefix("# TYPE ").and_then(|rest| rest.split_once(' ')) {
            family = listed.get(name).map(|metric| (name, metric));
            match family {
                None => faults.push(format!("{name} is not listed")),
                Some((_, metric)) if metric.kind != kind => faults.push(format!("{name} is a {kind}")),
                Some(_) => {}
            }
        } else if let Some((name, metric)) = family.filter(|_| !line.starts_with('#')) {
            let labels = labels(line);
            if labels != metric.labels {
                faults.push(format!("{name} has the labels {labels:?}"));
            }
        }
    }
    faults.dedup();
    faults
}

/// The names of the labels of a sample; the bound of a bucket is none.
fn labels(sample: &str) -> BTreeSet<String> {
    let Some((_, rest)) = sample.split_once('{') else {
        return BTreeSet::new();
    };
    // Values come from code, so they hold no quote and no comma before a name.
    let names = rest.split('"').step_by(2).filter_map(|part| {
        let name = part.trim_start_matches([',', '{']).strip_suffix('=')?;
        (name != "le").then(|| name.to_owned())
    });
    names.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: &str = "| metric | type | labels | meaning |\n|---|---|---|---|\n\
        | `trustplane_calls_total` | counter | `target`, `outcome` | calls |\n\
        | `trustplane_wait_seconds` | histogram | `queue` | waits |\n\
        | `process_open_fds` | gauge | | files |\n";

    fn of(scrape: &str) -> Vec<String> {
        faults(&listed(PAGE), scrape)
    }

    #[test]
    fn what_is_listed_as_it_is_passes() {
        let scrape = "# HELP trustplane_calls calls.\n# TYPE trustplane_calls counter\n\
            trustplane_calls_total{target=\"a{b}, c\",outcome=\"ok\"} 1\n\
            # TYPE trustplane_wait_seconds histogram\ntrustplane_wait_seconds_sum{queue=\"q\"} 0.1\n\
            trustplane_wait_seconds_bucket{le=\"0.1\",queue=\"q\"} 1\n\
            # TYPE process_open_fds gauge\nprocess_open_fds 7\n# EOF\n";
        assert_eq!(of(scrape), [""; 0]);
    }

    #[test]
    fn another_name_type_or_label_is_a_fault() {
        let scrape = "# TYPE trustplane_more counter\ntrustplane_more_total 1\n\
            # TYPE trustplane_calls gauge\ntrustplane_calls{target=\"a\"} 1\n";
        let wanted = [
            "trustplane_more is not listed",
            "trustplane_calls is a gauge",
            "trustplane_calls has the labels {\"target\"}",
        ];
        assert_eq!(of(scrape), wanted);
    }
}
