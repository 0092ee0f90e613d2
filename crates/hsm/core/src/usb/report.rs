//! What a node says of its devices, and when.

use std::time::Duration;

use jiff::Timestamp;
use trustplane_api::hsm::{DeviceReport, DiscoveryStatus, ReportedDevice};

use super::Tracked;

/// The most bytes of a report. All annotations of an object share 256 KiB.
pub const LARGEST: usize = 64 * 1024;
/// The most characters of an error in a report.
const LONGEST_ERROR: usize = 512;
/// The least time between two reports, however fast devices come and go.
const SPACING: Duration = Duration::from_secs(1);

/// Whose report it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reporter {
    /// The HSMDevice.
    pub device: String,
    /// The node.
    pub node: String,
}

/// How the looks went.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Look {
    /// There was none yet.
    #[default]
    None,
    /// All was seen.
    Done,
    /// It failed, and what is known is from before.
    Failed(String),
}

impl Reporter {
    /// The report of what is known, and of how many devices are not used because there are too many. It has no time yet, so that two that say the same are the same.
    pub fn report(&self, devices: &[Tracked], left_out: usize, look: &Look) -> DeviceReport {
        let more = || format!("{left_out} more tokens are there than maxDevices allows, and are not used");
        let (discovery_status, error) = match look {
            Look::None => (DiscoveryStatus::Discovering, None),
            Look::Done => (DiscoveryStatus::Completed, (left_out > 0).then(more)),
            Look::Failed(error) => {
                let error = error.chars().take(LONGEST_ERROR).collect();
                (DiscoveryStatus::Error, Some(error))
            }
        };
        DeviceReport {
            hsm_device_name: self.device.clone(),
            reporting_node: Some(self.node.clone()),
            discovered_devices: devices.iter().map(|device| device.reported(&self.node)).collect(),
            last_report_time: None,
            discovery_status,
            error,
        }
    }

    /// The tokens of an earlier report of ours. Others may have been at it: what is too large, is for somebody else or names no device
    /// file was not written by us.
    pub fn recall(&self, text: &str) -> Option<Vec<ReportedDevice>> {
        let read = |text| serde_json::from_str::<DeviceReport>(text).ok();
        let report = read(text).filter(|_| text.len() <= LARGEST)?;
        let is_ours =
            report.hsm_device_name == self.device && report.reporting_node.as_deref() == Some(&self.node);
        let is_file = |device: &ReportedDevice| {
            let path = &device.device_path;
            path.starts_with("/dev/") && path.split('/').all(|step| step != "..")
        };
        let devices = report.discovered_devices;
        is_ours.then(|| devices.into_iter().filter(is_file).collect())
    }
}

/// A report as it is written, with its time. Of too many devices the last are left out, and the report says so.
pub fn written(report: &DeviceReport, now: Timestamp) -> Result<String, serde_json::Error> {
    let mut report = DeviceReport {
        last_report_time: Some(now),
        ..report.clone()
    };
    let all = report.discovered_devices.len();
    loop {
        let text = serde_json::to_string(&report)?;
        let kept = report.discovered_devices.len();
        if text.len() <= LARGEST || kept == 0 {
            return Ok(text);
        }
        // In steps, so that even thousands take few tries.
        report.discovered_devices.truncate(kept - kept.div_ceil(16));
        let left_out = all - report.discovered_devices.len();
        report.error = Some(format!("{left_out} of {all} devices do not fit into the report"));
    }
}

/// When reports are written: at once when something is different, and as a sign of life at each third of the grace period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cadence {
    beat: Duration,
}

impl Cadence {
    /// For a grace period.
    pub fn new(grace: Duration) -> Self {
        Self {
            beat: (grace / 3).max(SPACING),
        }
    }

