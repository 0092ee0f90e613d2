//! Adds and removes one finalizer, without ever losing one of somebody else.

use http::Method;
use serde_json::{Value, json};
use trustplane_plan::{Finalizer, Keep, Meta};

use super::call::{Call, JSON_PATCH};
use super::error::{Attempt, WriteError};
use super::status::TRIES;
use super::written::note_update;
use super::{Writer, path};

impl Writer {
    /// Makes a finalizer present or absent.
    ///
    /// The write replaces the list, but only if it is still the list that was just read from the live object; otherwise it
    /// is read again. To remove it from an object that is gone is no error; to add it to one that is going is
    /// [`WriteError::Stale`].
    pub async fn finalizer(&self, change: &Finalizer) -> Result<(), WriteError> {
        let verb = if change.present {
            "add a finalizer to"
        } else {
            "remove a finalizer from"
        };
        let attempt = Attempt::new(verb, &change.target);
        for _ in 0..TRIES {
            let live = self.read(&attempt, &Keep::default()).await?;
            let live = match live.filter(|live| live.uid == change.uid) {
                Some(live) => live,
                None if change.present => return Err(WriteError::Stale(attempt)),
                None => return Ok(()),
            };
            if live.finalizers.iter().any(|name| name == change.name) == change.present {
                return Ok(());
            }
            if change.present && live.is_terminating() {
                return Err(WriteError::Stale(attempt));
            }
            let path = format!(
                "{}?fieldManager={}&fieldValidation=Strict",
                path(&attempt)?,
                self.manager
            );
            let call = Call::write(Method::PATCH, path, JSON_PATCH, &patch(change, &live));
            match self.write(&attempt, call).await {
                Ok(text) => {
                    note_update(&change.target, &text);
                    return Ok(());
                }
                // A test of the patch that fails is answered as an invalid request without a word about the reason, and a
                // patch of a vanished object as a stale one: the next read tells.
                Err(WriteError::Stale(_) | WriteError::Invalid { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Err(WriteError::Stale(attempt))
    }
}

fn patch(change: &Finalizer, live: &Meta) -> Value {
    let others = live.finalizers.iter().filter(|name| *name != change.name);
    let mut wish: Vec<&str> = others.map(String::as_str).collect();
    if change.present {
        wish.push(change.name);
    }
    // A list that is not there equals null.
    let seen = if live.finalizers.is_empty() {
        Value::Null
    } else {
        json!(live.finalizers)
    };
    json!([
        { "op": "test", "path": "/metadata/uid", "value": live.uid.as_ref() },
        { "op": "test", "path": "/metadata/finalizers", "value": seen },
        { "op": "add", "path": "/metadata/finalizers", "value": wish },
    ])
}
