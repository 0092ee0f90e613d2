//! Ports for daemons: outside the range that the kernel hands to outgoing connections, so that nothing takes a port
//! between the moment it was found free and the moment its daemon binds it.

use std::fs;
use std::net::{Ipv4Addr, TcpListener};
use std::ops::RangeInclusive;

use anyhow::{Context, Result};

const CANDIDATES: RangeInclusive<u16> = 20000..=32000;

/// Finds `N` free ports that are not in `taken`.
pub(crate) fn free<const N: usize>(taken: &[u16]) -> Result<[u16; N]> {
    let ephemeral = ephemeral_range()?;
    // Caches do not know each other's reservations, so different processes start their search at different places.
    let width = u32::from(CANDIDATES.end() - CANDIDATES.start());
    let start = CANDIDATES.start() + u16::try_from(std::process::id().wrapping_mul(64) % width)?;
    let found: Vec<u16> = (start..=*CANDIDATES.end())
        .chain(*CANDIDATES.start()..start)
        .filter(|port| !ephemeral.contains(port) && !taken.contains(port))
        .filter(|port| TcpListener::bind((Ipv4Addr::UNSPECIFIED, *port)).is_ok())
        .take(N)
        .collect();
    found
        .try_into()
        .ok()
        .with_context(|| format!("find {N} free ports in {CANDIDATES:?}"))
}

fn ephemeral_range() -> Result<RangeInclusive<u16>> {
    let text = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").context("read the port range")?;
    parse_range(&text).with_context(|| format!("understand the port range {text:?}"))
}

fn parse_range(text: &str) -> Option<RangeInclusive<u16>> {
    let mut fields = text.split_ascii_whitespace().map(str::parse);
    Some(fields.next()?.ok()?..=fields.next()?.ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_different_free_and_not_taken() {
        let first: [u16; 3] = free(&[]).unwrap();
        assert!(first[0] != first[1] && first[1] != first[2] && first[0] != first[2]);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, first[0])).unwrap();
        let second: [u16; 3] = free(&first[1..]).unwrap();
        drop(listener);
        assert!(
            first.iter().all(|port| !second.contains(port)),
            "{first:?} {second:?}"
        );
    }

    #[test]
    fn the_kernels_range_is_understood() {
        assert_eq!(parse_range("32768\t60999\n"), Some(32768..=60999));
        assert_eq!(parse_range("one"), None);
    }
}