    /// How long to wait before the next report: the last one is so old, and says the same as the next one or not.
    pub fn wait(&self, last: Option<Duration>, different: bool) -> Duration {
        let Some(age) = last else {
            return Duration::ZERO;
        };
        let period = if different { SPACING } else { self.beat };
        period.saturating_sub(age)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tracked(serial: &str, available: bool) -> Tracked {
        let mut tracked =
            crate::examples::tracked(Some(serial), &format!("/dev/{serial}"), available, 1_000_000_000);
        tracked.found.info = [("product".to_owned(), "P".to_owned())].into();
        tracked
    }

    fn reporter() -> Reporter {
        Reporter {
            device: "pico".to_owned(),
            node: "n1".to_owned(),
        }
    }

    #[test]
    fn a_report_has_the_shape_that_the_original_reads() {
        let report = reporter().report(&[tracked("a1", true), tracked("b2", false)], 0, &Look::Done);
        let text = written(&report, Timestamp::from_second(1_000_060).unwrap()).unwrap();
        let device = |serial: &str, available: bool| {
            format!(
                r#"{{"devicePath":"/dev/{serial}","serialNumber":"{serial}","nodeName":"n1","lastSeen":"1970-01-12T13:46:40Z","available":{available},"deviceInfo":{{"product":"P"}},"resourceName":"hsm.j5t.io/token-{serial}"}}"#
            )
        };
        let wanted = format!(
            r#"{{"hsmDeviceName":"pico","reportingNode":"n1","discoveredDevices":[{},{}],"lastReportTime":"1970-01-12T13:47:40Z","discoveryStatus":"completed"}}"#,
            device("a1", true),
            device("b2", false)
        );
        assert_eq!(text, wanted);
    }

    #[test]
    fn only_what_we_have_reported_is_recalled() {
        let report = reporter().report(&[tracked("a1", true), tracked("b2", false)], 0, &Look::Done);
        let text = written(&report, Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(reporter().recall(&text), Some(report.discovered_devices.clone()));
        let without_node = text.replace(r#""reportingNode":"n1","#, "");
        let long = format!("{text}{}", " ".repeat(LARGEST));
        for other in [
            &text.replace("pico", "nano"),
            &text.replace(r#""reportingNode":"n1""#, r#""reportingNode":"n2""#),
            &without_node,
            &long,
            "",
        ] {
            assert_eq!(reporter().recall(other), None, "{other:.60}");
        }
        for path in ["/etc/shadow", "/dev/../etc", "dev/a1", ""] {
            let recalled = reporter().recall(&text.replace("/dev/a1", path));
            assert_eq!(recalled, Some(report.discovered_devices[1..].to_vec()), "{path}");
        }
    }

    #[test]
    fn a_look_that_failed_is_told_with_what_is_known() {
        let error = "x".repeat(5000);
        let report = reporter().report(&[tracked("a", true)], 2, &Look::Failed(error));
        assert_eq!(report.discovery_status, DiscoveryStatus::Error);
        assert_eq!(report.error.map(|error| error.len()), Some(LONGEST_ERROR));
        assert_eq!(report.discovered_devices.len(), 1);
        let none = reporter().report(&[], 0, &Look::None);
        assert_eq!(none.discovery_status, DiscoveryStatus::Discovering);
    }

    #[test]
    fn tokens_beyond_the_limit_are_told_in_a_report_that_counts() {
        let report = reporter().report(&[tracked("a", true)], 2, &Look::Done);
        let told = "2 more tokens are there than maxDevices allows, and are not used";
        assert_eq!(report.error.as_deref(), Some(told));
        assert_eq!(report.discovery_status, DiscoveryStatus::Completed);
    }

    #[test]
    fn a_report_is_never_too_large() {
        let many: Vec<_> = (0..5000).map(|n| tracked(&format!("{n:0100}"), true)).collect();
        let text = written(&reporter().report(&many, 0, &Look::Done), Timestamp::UNIX_EPOCH).unwrap();
        assert!(text.len() <= LARGEST);
        let report: DeviceReport = serde_json::from_str(&text).unwrap();
        let kept = report.discovered_devices.len();
        assert!(kept > 100, "{kept}");
        let told = format!("{} of 5000 devices do not fit into the report", 5000 - kept);
        assert_eq!(report.error, Some(told));
    }

    #[test]
    fn changes_are_written_at_once_and_signs_of_life_rarely() {
        let cadence = Cadence::new(Duration::from_secs(300));
        let seconds = Duration::from_secs;
        assert_eq!(cadence.wait(None, true), Duration::ZERO);
        assert_eq!(cadence.wait(Some(seconds(5)), true), Duration::ZERO);
        assert_eq!(cadence.wait(Some(Duration::ZERO), true), SPACING);
        assert_eq!(cadence.wait(Some(seconds(5)), false), seconds(95));
        assert_eq!(cadence.wait(Some(seconds(100)), false), Duration::ZERO);
        assert_eq!(
            Cadence::new(Duration::ZERO).wait(Some(Duration::ZERO), false),
            SPACING
        );
    }
}
