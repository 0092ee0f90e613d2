//! A network of its own, as a pod has one: every port is free, and nothing leads out but what the test leads out.

use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::{AsFd, AsRawFd};
use std::process::Stdio;
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use tokio::io::{AsyncBufReadExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};
use tokio::process::Command;
use tokio::task::JoinSet;

/// A network namespace with a loopback interface. It is gone when nothing uses it any more, whatever becomes of the test.
pub struct Network {
    namespace: Arc<File>,
}

/// Where connections are led to.
#[derive(Clone)]
pub enum Target {
    /// To an address of the machine.
    Machine(SocketAddr),
    /// To a port of a network.
    Port(Arc<Network>, u16),
}

impl Target {
    /// Connects to it.
    pub async fn connect(&self) -> Result<TcpStream> {
        match self {
            Self::Machine(address) => Ok(TcpStream::connect(address).await?),
            Self::Port(network, port) => network.connect(*port).await,
        }
    }
}

impl Network {
    pub async fn new() -> Result<Arc<Self>> {
        // It holds the namespace until the test does.
        let mut holder = Command::new("unshare")
            .args(["--net", "sh", "-c", "ip link set lo up && echo up && read -r _"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .context("make a network namespace")?;
        let mut answer = String::new();
        let output = holder.stdout.take().context("the output of unshare")?;
        BufReader::new(output).read_line(&mut answer).await?;
        ensure!(answer == "up\n", "a network namespace did not come up");
        let id = holder.id().context("unshare has ended")?;
        let namespace = File::open(format!("/proc/{id}/ns/net")).context("open a network namespace")?;
        Ok(Arc::new(Self {
            namespace: Arc::new(namespace),
        }))
    }

    /// Where `nsenter` finds it.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.namespace.as_raw_fd())
    }

    /// Connects to a port on its loopback interface.
    pub async fn connect(&self, port: u16) -> Result<TcpStream> {
        let stream = self
            .inside(move || std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, port)))
            .await;
        let stream = stream.with_context(|| format!("connect to port {port} of a pod"))?;
        stream.set_nonblocking(true)?;
        Ok(TcpStream::from_std(stream)?)
    }

    /// Listens on a port of its loopback interface.
    pub async fn listen(&self, port: u16) -> Result<TcpListener> {
        let listener = self
            .inside(move || std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, port)))
            .await;
        let listener = listener.with_context(|| format!("listen on port {port} of a pod"))?;
        listener.set_nonblocking(true)?;
        Ok(TcpListener::from_std(listener)?)
    }

    /// Leads what connects to a port to a target, for as long as the tasks live.
    pub async fn lead(&self, tasks: &mut JoinSet<()>, port: u16, target: Target) -> Result<()> {
        let listener = self.listen(port).await?;
        tasks.spawn(async move {
            let mut led = JoinSet::new();
            while let Ok((caller, _)) = listener.accept().await {
                led.spawn(join(caller, target.clone()));
            }
        });
        Ok(())
    }

    /// Does something on a thread that is in this network. A socket that it makes stays in there.
    async fn inside<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> io::Result<T> + Send + 'static,
    ) -> io::Result<T> {
        let namespace = self.namespace.clone();
        // A thread of its own: it never comes back to the network of the machine.
        let thread = std::thread::spawn(move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network))?;
            work()
        });
        let joined = tokio::task::spawn_blocking(move || thread.join()).await?;
        joined.map_err(|_| io::Error::other("a thread panicked"))?
    }
}

/// Whoever calls a target that does not answer finds the connection closed.
async fn join(mut caller: TcpStream, target: Target) {
    if let Ok(mut called) = target.connect().await {
        let _ = copy_bidirectional(&mut caller, &mut called).await;
    }
}
