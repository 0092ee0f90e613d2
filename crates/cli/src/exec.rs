//! Running a program in a container of a pod, as `kubectl exec` does.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::AttachParams;
use tokio::io::AsyncWriteExt;

/// What a program said before it ended.
#[derive(Debug)]
pub struct ExecOutput {
    /// On its standard output.
    pub out: Vec<u8>,
    /// On its standard error.
    pub err: Vec<u8>,
    /// Whether it ended well.
    pub is_success: bool,
}

/// A program to run: where, and with which arguments.
#[derive(Debug)]
pub struct Program<'a> {
    /// The pod.
    pub pod: &'a str,
    /// Its container; without it the only one.
    pub container: Option<&'a str>,
    /// The program and its arguments. They reach the audit log of the API server.
    pub command: Vec<String>,
}

/// Runs a program to its end. `input` is what it reads on its standard input.
pub async fn run(pods: &Api<Pod>, program: Program<'_>, input: Option<&[u8]>) -> Result<ExecOutput> {
    let pod = program.pod;
    let mut attach = AttachParams::default()
        .stdin(input.is_some())
        .stdout(true)
        .stderr(true);
    attach.container = program.container.map(str::to_owned);
    let mut process = pods
        .exec(pod, program.command, &attach)
        .await
        .with_context(|| format!("run a program in pod {pod}"))?;
    if let (Some(input), Some(mut stdin)) = (input, process.stdin()) {
        let handed = async {
            stdin.write_all(input).await?;
            stdin.shutdown().await
        };
        handed
            .await
            .with_context(|| format!("hand over the input of the program in pod {pod}"))?;
    }
    let status = process
        .take_status()
        .context("the pod does not say how it ends")?;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (mut stdout, mut stderr) = (
        process.stdout().context("no output")?,
        process.stderr().context("no output")?,
    );
    tokio::try_join!(
        tokio::io::copy(&mut stdout, &mut out),
        tokio::io::copy(&mut stderr, &mut err),
    )
    .with_context(|| format!("read what the program in pod {pod} says"))?;
    let ended = status.await.context("the connection to the pod broke")?;
    process.join().await.context("end the connection")?;
    Ok(ExecOutput {
        out,
        err,
        is_success: is_success(&ended),
    })
}

fn is_success(status: &Status) -> bool {
    status.status.as_deref() == Some("Success")
}
