//! Durations as Go writes them, which is how manifests of the united systems have them.

use std::time::Duration;

/// The longest duration of Go, about 292 years: as many nanoseconds as fit into an `i64`.
pub const LONGEST: Duration = Duration::from_nanos(i64::MAX.unsigned_abs());

/// Reads a duration as Go writes it, such as `1h15m30.5s`. `None` if it is none or negative. It may be longer than [`LONGEST`]: a caller
/// that adds it to a time has to bound it.
pub fn parse_go_duration(text: &str) -> Option<Duration> {
    if text == "0" {
        return Some(Duration::ZERO);
    }
    let mut rest = text;
    let mut total = 0.0_f64;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let (number, after) = rest.split_at(digits);
        let unit_end = after
            .find(|c: char| c.is_ascii_digit() || c == '.')
            .unwrap_or(after.len());
        let (unit, after) = after.split_at(unit_end);
        let seconds = match unit {
            "ns" => 1e-9,
            "us" | "µs" | "μs" => 1e-6,
            "ms" => 1e-3,
            "s" => 1.0,
            "m" => 60.0,
            "h" => 3600.0,
            _ => return None,
        };
        total += number.parse::<f64>().ok()? * seconds;
        rest = after;
    }
    let duration = Duration::try_from_secs_f64(total).ok();
    duration.filter(|_| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_go_writes_them() {
        for (text, seconds) in [
            ("5m", 300.0),
            ("1h15m30.5s", 4530.5),
            ("1500ms", 1.5),
            ("0", 0.0),
            (".5s", 0.5),
            ("99999999h", 99_999_999.0 * 3600.0),
        ] {
            assert_eq!(
                parse_go_duration(text),
                Some(Duration::from_secs_f64(seconds)),
                "{text}"
            );
        }
        for text in [
            "",
            "5",
            "abc",
            "-5s",
            "5d",
            "5m ",
            "1..5s",
            "s",
            "99999999999999999999h",
        ] {
            assert_eq!(parse_go_duration(text), None, "{text}");
        }
    }
}
