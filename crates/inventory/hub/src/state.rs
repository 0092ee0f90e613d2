//! How a cluster does, judged by when it was last heard of.

use serde::Serialize;
use utoipa::ToSchema;

use crate::time::{MINUTE, Millis, SECOND};

/// How often agents send a heartbeat until their own interval is learned: the default of the original.
pub const DEFAULT_HEARTBEAT: Millis = 5 * MINUTE;
/// Added to two heartbeats before a cluster counts as stale.
pub const STALE_GRACE: Millis = 30 * SECOND;
/// After this silence a cluster counts as disconnected.
pub const DISCONNECTED_AFTER: Millis = 15 * MINUTE;
/// How many heartbeats are remembered to learn their interval.
pub const HEARTBEATS_KEPT: usize = 9;

/// Whether the data of a cluster is current.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ClusterState {
    /// Registered and never heard of.
    Pending,
    /// In contact.
    Connected,
    /// Silent for longer than two heartbeats and [`STALE_GRACE`].
    Stale,
    /// Silent for longer than [`DISCONNECTED_AFTER`].
    Disconnected,
}

impl ClusterState {
    /// Whether what is known of the cluster may be out of date.
    pub fn is_stale(self) -> bool {
        matches!(self, Self::Stale | Self::Disconnected)
    }
}

/// What the state of a cluster is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contact {
    /// When the cluster was registered.
    pub registered: Millis,
    /// The last request of its agent that was accepted.
    pub last: Option<Millis>,
    /// Since when there was no longer silence.
    pub connected_since: Option<Millis>,
    /// The interval of its heartbeats, if it is known.
    pub heartbeat: Option<Millis>,
}

/// The state of a cluster at `now`, and since when it is in that state.
pub fn judge(contact: Contact, now: Millis) -> (ClusterState, Millis) {
    let Some(last) = contact.last else {
        return (ClusterState::Pending, contact.registered);
    };
    let stale_after = stale_after(contact.heartbeat);
    // An agent with rare heartbeats is not disconnected before it counts as stale.
    let disconnected_after = DISCONNECTED_AFTER.max(stale_after);
    let silence = now.saturating_sub(last);
    if silence > disconnected_after {
        (ClusterState::Disconnected, last + disconnected_after)
    } else if silence > stale_after {
        (ClusterState::Stale, last + stale_after)
    } else {
        (ClusterState::Connected, contact.connected_since.unwrap_or(last))
    }
}

fn stale_after(heartbeat: Option<Millis>) -> Millis {
    2 * heartbeat.unwrap_or(DEFAULT_HEARTBEAT) + STALE_GRACE
}

/// The median gap between heartbeats, oldest first; `None` for fewer than two gaps.
pub fn heartbeat_interval(heartbeats: &[Millis]) -> Option<Millis> {
    let mut gaps: Vec<Millis> = heartbeats
        .windows(2)
        .filter_map(|pair| match pair {
            [earlier, later] => Some(later.saturating_sub(*earlier)),
            _ => None,
        })
        .collect();
    if gaps.len() < 2 {
        return None;
    }
    gaps.sort_unstable();
    gaps.get(gaps.len() / 2).copied().filter(|gap| *gap > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Millis = 1_000_000_000;

    fn contact(last: Option<Millis>, heartbeat: Option<Millis>) -> Contact {
        Contact {
            registered: 1,
            last,
            connected_since: last.map(|_| 7),
            heartbeat,
        }
    }

    #[test]
    fn a_cluster_is_pending_until_it_is_heard_of() {
        assert_eq!(judge(contact(None, None), NOW), (ClusterState::Pending, 1));
    }

    #[test]
    fn silence_makes_a_cluster_stale_then_disconnected() {
        let heartbeat = Some(60 * SECOND);
        let stale = 150 * SECOND;
        let at = |silence| judge(contact(Some(NOW - silence), heartbeat), NOW);
        assert_eq!(at(stale), (ClusterState::Connected, 7));
        assert_eq!(at(stale + 1), (ClusterState::Stale, NOW - 1));
        assert_eq!(
            at(DISCONNECTED_AFTER),
            (ClusterState::Stale, NOW - DISCONNECTED_AFTER + stale)
        );
        assert_eq!(at(DISCONNECTED_AFTER + 1), (ClusterState::Disconnected, NOW - 1));
    }

    #[test]
    fn rare_heartbeats_do_not_disconnect_a_cluster() {
        let hourly = Some(60 * MINUTE);
        let silent = judge(contact(Some(NOW - 119 * MINUTE), hourly), NOW);
        assert_eq!(silent.0, ClusterState::Connected);
    }

    #[test]
    fn without_a_known_interval_five_minutes_are_assumed() {
        let silent = |silence| judge(contact(Some(NOW - silence), None), NOW).0;
        assert_eq!(silent(10 * MINUTE + STALE_GRACE), ClusterState::Connected);
        assert_eq!(silent(10 * MINUTE + STALE_GRACE + 1), ClusterState::Stale);
    }

    #[test]
    fn the_interval_is_the_median_gap() {
        assert_eq!(heartbeat_interval(&[]), None);
        assert_eq!(heartbeat_interval(&[0, 60]), None);
        assert_eq!(heartbeat_interval(&[0, 60, 120, 5_000, 5_060]), Some(60));
        assert_eq!(heartbeat_interval(&[5, 5, 5]), None, "a burst teaches nothing");
    }
}
