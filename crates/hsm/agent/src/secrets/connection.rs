//! The connection to an agent on this machine, over the socket beside the lock of its token.

use std::io;
use std::path::{Path, PathBuf};

use tokio::net::UnixStream;
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;
use trustplane_api::hsm::v1::hsm_agent_client::HsmAgentClient;

use crate::server::is_ours;

/// Calls to an agent.
pub(crate) type Client = HsmAgentClient<Channel>;

/// The size of the largest message: a list of many thousand secrets fits.
const LARGEST_MESSAGE: usize = 16 * 1024 * 1024;
/// How the names of the sockets begin and end.
const PREFIX: &str = "trustplane-token-";
const EXTENSION: &str = "sock";

/// Why no agent is connected.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ConnectError {
    /// The directory of the sockets cannot be read.
    #[error("look for the agent's socket in {}: {source}", .folder.display())]
    Folder {
        /// The directory.
        folder: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// No agent answers.
    #[error("no agent serves a token here: no socket in {} is answered", .folder.display())]
    Unserved {
        /// The directory.
        folder: PathBuf,
    },
    /// More than one agent answers.
    #[error("{count} agents serve tokens here, by sockets in {}: give each its own --runtime-dir", .folder.display())]
    Several {
        /// How many.
        count: usize,
        /// The directory.
        folder: PathBuf,
    },
}

/// Connects to the agent behind a socket; `None` if no process of our own user, or root, answers there.
pub(crate) async fn connect(socket: PathBuf) -> Option<Client> {
    let connect = service_fn(move |_| {
        let socket = socket.clone();
        async move {
            let stream = UnixStream::connect(socket).await?;
            // No secret is sent to a process of another user.
            match is_ours(&stream) {
                true => Ok(hyper_util::rt::TokioIo::new(stream)),
                false => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
            }
        }
    });
    let endpoint = Endpoint::from_static("http://agent");
    let channel = endpoint.connect_with_connector(connect).await.ok()?;
    let client = HsmAgentClient::new(channel);
    Some(
        client
            .max_encoding_message_size(LARGEST_MESSAGE)
            .max_decoding_message_size(LARGEST_MESSAGE),
    )
}

/// Connects to the one agent that serves a token by a socket in this directory.
///
/// **Caveats.** A socket stays when its agent ends: a socket that is not answered does not count.
pub(crate) async fn connect_to_only(folder: &Path) -> Result<Client, ConnectError> {
    let sockets = sockets(folder).map_err(|source| ConnectError::Folder {
        folder: folder.to_owned(),
        source,
    })?;
    let mut clients = Vec::new();
    for socket in sockets {
        clients.extend(connect(socket).await);
    }
    let count = clients.len();
    let folder = folder.to_owned();
    match (clients.pop(), count) {
        (Some(client), 1) => Ok(client),
        (None, _) => Err(ConnectError::Unserved { folder }),
        (Some(_), count) => Err(ConnectError::Several { count, folder }),
    }
}

/// The sockets of agents in a directory. An agent that never served has not made the directory yet.
fn sockets(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let paths = entries
        .map(|entry| entry.map(|entry| entry.path()))
        .collect::<io::Result<Vec<_>>>()?;
    Ok(paths.into_iter().filter(|path| is_socket(path)).collect())
}

fn is_socket(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    name.is_some_and(|name| name.starts_with(PREFIX)) && path.extension().is_some_and(|end| end == EXTENSION)
}

#[cfg(test)]
mod tests {
    use tokio::net::UnixListener;

    use super::*;
    use crate::hold::Place;
    use crate::hold::tests::token;

    #[test]
    fn the_socket_of_a_token_is_known_by_its_name() {
        let socket = Place::of(Path::new("/tmp"), &token("1", "a")).socket();
        assert!(is_socket(&socket), "{}", socket.display());
        for other in [
            "/tmp/trustplane-token-1.lock",
            "/tmp/trustplane-token-1.sock.7",
            "/tmp/x.sock",
        ] {
            assert!(!is_socket(Path::new(other)), "{other}");
        }
    }

    #[tokio::test]
    async fn a_socket_without_an_agent_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let missing = connect_to_only(&folder.path().join("none")).await.unwrap_err();
        assert!(matches!(missing, ConnectError::Unserved { .. }), "{missing}");
        let socket = Place::of(folder.path(), &token("1", "a")).socket();
        drop(UnixListener::bind(&socket).unwrap());
        let left = connect_to_only(folder.path()).await.unwrap_err();
        assert!(
            left.to_string().contains("no agent serves a token here"),
            "{left}"
        );
    }
}
