//! Nobody's flood costs another's note, and nothing that was taken is lost.

use proptest::prelude::*;

use super::*;

fn flood(buffer: &mut Buffer, namespace: &str, notes: usize) -> usize {
    let told = |n: &usize| {
        let name = format!("{namespace}-{n}");
        let note = note_in(namespace, &name, "x");
        buffer.tell(&name, &note, seconds(0), wall(0)).is_taken()
    };
    (0..notes).filter(told).count()
}

#[test]
fn a_flood_of_one_namespace_leaves_room_for_others() {
    let mut buffer = Buffer::default();
    let taken = flood(&mut buffer, "loud", 10 * SHARED);
    assert_eq!(taken, SHARED / 2);
    assert_eq!(
        flood(&mut buffer, "other", SHARED / 4),
        SHARED / 4,
        "as much again as is left"
    );
    for n in 0..100 {
        let quiet = format!("quiet-{n}");
        assert_eq!(flood(&mut buffer, &quiet, GUARANTEED), GUARANTEED, "{quiet}");
    }
}

#[test]
fn a_refused_note_is_taken_when_there_is_room_again() {
    let mut buffer = Buffer::default();
    flood(&mut buffer, "loud", SHARED);
    let late = note_in("loud", "late", "x");
    assert_eq!(buffer.tell("late", &late, seconds(1), wall(1)), Told::Refused);
    let due = buffer.due(seconds(1)).unwrap();
    buffer.published(&due, stored(1), seconds(1));
    assert_eq!(
        buffer.tell("late", &late, seconds(1), wall(1)),
        Told::Started,
        "a refusal costs nothing of the budget"
    );
}

#[test]
fn namespaces_take_turns() {
    let mut buffer = Buffer::default();
    flood(&mut buffer, "loud", SHARED);
    for namespace in ["a", "z"] {
        flood(&mut buffer, namespace, 2);
    }
    let first: Vec<String> = (0..6)
        .filter_map(|_| buffer.due(seconds(0)))
        .map(|due| namespace(&due.note).to_owned())
        .collect();
    assert_eq!(first, ["a", "loud", "z", "a", "loud", "z"]);
}

#[derive(Debug, Clone)]
enum Move {
    /// Tells a note about one of some objects of one of some namespaces.
    Tell { namespace: u8, object: u16, text: u8 },
    /// Takes what is due.
    Send,
    /// The API server has taken the oldest that is being sent.
    Published,
    /// The API server has not taken it, and it is worth another try or not.
    Failed { again: bool },
    /// Time passes.
    Wait(u16),
}

fn moves() -> impl Strategy<Value = Vec<Move>> {
    let tell = (0..4_u8, 0..600_u16, 0..3_u8).prop_map(|(namespace, object, text)| Move::Tell {
        // Most is told in one namespace.
        namespace: namespace.saturating_sub(1),
        object,
        text,
    });
    let one = prop_oneof![
        12 => tell,
        3 => Just(Move::Send),
        2 => Just(Move::Published),
        1 => any::<bool>().prop_map(|again| Move::Failed { again }),
        1 => (0..400_u16).prop_map(Move::Wait),
    ];
    prop::collection::vec(one, 0..6000)
}

/// What a test counts beside the buffer.
#[derive(Default)]
struct Books {
    taken: u64,
    published: u64,
    given_up: u64,
    sending: Vec<Due>,
    now: u64,
}

impl Books {
    fn play(&mut self, buffer: &mut Buffer, one: &Move) {
        let now = seconds(self.now);
        match *one {
            Move::Tell {
                namespace,
                object,
                text,
            } => {
                let (ns, uid) = (format!("ns-{namespace}"), format!("{namespace}/{object}"));
                let note = note_in(&ns, &uid, &text.to_string());
                let name = format!("{uid}/{text}");
                let own = buffer.shares.get(&*ns).map_or(0, |share| share.waiting);
                let told = buffer.tell(&name, &note, now, wall(self.now as i64));
                assert!(own >= GUARANTEED || told != Told::Refused, "{ns} has its share");
                self.taken += u64::from(told.is_taken());
            }
            Move::Send => self.sending.extend(buffer.due(now)),
            Move::Published if !self.sending.is_empty() => {
                let due = self.sending.remove(0);
                buffer.published(&due, stored(1), now);
                self.published += u64::from(due.pending);
            }
            Move::Failed { again } if !self.sending.is_empty() => {
                let due = self.sending.remove(0);
                self.given_up += u64::from(buffer.failed(&due, now, again.then_some(seconds(5))));
            }
            Move::Published | Move::Failed { .. } => {}
            Move::Wait(wait) => self.now += u64::from(wait),
        }
    }

    fn balance(&self, buffer: &Buffer) {
        assert_eq!(self.taken, self.published + self.given_up + buffer.notes());
        assert!(buffer.waiting <= SHARED + GUARANTEED * buffer.shares.len());
        assert!(buffer.series.len() <= buffer.waiting + MAX_QUIET);
        assert_eq!(buffer.series.len(), buffer.waiting + buffer.quiet.len());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_note_that_was_taken_is_published_or_given_up(moves in moves()) {
        let (mut buffer, mut books) = (Buffer::default(), Books::default());
        for some in moves.chunks(50) {
            some.iter().for_each(|one| books.play(&mut buffer, one));
            books.balance(&buffer);
        }
        // At last the API server takes everything.
        while buffer.depth() > 0 {
            books.now += 600;
            for last in [Move::Send, Move::Published] {
                books.play(&mut buffer, &last);
            }
        }
        books.balance(&buffer);
        prop_assert_eq!(buffer.notes(), 0);
        prop_assert!(buffer.shares.is_empty());
    }
}
