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
    /// What an agent has decided is written, and it does not hear so.
    Unheard(usize),
    /// An agent that was let in has to log in again. It asks nobody: it knows the PIN.
    Replug(usize),
    /// An agent that was let in is told to change the PIN to this one.
    ChangePin(usize, u8),
    /// Time passes.
    Pass(u8),
    /// Somebody writes another PIN into the Secret.
    Write(u8),
    /// Somebody makes the Secret anew.
    Recreate,
    /// Somebody allows another try.
    Again,
    /// Somebody deletes the key of the record, and another one is made.
    LoseKey,
    /// Somebody empties the record.
    LoseRecord,
    /// Somebody changes the PIN of the token with another tool.
    Change(u8),
}

/// The token: it counts.
pub struct Token {
    pub right: u8,
    pub tells: bool,
    pub wrong_in_a_row: u32,
    pub locks_after: u32,
    /// How often each value was wrong since it was last right.
    pub wrong: BTreeMap<u8, u32>,
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

    fn log_in(&mut self, pin: u8, caution: Caution) -> Outcome {
        let may = match caution {
            Caution::Clear => self.flags() == Flags::Clear,
            Caution::Corrected => matches!(self.flags(), Flags::Clear | Flags::Low),
            Caution::Ordered => true,
        };
        match may {
            true => self.judge(pin),
            false => Outcome::Withdrawn,
        }
    }

    fn judge(&mut self, pin: u8) -> Outcome {
        if pin == self.right {
            self.wrong_in_a_row = 0;
            return Outcome::Accepted;
        }
        self.wrong_in_a_row += 1;
        *self.wrong.entry(pin).or_default() += 1;
        Outcome::Rejected
    }

    fn set_pin(&mut self, old: u8, new: u8) -> Exchanged {
        if self.flags() != Flags::Clear {
            return Exchanged::Undone;
        }
        match self.judge(old) {
            Outcome::Accepted => {
                self.become_right(new);
                Exchanged::Done
            }
            outcome => Exchanged::Refused(outcome),
        }
    }

    fn become_right(&mut self, pin: u8) {
        self.right = pin;
        self.wrong.remove(&pin);
    }

    /// How often the value that was wrong most often was.
    pub fn most(&self) -> u32 {
        self.wrong.values().max().copied().unwrap_or_default()
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
    /// It has read the record for a change of the PIN.
    Changes(u64, Vec<Try>, u8),
    /// That the change is under way is written.
    Changing(u8),
    /// The token has answered.
    Changed(u8, Exchanged),
}

struct Agent {
    by: String,
    /// The id of its key.
    key: String,
    /// The Secret, the PIN of it, and the text on it.
    given: (u32, u8, u32),
    step: Step,
    seen: Sightings,
    /// A try that it may have written down, and has not sent.
    unsent: Option<(Names, Unsent)>,
    known_right: bool,
    open: bool,
    /// The PIN that it is to change to.
    wish: Option<u8>,
}

pub struct World {
    pub token: Token,
    pub tries: Vec<Try>,
    /// How often somebody has allowed another try.
    pub allowed: u32,
    agents: Vec<Agent>,
    secret: (u32, u8),
    keys: u32,
    version: u64,
    clock: Duration,
    starts: u32,
}

pub const DIGESTS: [&str; 4] = ["a", "b", "c", "d"];

/// What an agent knows a PIN by: a digest of another key is another one.
struct Names {
    secret: String,
    digest: String,
    key: String,
    again: String,
}

impl Names {
    fn of(agent: &Agent, pin: u8) -> Self {
        let (secret, _, again) = agent.given;
        Self {
            secret: format!("s{secret}"),
            digest: format!("{}-{}", DIGESTS[pin as usize], agent.key),
            key: agent.key.clone(),
            again: word(&"x".repeat(again as usize)),
        }
    }

    fn key(&self) -> Key<'_> {
        Key {
            token: "t",
            secret: &self.secret,
            digest: &self.digest,
            key: &self.key,
        }
    }
}

impl World {
    pub fn new(token: Token, agents: usize, pin: u8) -> Self {
        let mut world = Self {
            token,
            tries: Vec::new(),
            allowed: 0,
            agents: Vec::new(),
            secret: (0, pin),
            keys: 0,
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
            key: format!("k{}", self.keys),
            given: self.given(),
            step: Step::Idle,
            seen: Sightings::default(),
            unsent: None,
            known_right: false,
            open: false,
            wish: None,
        }
    }

    fn given(&self) -> (u32, u8, u32) {
        (self.secret.0, self.secret.1, self.allowed)
    }

    pub fn is_open(&self, agent: usize) -> bool {
        self.agents[agent].open
    }

    /// Whether an agent has written a try down of which nobody knows what comes of it.
    pub fn is_at_it(&self, agent: usize) -> bool {
        let agent = &self.agents[agent];
        agent.unsent.is_some() || !matches!(agent.step, Step::Idle | Step::Decided(..))
    }

