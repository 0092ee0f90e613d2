//! Times as the database keeps them: milliseconds since 1970.

use jiff::Timestamp;

/// Milliseconds since 1970.
pub type Millis = i64;

/// One second.
pub const SECOND: Millis = 1_000;
/// One minute.
pub const MINUTE: Millis = 60 * SECOND;
/// One hour.
pub const HOUR: Millis = 60 * MINUTE;
/// One day.
pub const DAY: Millis = 24 * HOUR;

/// As RFC 3339 in UTC, with seconds.
pub fn text(at: Millis) -> String {
    let at = Timestamp::from_millisecond(at).unwrap_or_default();
    at.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()
}

/// Reads RFC 3339. `None` for text that is no time, and for years before 1970: Go writes the year 1 for a time that is not set.
pub fn read(text: &str) -> Option<Millis> {
    let at: Timestamp = text.parse().ok()?;
    Some(at.as_millisecond()).filter(|at| *at > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_with_seconds_in_utc() {
        assert_eq!(text(1_700_000_000_999), "2023-11-14T22:13:20Z");
        assert_eq!(read("2023-11-14T23:13:20+01:00"), Some(1_700_000_000_000));
    }

    #[test]
    fn unset_times_of_go_are_no_times() {
        assert_eq!(read("0001-01-01T00:00:00Z"), None);
        assert_eq!(read("yesterday"), None);
    }
}
