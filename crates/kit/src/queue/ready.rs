//! The keys that are due: lanes by priority, tenants in turn, first come first served within a tenant.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use strum::{EnumCount, IntoEnumIterator};

use super::{Key, Lane};

/// The place of a key in its lane; later places have larger numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Ticket(u64);

/// All keys that are due.
#[derive(Debug)]
pub(super) struct Ready<K> {
    lanes: [Line<K>; Lane::COUNT],
    /// How often each lane had a key and was passed over since it was last served.
    passed: [u32; Lane::COUNT],
    turns: u32,
    tickets: u64,
}

impl<K: Key> Ready<K> {
    pub(super) fn new(turns: u32) -> Self {
        Self {
            lanes: std::array::from_fn(|_| Line::default()),
            passed: [0; Lane::COUNT],
            turns: turns.max(Lane::COUNT as u32),
            tickets: 0,
        }
    }

    pub(super) fn insert(&mut self, lane: Lane, key: K) -> Ticket {
        self.tickets += 1;
        let ticket = Ticket(self.tickets);
        self.lanes[lane as usize].insert(ticket, key);
        ticket
    }

    pub(super) fn remove(&mut self, lane: Lane, key: &K, ticket: Ticket) {
        self.lanes[lane as usize].remove(key.tenant(), ticket);
    }

    pub(super) fn take(&mut self) -> Option<K> {
        let lane = self.choose()?;
        for other in Lane::iter() {
            let passed = &mut self.passed[other as usize];
            let waits = other != lane && self.lanes[other as usize].len > 0;
            *passed = if waits { passed.saturating_add(1) } else { 0 };
        }
        self.lanes[lane as usize].take()
    }

    pub(super) fn depth(&self, lane: Lane) -> usize {
        self.lanes[lane as usize].len
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lanes.iter().all(|line| line.len == 0)
    }

    /// The most urgent lane, unless a lower one has waited for its share.
    fn choose(&self) -> Option<Lane> {
        let waiting = || Lane::iter().filter(|lane| self.depth(*lane) > 0);
        // Two lanes can come to their limit at once; the second is then served one turn later and still within its share.
        let limit = self.turns + 1 - Lane::COUNT as u32;
        let passed = |lane: &Lane| self.passed[*lane as usize];
        let overdue = waiting().filter(|lane| passed(lane) >= limit).max_by_key(passed);
        overdue.or_else(|| waiting().next())
    }
}

/// One lane: the tenants that have keys, in the order of their turns.
#[derive(Debug)]
struct Line<K> {
    turns: BTreeMap<u64, Arc<str>>,
    tenants: HashMap<Arc<str>, Tenant<K>>,
    next_turn: u64,
    len: usize,
}

#[derive(Debug)]
struct Tenant<K> {
    turn: u64,
    keys: BTreeMap<Ticket, K>,
}

impl<K> Default for Line<K> {
    fn default() -> Self {
        Self {
            turns: BTreeMap::new(),
            tenants: HashMap::new(),
            next_turn: 0,
            len: 0,
        }
    }
}

impl<K: Key> Line<K> {
    fn insert(&mut self, ticket: Ticket, key: K) {
        self.len += 1;
        if let Some(tenant) = self.tenants.get_mut(key.tenant()) {
            tenant.keys.insert(ticket, key);
            return;
        }
        let name: Arc<str> = key.tenant().into();
        let turn = self.enqueue(name.clone());
        self.tenants.insert(
            name,
            Tenant {
                turn,
                keys: BTreeMap::from([(ticket, key)]),
            },
        );
    }

    fn remove(&mut self, tenant: &str, ticket: Ticket) {
        let Some(entry) = self.tenants.get_mut(tenant) else {
            return;
        };
        if entry.keys.remove(&ticket).is_none() {
            return;
        }
        self.len -= 1;
        if entry.keys.is_empty() {
            self.turns.remove(&entry.turn);
            self.tenants.remove(tenant);
        }
    }

    fn take(&mut self) -> Option<K> {
        let (_, name) = self.turns.pop_first()?;
        let tenant = self.tenants.get_mut(&name)?;
        let (_, key) = tenant.keys.pop_first()?;
        self.len -= 1;
        if tenant.keys.is_empty() {
            self.tenants.remove(&name);
        } else {
            tenant.turn = self.next_turn;
            self.enqueue(name);
        }
        Some(key)
    }

    /// Puts a tenant behind all others.
    fn enqueue(&mut self, tenant: Arc<str>) -> u64 {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.turns.insert(turn, tenant);
        turn
    }
}

#[cfg(test)]
mod tests {
    use trustplane_plan::ObjectRef;

    use super::*;

    fn key(namespace: &str, name: impl ToString) -> ObjectRef {
        ObjectRef::new(Some(namespace), &name.to_string())
    }

    fn served(ready: &mut Ready<ObjectRef>, turns: usize) -> Vec<String> {
        (0..turns)
            .map_while(|_| ready.take())
            .map(|key| key.to_string())
            .collect()
    }

    #[test]
    fn tenants_take_turns_and_keep_their_order() {
        let mut ready = Ready::new(8);
        for name in 0..3 {
            ready.insert(Lane::Normal, key("big", name));
        }
        ready.insert(Lane::Normal, key("small", "x"));
        ready.insert(Lane::Normal, key("late", "y"));
        assert_eq!(
            served(&mut ready, 9),
            ["big/0", "small/x", "late/y", "big/1", "big/2"]
        );
    }

    #[test]
    fn a_removed_key_leaves_no_trace() {
        let mut ready = Ready::new(8);
        let ticket = ready.insert(Lane::Bulk, key("a", "x"));
        ready.remove(Lane::Bulk, &key("a", "x"), ticket);
        ready.remove(Lane::Bulk, &key("a", "x"), ticket);
        assert!(ready.is_empty());
        let line = &ready.lanes[Lane::Bulk as usize];
        assert!(line.turns.is_empty() && line.tenants.is_empty());
    }

    #[test]
    fn every_lane_gets_its_share_and_the_urgent_one_the_rest() {
        for share in [3_usize, 4, 5, 8, 20] {
            let mut ready = Ready::new(share as u32);
            for name in 0..200 {
                for lane in Lane::iter() {
                    ready.insert(lane, key(lane.as_str(), name));
                }
            }
            let served = served(&mut ready, 200);
            let turns_of = |lane: Lane| {
                let mine = served
                    .iter()
                    .enumerate()
                    .filter(|(_, name)| name.starts_with(lane.as_str()));
                mine.map(|(turn, _)| turn).collect::<Vec<_>>()
            };
            for lane in Lane::iter() {
                let turns = turns_of(lane);
                let gaps = turns
                    .windows(2)
                    .map(|pair| pair[1] - pair[0])
                    .chain([turns[0] + 1]);
                assert!(gaps.max() <= Some(share), "1 of {share}: {lane:?} {turns:?}");
            }
            let rest = (200 * (share - 3) / (share - 1)).max(200 / 3);
            assert!(turns_of(Lane::Urgent).len() >= rest, "1 of {share}");
        }
    }

    #[test]
    fn lanes_are_strict_below_the_share() {
        let mut ready = Ready::new(8);
        ready.insert(Lane::Bulk, key("a", "bulk"));
        ready.insert(Lane::Normal, key("a", "normal"));
        ready.insert(Lane::Urgent, key("a", "urgent"));
        assert_eq!(served(&mut ready, 3), ["a/urgent", "a/normal", "a/bulk"]);
    }
}
