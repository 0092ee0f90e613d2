//! `cargo xtask demo`: from an empty machine to a running installation, told as a story that a person can follow.
//!
//! Every command of the story is one that the person can type; the demo runs exactly what it prints.

mod background;
mod browser;
mod scene;
mod stage;
mod story;

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;
use trustplane_cluster::interrupt;

use crate::run;
use scene::Audience;
use stage::Stage;

/// Start a cluster, install everything, and show what runs; Ctrl-C cleans up.
#[derive(Debug, clap::Args)]
#[command(
    after_help = "Example:\n  cargo xtask demo\n  cargo xtask demo --exit\n  cargo xtask demo --kubeconfig ~/.kube/config"
)]
pub struct Args {
    /// Clean up right after the story instead of waiting for Ctrl-C.
    #[arg(long)]
    exit: bool,
    /// Name of the cluster that is started.
    #[arg(long, default_value = "demo")]
    name: String,
    /// Use this cluster instead of starting one.
    #[arg(long, value_name = "FILE", conflicts_with = "name")]
    kubeconfig: Option<PathBuf>,
}

/// Tells the story, from setting the stage to clearing it.
pub fn run(args: Args) -> Result<()> {
    println!("{}", opening(args.kubeconfig.is_none()));
    let audience = match args.exit {
        true => Audience::Browser,
        false => Audience::Person,
    };
    // Ctrl-C has to reach the clearing of the stage, whatever runs at that moment.
    let _guard = interrupt::Guard::begin()?;
    let stage = match &args.kubeconfig {
        Some(kubeconfig) => Stage::borrow(kubeconfig, audience)?,
        None => Stage::build(&args.name, audience)?,
    };
    let told = tell(&stage, audience);
    if told.is_err() && !interrupt::requested() {
        stage.explain();
    }
    let cleared = stage.clear();
    // Ctrl-C is how the demo ends, not how it fails.
    match told {
        Err(error) if !interrupt::requested() => Err(error),
        _ => cleared,
    }
}

/// What a person reads before the first minute of waiting.
fn opening(ours: bool) -> String {
    let cluster = match ours {
        true => "start a Kubernetes cluster with one node on this machine",
        false => "use your cluster",
    };
    let clean = "Everything that it makes is removed at its end.";
    format!(
        "The demo will build the tools that are missing, make the images of Trustplane, {cluster},\ninstall the chart, and then \
         show {} scenes with the commands that you would type. {clean}\n",
        story::SCENES
            .iter()
            .filter(|scene| ours || !scene.at_home)
            .count()
    )
}

fn tell(stage: &Stage, audience: Audience) -> Result<()> {
    let scenes = story::SCENES
        .iter()
        .filter(|scene| !scene.at_home || stage.is_ours());
    for (number, scene) in (1..).zip(scenes) {
        interrupt::check()?;
        scene.play(number, stage, audience)?;
    }
    if audience == Audience::Browser {
        return Ok(());
    }
    println!(
        "\nThe cluster stays until you end the demo. For the commands behind \"Try\", type in another terminal:\n\n  cd {}\n  {}",
        run::root().display(),
        stage.environment()
    );
    println!("\nCtrl-C ends the demo and removes everything that it made.");
    while !interrupt::requested() {
        std::thread::sleep(Duration::from_millis(100));
    }
    println!();
    Ok(())
}
