//! Running a program in a container of a pod, as `kubectl exec` does.

use anyhow::{Context, Result};
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Status;
use kube::Api;
use kube::api::{AttachParams, AttachedProcess};
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
    /// Why it did not end well, as the node says.
    pub reason: String,
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
    let process = start(pods, program, input.is_some()).await?;
    finish(process, pod, input).await
}

/// Starts a program. If this fails, the program has not run.
pub async fn start(pods: &Api<Pod>, program: Program<'_>, reads: bool) -> Result<AttachedProcess> {
    let mut attach = AttachParams::default().stdin(reads).stdout(true).stderr(true);
    attach.container = program.container.map(str::to_owned);
    let process = pods.exec(program.pod, program.command, &attach).await;
    process.with_context(|| format!("run a program in pod {}", program.pod))
}

/// Waits for the end of a program, and hands over its input meanwhile.
pub async fn finish(mut process: AttachedProcess, pod: &str, input: Option<&[u8]>) -> Result<ExecOutput> {
    let status = process
        .take_status()
        .context("the pod does not say how it ends")?;
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (mut stdout, mut stderr) = (
        process.stdout().context("no output")?,
        process.stderr().context("no output")?,
    );
    let stdin = process.stdin();
    let hand_over = async {
        if let (Some(input), Some(mut stdin)) = (input, stdin) {
            stdin.write_all(input).await?;
            stdin.shutdown().await?;
        }
        Ok::<_, std::io::Error>(())
    };
    let (handed, read) = tokio::join!(hand_over, async {
        tokio::try_join!(
            tokio::io::copy(&mut stdout, &mut out),
            tokio::io::copy(&mut stderr, &mut err),
        )
    });
    read.with_context(|| format!("read what the program in pod {pod} says"))?;
    let ended = status.await.context("the connection to the pod broke")?;
    process.join().await.context("end the connection")?;
    let is_success = is_success(&ended);
    // A program that failed need not have read its input: then its own words count.
    if is_success {
        handed.with_context(|| format!("hand over the input of the program in pod {pod}"))?;
    }
    Ok(ExecOutput {
        out,
        err,
        is_success,
        reason: ended.message.unwrap_or_default(),
    })
}

fn is_success(status: &Status) -> bool {
    status.status.as_deref() == Some("Success")
}
