//! Notices when files change that were asked for, by inotify on their directories.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::fs::File;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::StreamExt;
use futures::stream::{BoxStream, unfold};
use inotify::{EventMask, EventOwned, Inotify, WatchDescriptor, WatchMask, Watches};
use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};

/// How many paths are looked after; more are found by looking again only.
const MOST_PATHS: usize = 4096;
/// Room for the events of one read.
const BUFFER: usize = 4096;

/// Watches the directories of files. A cheap clone.
#[derive(Clone)]
pub(super) struct Changes(Arc<Inner>);

struct Inner {
    watches: Watches,
    paths: Mutex<HashMap<WatchDescriptor, BTreeSet<String>>>,
    /// Taken by the one who listens.
    inotify: Mutex<Option<Inotify>>,
}

impl Changes {
    pub fn new() -> std::io::Result<Self> {
        let inotify = Inotify::init()?;
        Ok(Self(Arc::new(Inner {
            watches: inotify.watches(),
            paths: Mutex::default(),
            inotify: Mutex::new(Some(inotify)),
        })))
    }

    /// Looks after a path in a folder beneath the root: every directory on the way to it, and itself if it is one. What is not
    /// there yet shows by a change of the directory that it will be in.
    pub fn look_after(&self, root: &File, folder: &str, path: &str) {
        let whole = super::join(folder, path);
        let ends = whole.match_indices('/').map(|(end, _)| end);
        let ways = ends.filter_map(|end| whole.get(..end)).chain([whole.as_str()]);
        self.look_at(root, ".", path);
        for way in ways {
            self.look_at(root, way, path);
        }
    }

    fn look_at(&self, root: &File, directory: &str, path: &str) {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // What a link of kubelet's leads to changes with `..data`, which is in a directory on the way.
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::NO_SYMLINKS;
        let Ok(directory) = openat2(root, directory, flags, Mode::empty(), resolve) else {
            return;
        };
        // The descriptor is the directory, whatever its name leads to by now.
        let name = format!("/proc/self/fd/{}", directory.as_raw_fd());
        let events = WatchMask::CLOSE_WRITE
            | WatchMask::CREATE
            | WatchMask::DELETE
            | WatchMask::MOVE
            | WatchMask::ONLYDIR;
        let mut paths = self.lock();
        if paths.values().map(BTreeSet::len).sum::<usize>() >= MOST_PATHS {
            return;
        }
        if let Ok(watch) = self.0.watches.clone().add(name, events) {
            paths.entry(watch).or_default().insert(path.to_owned());
        }
    }

    /// The paths that change, as they do. There is one listener.
    pub fn stream(&self) -> Option<BoxStream<'static, String>> {
        let mut inotify = self.0.inotify.lock().unwrap_or_else(PoisonError::into_inner);
        let events = inotify.take()?.into_event_stream(vec![0; BUFFER]).ok()?;
        let state = (self.clone(), events, VecDeque::new());
        Some(Box::pin(unfold(
            state,
            |(changes, mut events, mut waiting)| async move {
                loop {
                    if let Some(path) = waiting.pop_front() {
                        return Some((path, (changes, events, waiting)));
                    }
                    let event = events.next().await?.ok()?;
                    waiting.extend(changes.concerned(event));
                }
            },
        )))
    }

    /// The paths that an event may be about.
    fn concerned(&self, event: EventOwned) -> BTreeSet<String> {
        let mut paths = self.lock();
        if event.mask.contains(EventMask::Q_OVERFLOW) {
            return paths.values().flatten().cloned().collect();
        }
        if event.mask.contains(EventMask::IGNORED) {
            paths.remove(&event.wd);
            return BTreeSet::new();
        }
        // A file that was only just created is about to be written.
        if event.mask.contains(EventMask::CREATE) && !event.mask.contains(EventMask::ISDIR) {
            return BTreeSet::new();
        }
        paths.get(&event.wd).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<WatchDescriptor, BTreeSet<String>>> {
        self.0.paths.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
