//! `kubectl trustplane inventory open`: the hub's console on this machine, through the API server.

use std::io::{IsTerminal, Write};
use std::net::Ipv4Addr;
use std::process::{ExitCode, Stdio};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncRead, AsyncWrite, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

use super::hub::{self, Hub};
use crate::cluster::{Cluster, ClusterArgs};
use crate::output;

/// Open the console of the hub in this cluster, until Ctrl-C.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Examples:\n  kubectl trustplane inventory open --namespace trustplane\n  \
    kubectl trustplane inventory open --port 0 --no-browser\n\n\
    The console listens on loopback in the hub's pod, and this command forwards a local port to it, open to this machine \
    alone. The link is good once, for ten minutes; run the command again for another. It needs the rights to list pods, to exec \
    into the hub's pod and to forward its ports."
)]
pub struct Args {
    /// The port on 127.0.0.1; 0 takes any that is free.
    #[arg(long, value_name = "PORT", default_value_t = 8480)]
    port: u16,
    /// Print the link only.
    #[arg(long)]
    no_browser: bool,
}

/// Runs the command.
pub async fn run(args: &Args, cluster: &ClusterArgs, out: &mut impl Write) -> Result<ExitCode> {
    let cluster = cluster.connect().await?;
    let hub = find(&cluster).await?;
    // First, so that no link is used up for a port that is taken.
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, args.port))
        .await
        .with_context(|| {
            format!(
                "listen on 127.0.0.1:{}: take another port with --port, or any with --port 0",
                args.port
            )
        })?;
    let link = link(listener.local_addr()?.port(), &hub.sign_in(&cluster).await?);
    writeln!(
        out,
        "{link}\nThe link is good once, for ten minutes. Ctrl-C closes the way to the console."
    )?;
    out.flush()?;
    if !args.no_browser && std::io::stdout().is_terminal() {
        browse(&link);
    }
    tokio::select! {
        ended = serve(&listener, &cluster) => ended?,
        interrupted = tokio::signal::ctrl_c() => interrupted.context("wait for Ctrl-C")?,
    }
    Ok(ExitCode::SUCCESS)
}

/// What a browser opens: our end of the way, and the token.
fn link(port: u16, token: &str) -> String {
    format!("http://127.0.0.1:{port}/sign-in?token={token}")
}

async fn find(cluster: &Cluster) -> Result<Hub> {
    match hub::find(cluster, cluster.namespace.as_deref()).await? {
        Some(hub) => Ok(hub),
        None => bail!("no hub runs in this cluster: helm upgrade with hub.enabled=true"),
    }
}

/// Forwards every connection to the hub. A connection that fails is reported on standard error and ends no other.
async fn serve(listener: &TcpListener, cluster: &Cluster) -> Result<()> {
    loop {
        let (connection, _) = listener.accept().await.context("wait for a connection")?;
        let cluster = cluster.clone();
        tokio::spawn(async move {
            if let Err(error) = forward_connection(connection, &cluster).await {
                let told = format!("a connection to the console ended: {error:#}\n");
                // A closed standard error must not end the other connections.
                let _ = output::pass_on(told.as_bytes());
            }
        });
    }
}

/// Forwards one connection to the pod in which the hub runs now: it may be another one than at the start.
async fn forward_connection(mut connection: TcpStream, cluster: &Cluster) -> Result<()> {
    let hub = find(cluster).await?;
    let port = hub.console_port;
    let mut forwarder = hub
        .pods(cluster)
        .portforward(&hub.pod, &[port])
        .await
        .with_context(|| format!("forward port {port} of pod {}", hub.path()))?;
    let refused = forwarder.take_error(port).context("no way to the port")?;
    let mut stream = forwarder.take_stream(port).context("no way to the port")?;
    let copied = copy(&mut connection, &mut stream, refused).await;
    drop(stream);
    copied.with_context(|| format!("port {port} of pod {}", hub.path()))?;
    forwarder.join().await.context("end the connection")
}

/// Copies both ways until one side has ended, or the pod has refused.
async fn copy(
    connection: &mut TcpStream,
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    refused: impl Future<Output = Option<String>>,
) -> Result<()> {
    tokio::select! {
        copied = copy_bidirectional(connection, stream) => match copied {
            // Browsers drop connections that they do not need any more.
            Err(error) if error.kind() != std::io::ErrorKind::ConnectionReset => Err(error.into()),
            _ => Ok(()),
        },
        Some(why) = refused => bail!("{why}"),
    }
}

/// Asks the desktop to show a page. The link is printed all the same.
fn browse(link: &str) {
    let opener = match std::env::consts::OS {
        "macos" => "open",
        _ => "xdg-open",
    };
    let _ = tokio::process::Command::new(opener)
        .arg(link)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn link_leads_to_our_end_of_the_way() {
        assert_eq!(link(9001, "t0ken"), "http://127.0.0.1:9001/sign-in?token=t0ken");
    }

    async fn connection() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (ours, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn connection_is_led_both_ways_until_the_pod_ends_it() {
        let (mut browser, mut accepted) = connection().await;
        let (mut pod, mut stream) = tokio::io::duplex(64);
        let no_refusal = std::future::ready(None);
        let led = tokio::spawn(async move { copy(&mut accepted, &mut stream, no_refusal).await });
        browser.write_all(b"GET").await.unwrap();
        let mut asked = [0; 3];
        pod.read_exact(&mut asked).await.unwrap();
        assert_eq!(&asked, b"GET");
        pod.write_all(b"page").await.unwrap();
        drop(pod);
        browser.shutdown().await.unwrap();
        let mut answer = String::new();
        browser.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, "page");
        led.await.unwrap().unwrap();
    }

    #[tokio::test]
    async fn refusal_of_the_pod_is_told() {
        let (_browser, mut accepted) = connection().await;
        let (_pod, mut stream) = tokio::io::duplex(64);
        let refused = std::future::ready(Some("connection refused".to_owned()));
        let told = copy(&mut accepted, &mut stream, refused).await.unwrap_err();
        assert_eq!(told.to_string(), "connection refused");
    }
}