    /// Lets an event happen; one of an agent that there is not is none.
    pub fn happen(&mut self, event: Event) {
        match event {
            Event::Step(at)
            | Event::Unheard(at)
            | Event::Restart(at, _)
            | Event::Replug(at)
            | Event::ChangePin(at, _)
                if at >= self.agents.len() => {}
            Event::Step(agent) => self.step(agent),
            Event::Unheard(agent) => {
                if matches!(self.agents[agent].step, Step::Decided(..)) {
                    self.step(agent);
                    self.agents[agent].step = Step::Idle;
                }
            }
            Event::Restart(agent, elsewhere) => {
                let starts = self.starts;
                let pod = pod(&self.agents[agent].by).to_owned();
                let pod = if elsewhere { format!("pod-{starts}") } else { pod };
                self.agents[agent] = self.begin(&pod);
            }
            Event::Replug(agent) => self.agents[agent].open = false,
            Event::ChangePin(agent, pin) => self.agents[agent].wish = Some(pin),
            Event::Pass(seconds) => self.clock += Duration::from_secs(seconds.into()),
            Event::Write(pin) => self.secret.1 = pin,
            Event::Recreate => self.secret.0 += 1,
            Event::Again => self.allowed += 1,
            Event::LoseKey => self.keys += 1,
            Event::LoseRecord => self.write(Vec::new()),
            Event::Change(pin) => self.token.become_right(pin),
        }
    }

    fn write(&mut self, tries: Vec<Try>) {
        self.tries = tries;
        self.version += 1;
    }

    fn step(&mut self, at: usize) {
        // No two things happen at one time.
        self.clock += Duration::from_nanos(1);
        let step = std::mem::take(&mut self.agents[at].step);
        let next = match step {
            Step::Idle => self.look(at),
            Step::Decided(version, ..) | Step::Changes(version, ..) if version != self.version => Step::Idle,
            Step::Decided(_, tries, caution) => {
                self.write(tries);
                caution.map_or(Step::Idle, |caution| Step::Granted(self.clock, caution))
            }
            // Others may have taken it for gone.
            Step::Granted(since, _) if self.clock - since > MARGIN => Step::Idle,
            Step::Granted(_, caution) => {
                self.agents[at].unsent = None;
                Step::Told(self.token.log_in(self.agents[at].given.1, caution))
            }
            Step::Told(outcome) => self.note(at, outcome),
            Step::Changes(_, tries, new) => {
                self.write(tries);
                Step::Changing(new)
            }
            Step::Changing(new) => {
                let old = self.agents[at].given.1;
                Step::Changed(new, self.token.set_pin(old, new))
            }
            Step::Changed(new, end) => self.note_change(at, new, end),
        };
        self.agents[at].step = next;
    }

    /// What an agent does that has nothing under way.
    fn look(&mut self, at: usize) -> Step {
        let agent = &mut self.agents[at];
        if agent.open {
            return self.look_at_change(at);
        }
        if agent.known_right {
            // The token must show no wrong PIN, so that nobody's flags are cleared by it.
            agent.known_right = false;
            return Step::Told(self.token.log_in(agent.given.1, Caution::Clear));
        }
        let given = (self.secret.0, self.secret.1, self.allowed);
        if agent.given != given {
            agent.given = given;
            return Step::Idle;
        }
        agent.seen.look(&self.tries, self.clock);
        let names = Names::of(agent, agent.given.1);
        let now = now() + self.clock;
        let tries = match &agent.unsent {
            Some((names, unsent)) => unsent.withdraw(self.tries.clone(), &names.key(), &agent.by),
            None => self.tries.clone(),
        };
        let case = Case {
            key: names.key(),
            by: &agent.by,
            again: &names.again,
            account: Account::Automatic,
            flags: self.token.flags(),
            now,
            window: WINDOW,
        };
        match decide(&tries, &case, &agent.seen) {
            Verdict::Try { tries, caution } => {
                let known = agent.unsent.take();
                let known = known.filter(|(known, _)| known.key() == names.key());
                let (names, mut unsent) = known.unwrap_or((names, Unsent::default()));
                unsent.begin(now);
                agent.unsent = Some((names, unsent));
                Step::Decided(self.version, tries, Some(caution))
            }
            Verdict::Refused {
                tries: Some(tries), ..
            } => Step::Decided(self.version, tries, None),
            Verdict::Wait(_) | Verdict::Refused { .. } => Step::Idle,
        }
    }

    fn look_at_change(&mut self, at: usize) -> Step {
        let agent = &self.agents[at];
        let Some(new) = agent.wish else {
            return Step::Idle;
        };
        let names = [agent.given.1, new].map(|pin| Names::of(agent, pin));
        let change = Exchange {
            old: names[0].key(),
            new: names[1].key(),
        };
        match begin_change(&self.tries, &change, &agent.by, now() + self.clock) {
            Some(tries) => Step::Changes(self.version, tries, new),
            None => Step::Idle,
        }
    }

    fn note(&mut self, at: usize, outcome: Outcome) -> Step {
        let agent = &mut self.agents[at];
        agent.open = outcome == Outcome::Accepted;
        agent.known_right = agent.open;
        let names = Names::of(agent, agent.given.1);
        let settled = settle(&self.tries, &names.key(), &agent.by, outcome, now() + self.clock);
        if let Some(tries) = settled {
            self.write(tries);
        }
        Step::Idle
    }

    fn note_change(&mut self, at: usize, new: u8, end: Exchanged) -> Step {
        let agent = &mut self.agents[at];
        agent.wish = None;
        let names = [agent.given.1, new].map(|pin| Names::of(agent, pin));
        let change = Exchange {
            old: names[0].key(),
            new: names[1].key(),
        };
        match end {
            Exchanged::Done => agent.given.1 = new,
            Exchanged::Refused(_) => (agent.open, agent.known_right) = (false, false),
            Exchanged::Undone => {}
        }
        let by = agent.by.clone();
        if let Some(tries) = end_change(&self.tries, &change, &by, end, now() + self.clock) {
            self.write(tries);
        }
        Step::Idle
    }
}
