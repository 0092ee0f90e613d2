//! Hearing at once when something happens in kubelet's directory.

use std::io;
use std::path::Path;

use futures::StreamExt;
use inotify::{EventMask, Inotify, WatchMask};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use trustplane_api::deviceplugin::KUBELET_SOCKET;

/// How often something happened.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Woken {
    /// Anything.
    pub(super) any: u64,
    /// Kubelet made its socket.
    pub(super) kubelet: u64,
}

/// Listens until it is told to stop. Without it everything works, but later: sockets are looked at now and then anyway.
pub(super) fn start(dir: &Path, tasks: &mut JoinSet<()>, stop: &CancellationToken) -> watch::Receiver<Woken> {
    let sender = watch::Sender::default();
    let woken = sender.subscribe();
    let stop = stop.child_token();
    match listen(dir) {
        Ok(events) => {
            tasks.spawn(follow(events, sender, stop));
        }
        Err(error) => {
            tracing::info!(%error, dir = %dir.display(), "cannot listen for changes of the directory");
            // Whoever waits for it must not find it closed.
            tasks.spawn(async move {
                stop.cancelled().await;
                drop(sender);
            });
        }
    }
    woken
}

type Stream = inotify::EventStream<[u8; 4096]>;

fn listen(dir: &Path) -> io::Result<Stream> {
    let inotify = Inotify::init()?;
    let changes = WatchMask::CREATE | WatchMask::DELETE | WatchMask::MOVED_TO | WatchMask::MOVED_FROM;
    inotify.watches().add(dir, changes)?;
    inotify.into_event_stream([0; 4096])
}

async fn follow(mut events: Stream, sender: watch::Sender<Woken>, stop: CancellationToken) {
    loop {
        let event = tokio::select! {
            () = stop.cancelled() => return,
            event = events.next() => event,
        };
        let Some(Ok(event)) = event else {
            tracing::warn!("no longer hears of changes of kubelet's directory");
            stop.cancelled().await;
            return;
        };
        let made = event.mask.intersects(EventMask::CREATE | EventMask::MOVED_TO);
        let overrun = event.mask.contains(EventMask::Q_OVERFLOW);
        let kubelet = made && event.name.as_deref().is_some_and(|name| name == KUBELET_SOCKET);
        sender.send_modify(|woken| {
            woken.any += 1;
            woken.kubelet += u64::from(kubelet || overrun);
        });
    }
}
