//! The address of an agent's pod: a port on the loopback that leads to wherever the agent listens now.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use anyhow::{Context, Result};
use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};

/// Where every agent listens in its pod.
const PORT: u16 = 9090;

/// A listener on an address of its own. It ends, with its connections, when it is dropped.
pub struct PodAddress {
    address: Ipv4Addr,
    target: Arc<AtomicU16>,
    task: JoinHandle<()>,
}

impl PodAddress {
    /// A free address, which leads nowhere yet.
    pub async fn new() -> Result<Self> {
        let listener = free().await?;
        let SocketAddr::V4(address) = listener.local_addr()? else {
            anyhow::bail!("an address of version 4");
        };
        let target = Arc::new(AtomicU16::new(0));
        Ok(Self {
            address: *address.ip(),
            task: tokio::spawn(forward(listener, target.clone())),
            target,
        })
    }

    /// The address of the pod.
    pub fn address(&self) -> Ipv4Addr {
        self.address
    }

    /// New connections lead to this port; to none if it is 0.
    pub fn lead_to(&self, port: u16) {
        self.target.store(port, Ordering::SeqCst);
    }
}

impl Drop for PodAddress {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A listener on the first address of a range of the loopback that is free. Tests of other processes take theirs from it too.
async fn free() -> Result<TcpListener> {
    let mut taken = None;
    for number in 0..=u16::MAX {
        let [third, fourth] = number.to_be_bytes();
        match TcpListener::bind((Ipv4Addr::new(127, 78, third, fourth), PORT)).await {
            Ok(listener) => return Ok(listener),
            Err(error) => taken = Some(error),
        }
    }
    Err(taken.context("an address")?).context("no address is free")
}

async fn forward(listener: TcpListener, target: Arc<AtomicU16>) {
    let mut connections = JoinSet::new();
    while let Ok((mut near, _)) = listener.accept().await {
        let port = target.load(Ordering::SeqCst);
        connections.spawn(async move {
            if port == 0 {
                return;
            }
            if let Ok(mut far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await {
                // However it ends, both sides see it.
                drop(copy_bidirectional(&mut near, &mut far).await);
            }
        });
    }
}
