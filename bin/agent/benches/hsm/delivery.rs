//! Delivery: how long HSMSecrets take from their creation until they are in sync, and what the capability asks for at rest.
//!
//! The capability runs in this process, as the shipped account on a real API server, with three tokens of SoftHSM behind agents
//! that are the program that ships. Each token has a copy of every secret. The floor is a plain loop that makes the same calls
//! ([`floor`]).

mod floor;
mod rest;
mod served;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Result;
use kube::api::PostParams;
use kube::{Api, ResourceExt};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::task::JoinSet;
use trustplane_api::hsm::HsmSecret;
use trustplane_testkit::audit::Mark;
use trustplane_testkit::{Sandbox, Select, eventually};

use crate::secrets::path;
use crate::table::{Goal, Row};
use floor::{Floor, Gets};
use served::{Running, Served};

/// How many HSMSecrets are made at once.
const MANY: usize = 500;
/// The names of the tokens.
const TOKENS: [&str; 3] = ["a", "b", "c"];
/// `syncInterval` of each, in seconds: the shortest.
const INTERVAL: u64 = 5;
/// How often both sides take their turn.
const ROUNDS: u32 = 2;
/// So many HSMSecrets are created at the same time: creating them must not be what takes long.
const HANDS: usize = 8;
/// When a side counts as stuck.
const STUCK: Duration = Duration::from_secs(600);
const GOAL: f64 = 1.5;

/// Measures all of it.
pub fn compare() -> Vec<Row> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(measure()).unwrap()
}

async fn measure() -> Result<Vec<Row>> {
    let served = Served::open().await?;
    let [mut ours, mut bare, mut with_gets] = [Duration::ZERO; 3];
    let (mut calls, mut at_rest) = (Calls::default(), None);
    for round in 1..=ROUNDS {
        let running = served.start(&format!("round-{round}")).await?;
        served.warm_up().await?;
        let took;
        (took, calls) = deliver(&served, &running).await?;
        ours += took;
        progress(&format!("round {round}: {MANY} HSMSecrets in sync in {took:.1?}"));
        progress(&calls.to_string());
        if round == ROUNDS {
            at_rest = Some(rest::measure(&served, &running).await?);
        }
        let floor = Floor::new(&served, &running, calls.claims()).await?;
        served.clear().await?;
        // Whoever comes second finds a warmer or a busier machine: each is first as often.
        let mut turns = [(Gets::None, &mut bare), (Gets::AsOurs, &mut with_gets)];
        turns.rotate_left(round as usize % 2);
        for (gets, total) in turns {
            let took = floor.run(gets).await?;
            *total += took;
            progress(&format!("round {round}: the loop, {gets:?} GETs: {took:.1?}"));
        }
        served.stop(running).await?;
    }
    let mut rows = rows([ours, bare, with_gets], &calls);
    rows.extend(at_rest.into_iter().flatten());
    Ok(rows)
}

fn rows([ours, bare, with_gets]: [Duration; 3], calls: &Calls) -> Vec<Row> {
    let each = |took: Duration| took.as_secs_f64() / f64::from(ROUNDS);
    let row = |what, floor, peer, goal| Row {
        what,
        ours: each(ours),
        theirs: Some(each(floor)),
        unit: "s",
        peer,
        goal,
    };
    vec![
        row(
            "500 HSMSecrets, 3 tokens: create to InSync",
            bare,
            "the same reads and writes, 4 at a time",
            Some(Goal::AtMost(GOAL)),
        ),
        row(
            "the same 500, against a loop with GETs",
            with_gets,
            "and the GETs before finalizers and statuses",
            None,
        ),
        Row {
            what: "calls to the API server per HSMSecret",
            ours: calls.per_secret(|_| true),
            theirs: Some(calls.per_secret(|verb| verb != "get")),
            unit: "calls",
            peer: "the writes alone",
            goal: None,
        },
    ]
}

