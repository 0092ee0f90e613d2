//! A token, a record and some agents, which do one step at a time and may end between any two.

use std::collections::BTreeMap;

use super::*;

/// The time from writing a try down to sending it, which an agent keeps to.
const MARGIN: Duration = Duration::from_secs(10);

/// What happens next.
#[derive(Debug, Clone, Copy)]
pub enum Event {
    /// An agent takes its next step.
    Step(usize),
    /// An agent ends and begins anew, in the same pod or in another.
    Restart(usize, bool),
    /// An agent that was let in has to log in again. It asks nobody: it knows the PIN.
    Replug(usize),
    /// Time passes.
    Pass(u8),
    /// Somebody writes another PIN into the Secret.
    Write(u8),
    /// Somebody makes the Secret anew.
    Recreate,
    /// Somebody changes the PIN of the token.
    Change(u8),
}

/// The token: it counts.
pub struct Token {
    pub right: u8,
    pub tells: bool,
    pub wrong_in_a_row: u32,
    pub locks_after: u32,
    /// How often each wrong PIN was tried, by Secret and PIN.
    pub wrong: BTreeMap<(u32, u8), u32>,
}

impl Token {
    fn flags(&self) -> Flags {
        match self.locks_after - self.wrong_in_a_row.min(self.locks_after) {
            0 => Flags::Locked,
            _ if !self.tells || self.wrong_in_a_row == 0 => Flags::Clear,
            1 => Flags::Final,
            _ => Flags::Low,
        }
    }

    fn log_in(&mut self, secret: u32, pin: u8, caution: Caution) -> Outcome {
        let may = match caution {
            Caution::Clear => self.flags() == Flags::Clear,
            Caution::Corrected => matches!(self.flags(), Flags::Clear | Flags::Low),
            Caution::Ordered => true,
        };
        if !may {
            return Outcome::Withdrawn;
        }
        if pin == self.right {
            self.wrong_in_a_row = 0;
            return Outcome::Accepted;
        }
        self.wrong_in_a_row += 1;
        *self.wrong.entry((secret, pin)).or_default() += 1;
        Outcome::Rejected
    }
}

#[derive(Default)]
enum Step {
    #[default]
    Idle,
    /// It has read the record and decided.
    Decided(u64, Vec<Try>, Option<Caution>),
    /// Its try is written.
    Granted(Duration, Caution),
    /// The token has answered.
    Told(Outcome),
}

struct Agent {
    by: String,
    pin: (u32, u8),
    step: Step,
    seen: Sightings,
    /// A try that it has written down and not sent.
    unsent: bool,
    known_right: bool,
    open: bool,
}

pub struct World {
    pub token: Token,
    pub tries: Vec<Try>,
    agents: Vec<Agent>,
    secret: (u32, u8),
    version: u64,
    clock: Duration,
    starts: u32,
}

pub const DIGESTS: [&str; 4] = ["a", "b", "c", "d"];
const SECRETS: [&str; 4] = ["s0", "s1", "s2", "s3"];

impl World {
    pub fn new(token: Token, agents: usize, pin: u8) -> Self {
        let mut world = Self {
            token,
            tries: Vec::new(),
            agents: Vec::new(),
            secret: (0, pin),
            version: 0,
            clock: Duration::ZERO,
            starts: 0,
        };
        for pod in 0..agents {
            let agent = world.begin(&format!("pod{pod}"));
            world.agents.push(agent);
        }
        world
    }

    fn begin(&mut self, pod: &str) -> Agent {
        self.starts += 1;
        Agent {
            by: format!("{pod}/{}", self.starts),
            pin: self.secret,
            step: Step::Idle,
            seen: Sightings::default(),
            unsent: false,
            known_right: false,
            open: false,
        }
    }

    pub fn is_open(&self, agent: usize) -> bool {
        self.agents[agent].open
    }

    /// Whether an agent has written a try down of which nobody knows what comes of it.
    pub fn is_at_it(&self, agent: usize) -> bool {
        let agent = &self.agents[agent];
        agent.unsent || !matches!(agent.step, Step::Idle | Step::Decided(..))
    }

    pub fn happen(&mut self, event: Event) {
        match event {
            Event::Step(agent) => self.step(agent),
            Event::Restart(agent, elsewhere) => {
                let starts = self.starts;
                let pod = pod(&self.agents[agent].by).to_owned();
                let pod = if elsewhere { format!("pod-{starts}") } else { pod };
                self.agents[agent] = self.begin(&pod);
            }
            Event::Replug(agent) => self.agents[agent].open = false,
            Event::Pass(seconds) => self.clock += Duration::from_secs(seconds.into()),
            Event::Write(pin) => self.secret.1 = pin,
            Event::Recreate => self.secret.0 = (self.secret.0 + 1).min(3),
            Event::Change(pin) => self.token.right = pin,
        }
    }

    fn step(&mut self, at: usize) {
        let agent = &mut self.agents[at];
        let key = Key {
            token: "t",
            secret: SECRETS[agent.pin.0 as usize],
            digest: DIGESTS[agent.pin.1 as usize],
        };
        let now = now() + self.clock;
        agent.step = match std::mem::take(&mut agent.step) {
            Step::Idle if agent.open => Step::Idle,
            Step::Idle => {
                if agent.known_right {
                    // The token must show no wrong PIN, so that nobody's flags are cleared by it.
                    agent.step = Step::Told(self.token.log_in(agent.pin.0, agent.pin.1, Caution::Clear));
                    agent.known_right = false;
                    return;
                }
                if agent.pin != self.secret && !agent.unsent {
                    agent.pin = self.secret;
                    return;
                }
                agent.seen.look(&self.tries, self.clock);
                let withdrawn = settle(&self.tries, &key, &agent.by, Outcome::Withdrawn, now);
                let withdrawn = withdrawn.filter(|_| agent.unsent);
                let tries = withdrawn.unwrap_or_else(|| self.tries.clone());
                let case = Case {
                    key,
                    by: &agent.by,
                    account: Account::Automatic,
                    flags: self.token.flags(),
                    now,
                    window: WINDOW,
                };
                match decide(&tries, &case, &agent.seen) {
                    Verdict::Try { tries, caution } => Step::Decided(self.version, tries, Some(caution)),
                    Verdict::Refused {
                        tries: Some(tries), ..
                    } => Step::Decided(self.version, tries, None),
                    Verdict::Wait(_) | Verdict::Refused { .. } => Step::Idle,
                }
            }
            Step::Decided(version, ..) if version != self.version => Step::Idle,
            Step::Decided(_, tries, caution) => {
                self.tries = tries;
                self.version += 1;
                agent.unsent = caution.is_some();
                caution.map_or(Step::Idle, |caution| Step::Granted(self.clock, caution))
            }
            // Others may have taken it for gone.
            Step::Granted(since, _) if self.clock - since > MARGIN => Step::Idle,
            Step::Granted(_, caution) => {
                agent.unsent = false;
                Step::Told(self.token.log_in(agent.pin.0, agent.pin.1, caution))
            }
            Step::Told(outcome) => {
                if let Some(tries) = settle(&self.tries, &key, &agent.by, outcome, now) {
                    self.tries = tries;
                    self.version += 1;
                }
                agent.open = outcome == Outcome::Accepted;
                agent.known_right = agent.open;
                Step::Idle
            }
        };
    }
}
