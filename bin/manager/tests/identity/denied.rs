//! Requests that are denied, and what it takes for them to pass.

use anyhow::{Context, Result, bail, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::Api;
use kube::api::PostParams;
use serde_json::{Value, json};
use trustplane_plan::Kind;

use crate::hand::{Answer, Ask};
use crate::stage::{KINDS, Stage};

/// More requests than any denial takes until its request passes.
const MOST_REQUESTS: usize = 12;

/// The rules, as denials name them.
pub const RULE_1: &str = "(rule 1, creation of ZTWIM)";
pub const RULE_2: &str = "(rule 2, update of ZTWIM)";
pub const RULE_3: &str = "(rule 3, creation of an operand)";
pub const RULE_4: &str = "(rule 4, update of an operand)";

/// A request that is denied.
pub struct Denied {
    rule: &'static str,
    ask: Ask,
    field: &'static str,
    parts: Vec<String>,
}

impl Denied {
    /// By a rule, for a field, in words that have these parts: holders, values, the way out.
    pub fn new(rule: &'static str, ask: Ask, field: &'static str, parts: &[&str]) -> Self {
        let parts = parts.iter().map(|part| (*part).to_owned()).collect();
        Self {
            rule,
            ask,
            field,
            parts,
        }
    }

    /// The kind of the object.
    pub fn kind(&self) -> &Kind {
        &self.ask.kind
    }
}

impl Stage {
    /// The request is denied in these words, dry run or not, and changes nothing; gives the words.
    pub async fn denied(&self, denied: Denied) -> Result<String> {
        let Denied {
            rule,
            ask,
            field,
            parts,
        } = &denied;
        let stored = self.hand.read(&ask.kind).await?;
        let generation = |live: Option<&Value>| live.map(|live| live["metadata"]["generation"].clone());
        let rehearsed = self.hand.rehearse(ask).await?;
        let answer = self.hand.ask(ask).await?;
        assert_eq!(rehearsed.essence(), answer.essence());
        let words = answer.failed(422)?;
        let from = r#"admission webhook "fill.identity.trustplane.io" denied the request: "#;
        let told = words
            .strip_prefix(from)
            .with_context(|| format!("not from the webhook: {words}"))?;
        ensure!(
            told.starts_with(&format!("{field}: ")),
            "{ask}\nshould be denied for {field}: {told}"
        );
        ensure!(told.ends_with(*rule), "{ask}\nshould break {rule}: {told}");
        for part in parts {
            ensure!(
                told.contains(part.as_str()),
                "{ask}\nis denied without the words {part}: {told}"
            );
        }
        let now = self.hand.read(&ask.kind).await?;
        assert_eq!(generation(now.as_ref()), generation(stored.as_ref()), "{ask}");
        Ok(told.to_owned())
    }

    /// The same, and once the command in the words has run, the request passes. A command that is itself denied is followed by its own
    /// command.
    pub async fn denied_until_obeyed(&self, denied: Denied) -> Result<Answer> {
        let ask = denied.ask.clone();
        let words = self.denied(denied).await?;
        ensure!(
            words.contains("kubectl "),
            "{ask} is denied without a command: {words}"
        );
        self.pass(ask).await
    }

    /// Sends a request, and does as denials say until it passes.
    async fn pass(&self, ask: Ask) -> Result<Answer> {
        let mut due = vec![ask];
        for _ in 0..MOST_REQUESTS {
            let ask = due.last_mut().context("nothing to do")?;
            let answer = self.hand.ask(ask).await?;
            if answer.code == 422 {
                match Command::first_in(answer.failed(422)?)? {
                    // What does not exist yet is mended in its manifest.
                    Command::Patch(kind, patch) if ask.is_creation() && kind == ask.kind => {
                        json_patch::merge(&mut ask.body, &patch);
                    }
                    Command::Patch(kind, patch) => due.push(Ask::patch(&kind, patch)),
                    Command::ConfigMap { name, namespace } => {
                        let made = serde_json::from_value(json!({ "metadata": { "name": name } }))?;
                        let api: Api<ConfigMap> = Api::namespaced(self.sandbox.client(), &namespace);
                        api.create(&PostParams::default(), &made).await?;
                    }
                }
                continue;
            }
            let answer = answer.passed()?;
            due.pop();
            if due.is_empty() {
                return Ok(answer);
            }
        }
        bail!("still denied after {MOST_REQUESTS} requests: {due:?}")
    }

    /// The request passes at once.
    pub async fn passes(&self, ask: Ask) -> Result<Answer> {
        self.hand.ask(&ask).await?.passed()
    }
}

/// A command that a denial recommends.
enum Command {
    Patch(Kind, Value),
    ConfigMap { name: String, namespace: String },
}

impl Command {
    fn first_in(words: &str) -> Result<Self> {
        let (_, command) = words
            .split_once("kubectl ")
            .with_context(|| format!("no command: {words}"))?;
        let mut parts = command.split(' ');
        let mut part = || parts.next().context("a command that ends too soon");
        match (part()?, part()?) {
            ("patch", plural) => {
                let kind = KINDS.into_iter().find(|kind| kind.plural == plural);
                let patch = command.split('\'').nth(1).context("a patch")?;
                ensure!(command.contains(" cluster --type=merge -p '"), "{command}");
                Ok(Self::Patch(
                    kind.context("a kind of ours")?,
                    serde_json::from_str(patch)?,
                ))
            }
            ("create", "configmap") => {
                let (name, flag, namespace) = (part()?, part()?, part()?);
                ensure!(flag == "--namespace", "{command}");
                let (name, namespace) = (name.to_owned(), namespace.to_owned());
                Ok(Self::ConfigMap { name, namespace })
            }
            _ => bail!("an unknown command: {command}"),
        }
    }
}
