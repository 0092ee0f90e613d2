//! Durations as Go prints them.

use std::fmt::Write as _;
use std::time::Duration;

use trustplane_api::duration::parse_go_duration;

/// A duration of a spec as Go prints it: `24h` becomes `24h0m0s`. What is no duration stays as it is; [`crate::check`] reports it.
pub fn go_duration(text: &str) -> String {
    parse_go_duration(text).map_or_else(|| text.to_owned(), print)
}

fn print(duration: Duration) -> String {
    if duration.is_zero() {
        return "0s".to_owned();
    }
    if duration < Duration::from_secs(1) {
        let nanos = duration.subsec_nanos();
        let (unit, size) = match nanos {
            ..1_000 => ("ns", 1),
            1_000..1_000_000 => ("µs", 1_000),
            _ => ("ms", 1_000_000),
        };
        return format!(
            "{}{unit}",
            with_fraction(u64::from(nanos / size), nanos % size, size)
        );
    }
    let seconds = duration.as_secs();
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    let mut text = String::new();
    if hours > 0 {
        let _ = write!(text, "{hours}h");
    }
    if hours > 0 || minutes > 0 {
        let _ = write!(text, "{minutes}m");
    }
    let _ = write!(
        text,
        "{}s",
        with_fraction(seconds, duration.subsec_nanos(), 1_000_000_000)
    );
    text
}

/// `whole.part`, where `part` is of `size`, a power of ten; without the dot if there is no part.
fn with_fraction(whole: u64, part: u32, size: u32) -> String {
    if part == 0 {
        return whole.to_string();
    }
    let width = size.ilog10() as usize;
    format!("{whole}.{}", format!("{part:0width$}").trim_end_matches('0'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn durations_are_printed_as_go_prints_them() {
        for (written, printed) in [
            ("24h", "24h0m0s"),
            ("90m", "1h30m0s"),
            ("5m", "5m0s"),
            ("1m30.5s", "1m30.5s"),
            ("1500ms", "1.5s"),
            ("250ms", "250ms"),
            ("1.5ms", "1.5ms"),
            ("2us", "2µs"),
            ("7ns", "7ns"),
            ("0", "0s"),
            ("8760h", "8760h0m0s"),
            ("tomorrow", "tomorrow"),
        ] {
            assert_eq!(go_duration(written), printed, "{written}");
        }
    }

    proptest! {
        #[test]
        fn a_printed_duration_reads_as_the_same_duration(seconds in 0_u32..100_000_000, millis in 0_u64..1000) {
            let duration = Duration::from_secs(seconds.into()) + Duration::from_millis(millis);
            let read = parse_go_duration(&print(duration)).unwrap();
            let apart = read.abs_diff(duration);
            prop_assert!(apart < Duration::from_micros(1), "{} reads as {read:?}", print(duration));
        }
    }
}
