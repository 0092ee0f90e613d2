//! What a Kubernetes Service is to the API server: one address, whoever answers there.

use std::net::SocketAddr;

use anyhow::{Context, Result};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// Forwards connections to the process that answers at present. Without such a process it ends them at once.
pub struct Service {
    pub address: SocketAddr,
    backend: watch::Sender<Option<SocketAddr>>,
    _tasks: JoinSet<()>,
}

impl Service {
    pub async fn start() -> Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")
            .await
            .context("listen for a service")?;
        let (address, backend) = (listener.local_addr()?, watch::Sender::new(None));
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, backend.subscribe()));
        Ok(Self {
            address,
            backend,
            _tasks: tasks,
        })
    }

    /// From now on this process answers. Connections to the one before break.
    pub fn forward_to(&self, backend: SocketAddr) {
        self.backend.send_replace(Some(backend));
    }
}

async fn accept(listener: TcpListener, backend: watch::Receiver<Option<SocketAddr>>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        connections.spawn(forward(client, backend.clone()));
        while connections.try_join_next().is_some() {}
    }
}

async fn forward(mut client: TcpStream, mut backend: watch::Receiver<Option<SocketAddr>>) {
    let Some(address) = *backend.borrow_and_update() else {
        return;
    };
    let Ok(mut server) = TcpStream::connect(address).await else {
        return;
    };
    tokio::select! {
        _ = copy_bidirectional(&mut client, &mut server) => {}
        _ = backend.changed() => {}
    }
}
