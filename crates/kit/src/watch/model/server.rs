//! An API server in a few lines: objects, a log, lists by stream and by page, watches, compaction, and faults.

use std::collections::{BTreeMap, VecDeque};

use super::{Reason, View};

/// Names to uids and versions.
type State = BTreeMap<u8, (u64, u64)>;

pub(super) struct Server {
    streams: bool,
    version: u64,
    compacted: u64,
    objects: State,
    log: Vec<(u64, String)>,
    /// What there was after each version.
    past: BTreeMap<u64, State>,
    /// How far back the next lists are.
    behind: u64,
}

impl Server {
    pub(super) fn new(streams: bool) -> Self {
        let past = [(10, State::new())].into();
        Self {
            streams,
            version: 10,
            compacted: 0,
            objects: State::new(),
            log: Vec::new(),
            past,
            behind: 0,
        }
    }

    fn record(&mut self, kind: &str, name: u8, uid: u64) {
        self.log
            .push((self.version, event(kind, &item(name, uid, self.version))));
        self.past.insert(self.version, self.objects.clone());
    }

    pub(super) fn write(&mut self, name: u8) {
        self.version += 1;
        let known = self.objects.get(&name).copied();
        let uid = known.map_or(self.version, |(uid, _)| uid);
        self.objects.insert(name, (uid, self.version));
        self.record(if known.is_some() { "MODIFIED" } else { "ADDED" }, name, uid);
    }

    pub(super) fn delete(&mut self, name: u8) {
        if let Some((uid, _)) = self.objects.remove(&name) {
            self.version += 1;
            self.record("DELETED", name, uid);
        }
    }

    pub(super) fn compact(&mut self) {
        self.compacted = self.version;
    }

    pub(super) fn serve_past(&mut self, back: u8) {
        self.behind = back.into();
    }

    pub(super) fn truth(&self) -> View {
        let show = |(name, (uid, version)): (&u8, &(u64, u64))| {
            (format!("n{name}"), (uid.to_string(), version.to_string()))
        };
        self.objects.iter().map(show).collect()
    }

    /// The version that lists show at the moment.
    fn list_version(&self) -> u64 {
        (self.version - self.behind.min(self.version - 10)).max(10)
    }

    pub(super) fn stream(&self) -> Result<Connection, Reason> {
        if !self.streams {
            return Err(Reason::Rejected);
        }
        let version = self.list_version();
        let items = self.past[&version].iter();
        let mut lines: VecDeque<_> = items
            .map(|(name, (uid, version))| event("ADDED", &item(*name, *uid, *version)))
            .collect();
        lines.push_back(event("BOOKMARK", &format!(
            r#"{{"metadata":{{"resourceVersion":"{version}","annotations":{{"k8s.io/initial-events-end":"true"}}}}}}"#
        )));
        Ok(Connection {
            cursor: version,
            lines,
            overtaken: None,
        })
    }

    pub(super) fn watch(&self, from: &str) -> Result<Connection, Reason> {
        let cursor = from.parse().map_err(|_| Reason::Rejected)?;
        if cursor < self.compacted {
            return Err(Reason::Expired);
        }
        Ok(Connection {
            cursor,
            lines: VecDeque::new(),
            overtaken: None,
        })
    }

    /// A page; the token says the version of the list and the first name of the next page.
    pub(super) fn page(&self, token: Option<&str>, size: u32) -> Result<String, Reason> {
        let (version, first) = match token.and_then(|token| token.split_once('/')) {
            Some((version, first)) => (version.parse().unwrap(), first.parse().unwrap()),
            None => (self.list_version(), 0),
        };
        if token.is_some() && version < self.compacted {
            return Err(Reason::Expired);
        }
        let mut rest = self.past[&version].range(first..).peekable();
        let items = rest.by_ref().take(size as usize);
        let items: Vec<_> = items
            .map(|(name, (uid, version))| item(*name, *uid, *version))
            .collect();
        let next = rest
            .peek()
            .map_or(String::new(), |(name, _)| format!("{version}/{name}"));
        Ok(format!(
            r#"{{"metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{}]}}"#,
            items.join(",")
        ))
    }
}

fn item(name: u8, uid: u64, version: u64) -> String {
    format!(
        r#"{{"metadata":{{"name":"n{name}","namespace":"ns","uid":"{uid}","resourceVersion":"{version}"}}}}"#
    )
}

fn event(kind: &str, object: &str) -> String {
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

/// An open watch and the lines on their way.
pub(super) struct Connection {
    cursor: u64,
    lines: VecDeque<String>,
    /// The event that should have come before the last one.
    overtaken: Option<String>,
}

impl Connection {
    /// Puts what the server has to say on its way.
    pub(super) fn fetch(&mut self, server: &Server) {
        let new = server.log.iter().filter(|(version, _)| *version > self.cursor);
        self.lines.extend(new.map(|(_, line)| line.clone()));
        self.cursor = self.cursor.max(server.version);
    }

    pub(super) fn next_line(&mut self) -> Option<String> {
        let line = self.lines.pop_front();
        if line == self.overtaken {
            self.overtaken = None;
        }
        line
    }

    pub(super) fn is_between_swapped(&self) -> bool {
        self.overtaken.is_some()
    }

    pub(super) fn duplicate(&mut self) {
        if let Some(line) = self.lines.front().cloned() {
            self.lines.push_front(line);
        }
    }

    /// Swaps the next two events. Those of a list have no order, and its end is not an event.
    pub(super) fn reorder(&mut self) {
        let is_event = |line: Option<&String>| line.is_some_and(|line| !line.contains("BOOKMARK"));
        if is_event(self.lines.front()) && is_event(self.lines.get(1)) {
            self.lines.swap(0, 1);
            self.overtaken = self.lines.get(1).cloned();
        }
    }

    pub(super) fn lose(&mut self) -> bool {
        let is_event = self.lines.front().is_some_and(|line| !line.contains("BOOKMARK"));
        is_event && self.lines.pop_front().is_some()
    }
}
