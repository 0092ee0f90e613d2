//! The same service on a socket beside the token's lock, for processes of our own user.

use std::convert::Infallible;
use std::fs::{Permissions, rename, set_permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use futures::Stream;
use futures::stream::unfold;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::{ACCEPT_PAUSE, router};
use crate::health::Health;
use crate::hold::{Place, remove};
use crate::service::Service;

/// Serves the socket of the token whenever the token is served, which is when it is ours to hold. Without it the tool cannot
/// ask, and nothing else is worse.
pub async fn serve_local(
    service: Arc<Service>,
    mut health: watch::Receiver<Health>,
    runtime: PathBuf,
    stop: CancellationToken,
) {
    loop {
        let token = tokio::select! {
            () = stop.cancelled() => return,
            served = health.wait_for(Health::is_serving) => match served {
                Ok(health) => health.token.clone(),
                Err(_) => return,
            },
        };
        let Some(token) = token else { return };
        let socket = Place::of(&runtime, &token).socket();
        let mut until = health.clone();
        let over = async {
            tokio::select! {
                () = stop.cancelled() => {}
                // If nobody knows any more, it is over too.
                _ = until.wait_for(|health| !health.is_serving()) => {}
            }
        };
        let served = match bind(&socket) {
            Ok(listener) => {
                let served =
                    router(service.clone()).serve_with_incoming_shutdown(connections(listener), over);
                served.await.map_err(|error| error.to_string())
            }
            Err(error) => {
                over.await;
                Err(error.to_string())
            }
        };
        if let Err(error) = served {
            tracing::warn!(socket = %socket.display(), error, "the token's socket was not served");
        }
    }
}

/// Listens in place of whoever has left a socket there. The file is whole from the start, and nobody else's from the start.
fn bind(socket: &Path) -> io::Result<UnixListener> {
    let beside = socket.with_extension(format!("sock.{}", std::process::id()));
    remove(&beside)?;
    let listener = UnixListener::bind(&beside)?;
    set_permissions(&beside, Permissions::from_mode(0o600))?;
    rename(&beside, socket)?;
    Ok(listener)
}

/// Connections of our own user. An error of the listener is no end.
fn connections(listener: UnixListener) -> impl Stream<Item = Result<UnixStream, Infallible>> {
    unfold(listener, |listener| async move {
        loop {
            match listener.accept().await {
                Ok((stream, _)) if is_ours(&stream) => return Some((Ok(stream), listener)),
                Ok(_) => tracing::warn!("another user wanted to speak to the token, and was not let in"),
                Err(error) => {
                    tracing::warn!(%error, "cannot accept connections");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    })
}

/// Whether it is our own user, or root, on the other side.
pub(crate) fn is_ours(stream: &UnixStream) -> bool {
    let us = rustix::process::geteuid().as_raw();
    stream.peer_cred().is_ok_and(|peer| [us, 0].contains(&peer.uid()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_that_was_left_is_replaced_and_is_for_its_own_user() {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("token.sock");
        drop(bind(&socket).unwrap());
        assert!(UnixStream::connect(&socket).await.is_err(), "nobody listens");
        let listener = bind(&socket).unwrap();
        let mode = std::fs::metadata(&socket).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let stream = UnixStream::connect(&socket).await.unwrap();
        assert!(is_ours(&stream) && is_ours(&listener.accept().await.unwrap().0));
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().collect();
        assert_eq!(left.len(), 1);
    }
}
