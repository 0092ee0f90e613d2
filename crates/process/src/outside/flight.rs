//! Single flight: calls with the same key that run at the same time are one call.

use std::any::{Any, TypeId};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures::FutureExt;
use futures::future::{BoxFuture, Shared, WeakShared};

use super::OutsideError;

type Call<T> = BoxFuture<'static, Result<T, OutsideError>>;
type Key = (TypeId, String);

/// The calls that run, by key and result type.
#[derive(Default)]
pub(super) struct Flights(Mutex<Running>);

#[derive(Default)]
struct Running {
    next: u64,
    /// Weak, so that a call for which nobody waits ends. The number tells a call from a later one of the same key.
    calls: HashMap<Key, (u64, Box<dyn Any + Send + Sync>)>,
}

impl Flights {
    /// The running call of this key, or a new one. Whoever polls drives it, so that it survives the one who began it.
    pub(super) fn join<T>(self: &Arc<Self>, key: String, call: impl FnOnce() -> Call<T>) -> Shared<Call<T>>
    where
        T: Clone + Send + Sync + 'static,
    {
        let key = (TypeId::of::<T>(), key);
        let mut running = self.lock();
        let found = running
            .calls
            .get(&key)
            .and_then(|(_, any)| any.downcast_ref::<WeakShared<Call<T>>>());
        if let Some(shared) = found.and_then(WeakShared::upgrade) {
            return shared;
        }
        running.next += 1;
        let landing = Landing {
            flights: self.clone(),
            key: key.clone(),
            number: running.next,
        };
        let call = call();
        let shared = async move {
            let _landing = landing;
            call.await
        };
        let shared = shared.boxed().shared();
        if let Some(weak) = shared.downgrade() {
            let number = running.next;
            running.calls.insert(key, (number, Box::new(weak)));
        }
        shared
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Takes a call off the list when it ends or nobody waits any more.
struct Landing {
    flights: Arc<Flights>,
    key: Key,
    number: u64,
}

impl Drop for Landing {
    fn drop(&mut self) {
        let mut running = self.flights.lock();
        if running
            .calls
            .get(&self.key)
            .is_some_and(|(number, _)| *number == self.number)
        {
            running.calls.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn leaves_nothing_behind() {
        let flights = Arc::new(Flights::default());
        let join = || flights.join("key".into(), || futures::future::ready(Ok(1)).boxed());
        join().await.unwrap();
        assert!(flights.lock().calls.is_empty());
        drop(join());
        assert!(flights.lock().calls.is_empty());
    }
}