/// Makes all HSMSecrets, and answers how long it took until all were in sync, and the calls of the capability meanwhile.
async fn deliver(served: &Served, running: &Running) -> Result<(Duration, Calls)> {
    let mark = Mark::now(served.sandbox.plane()).await?;
    let (made, _) = unbounded_channel();
    let took = until_in_sync(&served.sandbox, made).await?;
    let audit = mark.since().await?.by(&running.instance);
    let mut calls = Calls::default();
    for event in audit.events() {
        let kind = [event.resource(), event.subresource()].join(" ");
        let call = (event.verb.clone(), kind.trim_end().to_owned(), event.code());
        *calls.0.entry(call).or_default() += 1;
    }
    Ok((took, calls))
}

/// Makes all HSMSecrets in a namespace, tells of each, and waits by watch until all are in sync.
async fn until_in_sync(sandbox: &Sandbox, made: UnboundedSender<HsmSecret>) -> Result<Duration> {
    let api: Api<HsmSecret> = sandbox.api();
    let all = Select::default();
    let begun = Instant::now();
    let settled = eventually(&api, &all, STUCK, |found| {
        let ours = found.values().filter(|live| is_measured(live));
        let settled = ours.filter(|live| {
            let status = live.status.as_ref();
            status.and_then(|status| status.sync_status.as_deref()) == Some("InSync")
        });
        (settled.count() == MANY).then_some(())
    });
    tokio::try_join!(settled, make_all(&api, made))?;
    Ok(begun.elapsed())
}

async fn make_all(api: &Api<HsmSecret>, made: UnboundedSender<HsmSecret>) -> Result<()> {
    let mut hands = JoinSet::new();
    for hand in 0..HANDS {
        let (api, made) = (api.clone(), made.clone());
        hands.spawn(async move {
            for number in (hand..MANY).step_by(HANDS) {
                let live = api.create(&PostParams::default(), &wish(number)).await?;
                // Nobody has to listen.
                drop(made.send(live));
            }
            Ok::<_, kube::Error>(())
        });
    }
    while let Some(done) = hands.join_next().await {
        done??;
    }
    Ok(())
}

/// The HSMSecret of a secret on the tokens. Its Secret has the same name.
fn wish(number: usize) -> HsmSecret {
    let name = match number {
        MANY => "warm-up".to_owned(),
        number => format!("db-{number:04}"),
    };
    let spec = json!({
        "hsmPath": path(number).as_str(), "autoSync": true, "secretType": "Opaque", "syncInterval": INTERVAL,
    });
    HsmSecret::new(&name, serde_json::from_value(spec).unwrap())
}

/// Not the one that was there before.
fn is_measured(live: &HsmSecret) -> bool {
    live.name_any().starts_with("db-")
}

/// The calls of the capability to the API server: verb, kind and status of the answer.
#[derive(Default)]
struct Calls(BTreeMap<(String, String, u16), usize>);

impl Calls {
    /// How many of these verbs there are for each HSMSecret. Lists and watches are none of a single one.
    fn per_secret(&self, wanted: impl Fn(&str) -> bool) -> f64 {
        let single = |verb: &str| !matches!(verb, "list" | "watch") && wanted(verb);
        let counted = self.0.iter().filter(|((verb, ..), _)| single(verb));
        counted.map(|(_, count)| *count as f64).sum::<f64>() / MANY as f64
    }

    /// How often the list of locations was written.
    fn claims(&self) -> usize {
        let key = ("patch".to_owned(), "configmaps".to_owned(), 200);
        self.0.get(&key).copied().unwrap_or_default()
    }
}

impl std::fmt::Display for Calls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "calls to the API server:")?;
        let mut all = self.0.iter();
        all.try_for_each(|((verb, kind, code), count)| write!(f, " {count} × {verb} {kind} ({code}),"))
    }
}

/// Says where a long measurement is.
fn progress(text: &str) {
    eprintln!("delivery: {text}");
}
