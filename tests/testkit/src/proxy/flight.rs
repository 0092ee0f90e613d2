//! Requests that are under way, so that they can be cut.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use tokio_util::sync::CancellationToken;

use super::request::{Match, Request};

#[derive(Debug)]
pub(super) struct Flight {
    request: Request,
    token: CancellationToken,
}

impl Flight {
    pub(super) async fn cut(&self) {
        self.token.cancelled().await;
    }
}

#[derive(Debug, Default)]
pub(super) struct Flights(Mutex<Vec<Weak<Flight>>>);

impl Flights {
    pub(super) fn begin(&self, request: &Request) -> Arc<Flight> {
        let flight = Arc::new(Flight {
            request: request.clone(),
            token: CancellationToken::new(),
        });
        let mut flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        flights.retain(|flight| flight.strong_count() > 0);
        flights.push(Arc::downgrade(&flight));
        flight
    }

    pub(super) fn under_way(&self, on: &Match) -> Vec<Arc<Flight>> {
        let flights = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        flights
            .iter()
            .filter_map(Weak::upgrade)
            .filter(|flight| !flight.token.is_cancelled() && on.matches(&flight.request))
            .collect()
    }

    pub(super) fn cut(&self, on: &Match) -> usize {
        let flights = self.under_way(on);
        for flight in &flights {
            flight.token.cancel();
        }
        flights.len()
    }
}
