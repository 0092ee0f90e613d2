//! What a token that is open does for each request.

use trustplane_hsm_core::change::{Change, Terms};
use trustplane_hsm_core::secret::Value;
use trustplane_hsm_token::{Listing, Module, Pin, Store, TokenError, TokenInfo};

use crate::frame::Message;
use crate::wire::{self, Entry, Failure, Kind, Left, Reply, Request};

/// The PIN beside a request. An empty one would cost a try as well.
pub(super) fn pin(bytes: &Value) -> Option<Pin> {
    let text = std::str::from_utf8(bytes.expose()).ok();
    text.filter(|pin| !pin.is_empty()).map(Pin::new)
}

/// Carries out a request on a token that is open.
pub(super) fn carry_out(
    module: &Module,
    found: &TokenInfo,
    store: &mut Store<'_>,
    request: Message<Request>,
) -> Result<Message<Reply>, Failure> {
    let secrets = request.secrets;
    Ok(match request.head {
        Request::Read { path } => store.read(&wire::path(&path)?)?.into(),
        Request::Write {
            path,
            keys,
            metadata,
            terms,
        } => {
            let secret = wire::put_together(keys, metadata, secrets)?;
            changed(store, &path, &Change::Put(&secret), terms)?
        }
        Request::Delete {
            path,
            key,
            stamp,
            terms,
        } => match key {
            None => changed(store, &path, &Change::Delete(stamp), terms)?,
            Some(key) => changed(store, &path, &Change::DeleteKey(&wire::key(&key)?, stamp), terms)?,
        },
        Request::Purge { path, version, epoch } => {
            store.purge(&wire::path(&path)?, version, epoch)?;
            left(store, None)
        }
        Request::Survey { anew } => survey(store, anew)?.into(),
        Request::Generation => Reply::Generation(store.generation()?).into(),
        Request::Info => {
            let info = info(module, found)?;
            // A token that went and came back is there, and our session with it is not.
            store.assert_logged_in()?;
            Reply::Found(info).into()
        }
        Request::ChangePin { attempt } => {
            let [Some(old), Some(new)] = [secrets.first().and_then(pin), secrets.get(1).and_then(pin)] else {
                return Err(Failure::new(Kind::InvalidArgument, "no PIN"));
            };
            // The login is the token's, not the session's.
            let session = module.open(found).map_err(Failure::before)?;
            session.change_pin(&old, &new, attempt)?;
            Reply::Done.into()
        }
        Request::Find(_)
        | Request::FindBlank(_)
        | Request::LetGo
        | Request::Provision { .. }
        | Request::LogIn { .. }
        | Request::Serve { .. }
        | Request::Renew { .. } => {
            return Err(Failure::new(Kind::FailedPrecondition, "the token is open"));
        }
    })
}

/// Changes a secret, and says what there is of it then.
fn changed(
    store: &mut Store<'_>,
    path: &str,
    change: &Change<'_>,
    terms: Terms,
) -> Result<Message<Reply>, Failure> {
    let described = store.change(&wire::path(path)?, change, terms)?;
    Ok(left(store, Some(described.into())))
}

/// What a change has left.
fn left(store: &Store<'_>, entry: Option<Entry>) -> Message<Reply> {
    let left = Left {
        generation: store.known_generation(),
        capacity: store.known_capacity(),
    };
    Reply::Changed { entry, left }.into()
}

type Entries = Vec<(String, Result<Entry, Failure>)>;

fn entries(listing: Listing) -> Entries {
    let entries = listing.into_iter().map(|(path, described)| {
        (
            path.as_str().to_owned(),
            described.map(Entry::from).map_err(Failure::from),
        )
    });
    entries.collect()
}

/// All that is known of the token at one moment.
fn survey(store: &mut Store<'_>, anew: bool) -> Result<Reply, Failure> {
    let survey = store.survey(anew)?;
    Ok(Reply::Survey {
        entries: entries(survey.listing),
        capacity: survey.capacity,
        generation: survey.generation,
    })
}

/// What the token says of itself now, if it is still where it was found.
pub(super) fn info(module: &Module, found: &TokenInfo) -> Result<TokenInfo, TokenError> {
    let there = module
        .inventory()?
        .tokens
        .into_iter()
        .find(|token| token.slot == found.slot);
    there
        .filter(|token| same(token, found))
        .ok_or(TokenError::AnotherToken { slot: found.slot })
}

/// Whether it is the same token, whatever slot it is in.
pub(crate) fn same(one: &TokenInfo, other: &TokenInfo) -> bool {
    one.serial == other.serial && one.label == other.label && one.model == other.model
}
