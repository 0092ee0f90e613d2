//! A whole process, from its arguments to its end by a signal. One test, since signals are the process's own.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use rustix::process::{Signal, getpid, kill_process};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use trustplane_process::args::{self, CommonArgs};
use trustplane_process::frame::{Frame, Program};
use trustplane_process::protection::protect;

#[derive(Parser)]
struct Args {
    #[command(flatten)]
    common: CommonArgs,
}

async fn get(at: SocketAddr, path: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(at).await?;
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    Ok(answer.rsplit("\r\n\r\n").next().unwrap_or_default().to_owned())
}

#[test]
fn a_process_starts_serves_and_ends_in_order() {
    let argv = [
        "test",
        "--admin-bind-address=127.0.0.1:0",
        "--shutdown-deadline=20s",
        "--log=error",
    ];
    let args: Args = args::parse_from(argv, |_| None).unwrap();
    let program = Program {
        name: "trustplane-test",
        component: "test",
        version: "1.2.3",
    };
    protect().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let life = async {
        let frame = Frame::start(&args.common, program).await.unwrap();
        let at = frame.admin_addresses()[0];
        assert_eq!(
            get(at, "/readyz").await.unwrap(),
            "[-] process: starting\n",
            "not before the checks are registered"
        );
        let state: serde_json::Value =
            serde_json::from_str(&get(at, "/debug/state.json").await.unwrap()).unwrap();
        assert_eq!(state["process"]["component"], "test");
        assert_eq!(state["process"]["version"], "1.2.3");
        assert_eq!(state["process"]["memoryProtected"], true);
        assert_eq!(state["process"]["tasks"], serde_json::json!(["admin"]));

        // The worker asks for the verdict while it drains: the admin port outlives it.
        let (stop, (verdict, draining)) = (frame.shutdown().token(), tokio::sync::oneshot::channel());
        frame.supervisor().spawn("worker", async move {
            stop.cancelled().await;
            while get(at, "/readyz").await.unwrap() != "[-] process: shutting down\n" {
                tokio::task::yield_now().await;
            }
            verdict.send(()).map_err(|()| "nobody listens")
        });

        let run = tokio::spawn(frame.run());
        while get(at, "/readyz").await.unwrap() != "ok\n" {
            tokio::task::yield_now().await;
        }
        kill_process(getpid(), Signal::TERM).unwrap();
        draining.await.unwrap();
        assert_eq!(run.await.unwrap(), ExitCode::SUCCESS);
        assert!(TcpStream::connect(at).await.is_err());
    };
    runtime
        .block_on(async { tokio::time::timeout(Duration::from_secs(30), life).await })
        .unwrap();
}
